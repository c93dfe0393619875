//! Sources of tools that a request could use, and that have never been listed.
//!
//! A source is listed some seconds after the gateway has started. A request before that would
//! see a part of the tools without a notice. It waits until the startup wait has passed, and its
//! response names the sources that are still missing.
//!
//! Before the settings in the store were read, no request is answered.

use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{App, respond::ApiError, sender::Sender};
use airlock_catalog::ToolSource;
use airlock_core::door::Origin;
use airlock_model::Object;

/// Member of the `airlock` object with the missing sources.
const UNAVAILABLE: &str = "unavailable";
/// Maximum number of sources that a response names. Each response to a model's caller repeats them.
const MAX_NAMED: usize = 100;

/// Fails until the settings that operators keep in the store were `read`.
pub(super) fn check_settings(read: &CancellationToken) -> Result<(), ApiError> {
    if read.is_cancelled() {
        return Ok(());
    }
    let error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "server_error",
        "settings_unavailable",
        "the gateway has not read its settings from the store yet; try again in a moment",
    );
    Err(error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1")))
}

/// Waits for the sources that the sender may use and that are connecting for the first time, until
/// `startup_wait` has passed since the gateway started.
pub(super) async fn wait_for_sources(app: &App, sender: &Sender) {
    wait(app, sender, || false).await;
}

/// Waits as [`wait_for_sources`] does, and not longer than until the tool `name` of a source is
/// there. A meta-tool uses the tools of all sources.
pub(super) async fn wait_for_tool(app: &App, sender: &Sender, name: &str) {
    let waiting = wait(app, sender, || {
        let view = app.view(sender);
        view.find(&Origin::Caller, name).is_some_and(|entry| entry.tool.client.is_some())
    });
    waiting.await;
}

/// Waits until no source is missing, until `is_enough`, or until the startup wait has passed.
async fn wait(app: &App, sender: &Sender, is_enough: impl Fn() -> bool) {
    let left = app.settings.startup_wait.saturating_sub(app.started.elapsed());
    if left.is_zero() {
        return;
    }
    let filter = &sender.filter;
    let key = sender.key.as_deref();
    let settled = app.catalog.settled(Instant::now() + left, |client: &ToolSource| {
        app.catalog.snapshot().is_missing(client, filter, key) && !is_enough()
    });
    settled.await;
}

/// Adds the sources that the sender could use if they were listed, with their states. Reasons are for
/// the operator.
pub(super) fn add_notes(app: &App, sender: &Sender, notes: &mut Object) {
    let snapshot = app.catalog.snapshot();
    let missing = snapshot.missing(&sender.filter, sender.key.as_deref());
    let missing = missing
        .take(MAX_NAMED)
        .map(|client| json!({"client": client.name.as_str(), "state": client.state.name()}));
    let missing: Vec<Value> = missing.collect();
    if !missing.is_empty() {
        notes.insert(UNAVAILABLE.to_owned(), missing.into());
    }
}
