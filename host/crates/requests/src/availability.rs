//! Sources of tools that a request could use, and that have never been listed.
//!
//! A source is listed some seconds after the gateway has started. A request before that would
//! see a part of the tools without a notice. It waits until the startup wait has passed, and its
//! response names the sources that are still missing.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::{RequestParts, Sender};
use airlock_catalog::ToolSource;
use airlock_conversation::Object;
use airlock_core::door::Origin;

/// Member of the `airlock` object with the missing sources.
const UNAVAILABLE: &str = "unavailable";
/// Maximum number of sources that a response names. Each response to a model's caller repeats them.
const MAX_NAMED: usize = 100;

impl RequestParts {
    /// Waits for the sources that the sender may use and that are connecting for the first time, until
    /// the startup wait has passed since the gateway started.
    pub async fn wait_for_sources(&self, sender: &Sender) {
        self.wait(sender, || false).await;
    }

    /// Waits as [`Self::wait_for_sources`] does, and not longer than until the tool `name` of a source is
    /// there. A meta-tool uses the tools of all sources.
    pub async fn wait_for_tool(&self, sender: &Sender, name: &str) {
        let waiting = self.wait(sender, || {
            let view = self.view(sender);
            view.find(&Origin::Caller, name).is_some_and(|entry| entry.tool.client.is_some())
        });
        waiting.await;
    }

    /// Waits until no source is missing, until `is_enough`, or until the startup wait has passed.
    async fn wait(&self, sender: &Sender, is_enough: impl Fn() -> bool) {
        let left = self.startup_wait.saturating_sub(self.started.elapsed());
        if left.is_zero() {
            return;
        }
        let filter = &sender.filter;
        let key = sender.key.as_deref();
        let settled = self.catalog.settled(Instant::now() + left, |client: &ToolSource| {
            self.catalog.snapshot().is_missing(client, filter, key) && !is_enough()
        });
        settled.await;
    }

    /// Adds the sources that the sender could use if they were listed, with their states. Reasons are for
    /// the operator.
    pub fn add_missing(&self, sender: &Sender, notes: &mut Object) {
        let snapshot = self.catalog.snapshot();
        let missing = snapshot.missing(&sender.filter, sender.key.as_deref());
        let missing = missing
            .take(MAX_NAMED)
            .map(|client| json!({"client": client.name.as_str(), "state": client.state.name()}));
        let missing: Vec<Value> = missing.collect();
        if !missing.is_empty() {
            notes.insert(UNAVAILABLE.to_owned(), missing.into());
        }
    }
}
