//! Writes the entry of one client for one of several writers: while a source is replaced, its old and
//! its new connection run side by side, and only one of them may say what the catalog has.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::Ordering},
};

use super::{
    Catalog, Snapshot, SourceKind, SourceState, published::Published, source::WriterNumber,
};
use airlock_core::{
    door::Provider,
    tool::{ClientName, Offers, ToolDefinition},
};

/// Writes the entry of one client. Has an effect from [`EntryWriter::take`] until a later writer takes
/// the entry, or until the entry is removed; before and afterwards, writes are ignored.
pub struct EntryWriter {
    catalog: Arc<Catalog>,
    client: ClientName,
    number: WriterNumber,
}

impl EntryWriter {
    /// Creates a writer that has not taken the entry yet. Writers that are created later come later.
    pub fn new(catalog: Arc<Catalog>, client: ClientName) -> Self {
        let number = catalog.writers.fetch_add(1, Ordering::Relaxed) + 1;
        Self { catalog, client, number }
    }

    /// Returns the current snapshot of the catalog.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.catalog.snapshot()
    }

    /// Takes the entry, as one of a source of this kind, unless a later writer has it. From now on, the
    /// writes of the writer before are ignored. What it has published stays.
    pub fn take(&self, kind: SourceKind) {
        self.catalog.change(&self.client, |entry| {
            if entry.writer < self.number {
                entry.writer = self.number;
                entry.kind = kind;
            }
        });
    }

    /// Sets the provider before tools are published, so that its status can be read. Tools that an
    /// earlier writer has published stay, and are called at this provider. The state stays.
    pub fn offer(&self, provider: Arc<dyn Provider>) {
        self.catalog.change_as(&self.client, Some(self.number), |entry| {
            if let Some(published) = &entry.published {
                // The results are those of the provider before.
                let cache = published.cache.as_ref().map(|cache| cache.emptied());
                let published = Published { provider, cache, ..Published::clone(published) };
                return entry.set_published(published);
            }
            entry.provider = Some(provider);
        });
    }

    /// Does the same as [`Catalog::publish`]. The tools that `unaccepted` names need an approval,
    /// whatever the client's policy says.
    pub async fn publish(
        &self,
        definitions: Vec<ToolDefinition>,
        unaccepted: BTreeSet<String>,
        provider: Arc<dyn Provider>,
    ) -> Vec<String> {
        let adopted = self.catalog.adopt(&self.client, definitions).await;
        let Some(adopted) = adopted else { return Vec::new() };
        self.catalog.install(&self.client, Some(self.number), adopted, unaccepted, provider)
    }

    /// Replaces the resources and prompts. Readers are notified only if they have changed.
    pub fn publish_offers(&self, offers: Offers) {
        self.catalog.publish_offers_as(&self.client, Some(self.number), offers);
    }

    /// Forgets the kept results of the client's tools, whichever writer has the entry.
    pub fn forget_results(&self) {
        self.catalog.forget_results(&self.client);
    }

    /// Sets the state. The tools stay.
    pub fn set_state(&self, state: SourceState) {
        self.catalog.change_as(&self.client, Some(self.number), |entry| entry.state = state);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tests::{Unused, client};
    use airlock_core::tool::Policy;

    const STDIO: SourceKind = SourceKind::Server("stdio");

    /// Returns the state of the one client, with the names of its tools and its kind.
    fn shown(catalog: &Catalog) -> String {
        let snapshot = catalog.snapshot();
        let entry = snapshot.clients().next().expect("one client");
        let names: Vec<_> = entry.tools.iter().map(|tool| tool.name.as_str()).collect();
        format!("{:?} {} {}", entry.kind, entry.state.name(), names.join(" "))
    }

    async fn publish(writer: &EntryWriter, tool: &str) {
        let tools = json!([{"name": tool, "inputSchema": {}}]);
        let tools = serde_json::from_value(tools).expect("definitions");
        writer.publish(tools, BTreeSet::new(), Arc::new(Unused)).await;
    }

    #[tokio::test]
    async fn only_the_latest_writer_that_took_the_entry_has_an_effect() {
        let catalog = Catalog::new();
        let fs = client("fs");
        catalog.add_client(&fs, STDIO, Policy::default());
        let old = EntryWriter::new(catalog.clone(), fs.clone());
        let new = EntryWriter::new(catalog.clone(), fs.clone());
        publish(&old, "early").await;
        assert_eq!(shown(&catalog), "Server(\"stdio\") connecting ", "it was not taken yet");
        old.take(STDIO);
        publish(&old, "a").await;
        assert_eq!(shown(&catalog), "Server(\"stdio\") connected fs-a");
        new.take(SourceKind::Server("http"));
        assert_eq!(shown(&catalog), "Server(\"http\") connected fs-a", "what was published stays");
        new.set_state(SourceState::Failed { reason: "x".to_owned() });
        new.offer(Arc::new(Unused));
        old.take(STDIO);
        old.set_state(SourceState::Connected);
        publish(&old, "b").await;
        assert_eq!(shown(&catalog), "Server(\"http\") error fs-a");
        publish(&new, "c").await;
        assert_eq!(shown(&catalog), "Server(\"http\") connected fs-c");
    }

    #[tokio::test]
    async fn a_writer_of_a_removed_entry_does_not_write_the_next_one_of_its_name() {
        let catalog = Catalog::new();
        let fs = client("fs");
        catalog.add_client(&fs, STDIO, Policy::default());
        let old = EntryWriter::new(catalog.clone(), fs.clone());
        old.take(STDIO);
        catalog.remove_client(&fs);
        catalog.add_client(&fs, SourceKind::Plugin, Policy::default());
        publish(&old, "a").await;
        old.set_state(SourceState::Connected);
        assert_eq!(shown(&catalog), "Plugin connecting ");
    }
}
