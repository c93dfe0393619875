//! Lists of several instances, with pins in a store on disk.

use std::pin::pin;

use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Handle;

use super::*;
use crate::pins::Pins;
use airlock_catalog::Catalog;
use airlock_core::tool::{Allowlist, Policy};
use airlock_mcp_client::{Process, Settings};

/// Longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// A client of several instances, of which none has listed its tools yet.
struct Client {
    entry: ClientEntry,
    server: Arc<Server>,
    catalog: Arc<Catalog>,
    _home: TempDir,
}

impl Client {
    fn new(instances: usize, patience: Duration) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let name = ClientName::parse("up").expect("a good name");
        let mut settings = Settings::new(name.clone(), Process::default());
        settings.others = vec![settings.transport.clone(); instances - 1];
        let server = Server::new(&settings, Handle::current(), None, None);
        let store = airlock_store::Settings::new(home.path().join("airlock.db"));
        let pins = Pins::new(None, store.into()).add(&settings);
        let catalog = Catalog::new();
        let kind = SourceKind::Server("stdio");
        let policy = Policy { execute: Allowlist::All, ..Policy::default() };
        catalog.add_client(&name, kind, policy);
        let writer = EntryWriter::new(catalog.clone(), name.clone());
        let starting = CancellationToken::new().drop_guard();
        let entry = ClientEntry::new(writer, kind, name, pins, server.clone(), patience, starting);
        Self { entry, server, catalog, _home: home }
    }

    /// Has the instance of this number list tools. Returns whether it is held out.
    async fn list(&self, number: usize, tools: &[(&str, &str)]) -> bool {
        let instance = &self.server.instances()[number - 1];
        let outcome = self.entry.list(instance, definitions(tools), || {}).await;
        assert_eq!(instance.is_admitted(), outcome.held_out.is_none());
        outcome.held_out.is_some()
    }

    async fn fail(&self, number: usize) {
        let state = SourceState::Disconnected { reason: "it ended".into() };
        self.entry.set_away(&self.server.instances()[number - 1], state).await;
    }

    /// Returns `name=description` of the tools that are offered.
    fn offered(&self) -> String {
        let snapshot = self.catalog.snapshot();
        let client = snapshot.clients().next().expect("one client");
        let tools = client.tools.iter();
        let tools = tools.map(|tool| format!("{}={}", tool.original, tool.description));
        tools.collect::<Vec<_>>().join(" ")
    }
}

fn definitions(tools: &[(&str, &str)]) -> Vec<ToolDefinition> {
    let tools = tools.iter().map(|(name, description)| {
        let tool = json!({"name": name, "description": description, "inputSchema": {}});
        serde_json::from_value(tool).expect("a definition")
    });
    tools.collect()
}

#[tokio::test]
async fn on_first_use_the_most_frequent_list_is_pinned_and_not_that_of_the_fastest_instance() {
    let client = Client::new(3, PATIENCE);
    let mut fastest = pin!(client.list(1, &[("a", "odd"), ("b", "odd")]));
    let listed = client.entry.members.lock()[0].first_list.clone();
    tokio::select! {
        _ = &mut fastest => panic!("it waits for the others"),
        () = listed.cancelled() => {}
    }
    assert_eq!(client.offered(), "");
    let held_out =
        tokio::join!(fastest, client.list(2, &[("a", "1")]), client.list(3, &[("a", "1")]));
    assert_eq!(held_out, (true, false, false));
    assert_eq!(client.offered(), "a=1");
    assert_eq!(*client.server.quarantine(), ["a".to_owned(), "b".to_owned()]);
    assert!(client.list(1, &[("a", "odd")]).await, "it is compared with what is pinned");
    assert_eq!(*client.server.quarantine(), ["a".to_owned()]);
}

#[tokio::test]
async fn on_first_use_instances_that_fail_or_take_too_long_are_not_waited_for() {
    let client = Client::new(3, PATIENCE);
    let ((), is_held_out, ()) =
        tokio::join!(client.fail(2), client.list(1, &[("a", "1")]), client.fail(3));
    assert!(!is_held_out);
    assert_eq!(client.offered(), "a=1");
    let client = Client::new(2, Duration::ZERO);
    assert!(!client.list(1, &[("a", "1")]).await);
    assert_eq!(client.offered(), "a=1");
}

#[tokio::test]
async fn an_instance_with_fewer_tools_or_none_does_not_hold_out_the_one_with_all() {
    for (fewer, while_away) in [(&[("a", "1")][..], "a=1"), (&[], "a=1 b=1")] {
        let client = Client::new(2, Duration::ZERO);
        assert!(!client.list(1, &[("a", "1"), ("b", "1")]).await);
        assert!(client.list(2, fewer).await, "{fewer:?}");
        client.fail(1).await;
        assert_eq!(client.offered(), while_away, "an empty list takes no tools away");
        assert_eq!(client.server.instances()[1].is_admitted(), !fewer.is_empty(), "{fewer:?}");
        assert!(!client.list(1, &[("a", "1"), ("b", "1")]).await, "{fewer:?}");
        assert!(!client.server.instances()[1].is_admitted(), "{fewer:?}");
    }
}

#[tokio::test]
async fn only_the_list_of_one_of_several_instances_is_compared_however_short_it_is() {
    let client = Client::new(2, Duration::ZERO);
    client.list(1, &[("a", "1"), ("b", "1")]).await;
    for (tools, differs) in
        [(&[("a", "1")][..], false), (&[], false), (&[("a", "2")], true), (&[("c", "1")], true)]
    {
        assert_eq!(client.entry.differs(&definitions(tools)).await, differs, "{tools:?}");
    }
    let sole = Client::new(1, Duration::ZERO);
    sole.list(1, &[("a", "1"), ("b", "1")]).await;
    assert!(!sole.entry.differs(&definitions(&[("a", "2")])).await);
}
