mod definitions;

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::json;

use super::*;
use airlock_core::{
    door::{Admitted, Budget, Caller, Filter, FinishedCall, GuardedCall, Origin, ProposedCall},
    tenant::Tenant,
    tool::{Allowlist, CallError, ToolOutput},
};

pub(crate) struct Unused;
impl Provider for Unused {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Err(CallError::cancelled()) })
    }
}

pub(crate) fn client(name: &str) -> ClientName {
    ClientName::parse(name).expect("a good name")
}

fn definitions(json: serde_json::Value) -> Vec<ToolDefinition> {
    serde_json::from_value(json).expect("definitions")
}

#[test]
fn invalid_and_duplicate_tools_are_dropped_and_the_others_published() {
    let catalog = Catalog::new();
    let fs = client("fs");
    catalog.add_client(&fs, crate::SourceKind::Server("stdio"), Policy::default());
    let dropped = catalog.blocking_publish(
        &fs,
        definitions(json!([
            {"name": "b", "inputSchema": {}},
            {"name": "bad", "inputSchema": 7},
            {"name": "a", "inputSchema": {}, "description": "first"},
            {"name": "a", "inputSchema": {}, "description": "second"},
        ])),
        Arc::new(Unused),
    );
    let snapshot = catalog.snapshot();
    let client = snapshot.clients().next().expect("one client");
    let names: Vec<_> =
        client.tools.iter().map(|tool| (tool.name.as_str(), tool.description.as_str())).collect();
    assert_eq!(names, [("fs-a", "first"), ("fs-b", "")]);
    assert_eq!(dropped.len(), 2, "{dropped:?}");
}

#[test]
fn lists_of_the_operator_that_offer_nothing_or_name_no_tool_are_described() {
    assert_eq!(mismatches(&["*"], &["READ"]), Vec::<String>::new());
    assert_eq!(mismatches(&[], &[]), ["2 tools listed, 0 offered: `tools_to_execute` is empty"]);
    assert_eq!(
        mismatches(&["raed"], &[]),
        [
            "2 tools listed, 0 offered: `tools_to_execute` names none of them",
            "`tools_to_execute` names \"raed\", and no tool has this name; did you mean \"read\"?",
        ]
    );
}

/// Returns the mismatches of a client with the tools `read` and `write`.
fn mismatches(execute: &[&str], auto_execute: &[&str]) -> Vec<String> {
    let catalog = Catalog::new();
    let fs = client("fs");
    let policy = Policy {
        execute: Allowlist::parse(execute).expect("a good list"),
        auto_execute: Allowlist::parse(auto_execute).expect("a good list"),
        ..Policy::default()
    };
    catalog.add_client(&fs, crate::SourceKind::Server("stdio"), policy);
    let before = catalog.snapshot().clients().next().expect("one client").mismatches();
    assert!(before.is_empty(), "it was never listed: {before:?}");
    let tools = json!([
        {"name": "read", "inputSchema": {}}, {"name": "write", "inputSchema": {}},
    ]);
    catalog.blocking_publish(&fs, definitions(tools), Arc::new(Unused));
    let snapshot = catalog.snapshot();
    snapshot.clients().next().expect("one client").mismatches()
}

#[test]
fn a_snapshot_never_changes_and_a_disconnected_client_keeps_its_tools() {
    let catalog = Catalog::new();
    let fs = client("fs");
    catalog.add_client(&fs, crate::SourceKind::Server("stdio"), Policy::default());
    let before = catalog.snapshot();
    catalog.blocking_publish(
        &fs,
        definitions(json!([{"name": "a", "inputSchema": {}}])),
        Arc::new(Unused),
    );
    catalog.set_state(&fs, SourceState::Disconnected { reason: "gone".into() });
    assert!(before.clients().all(|client| client.tools.is_empty()));
    let after = catalog.snapshot();
    let client = after.clients().next().expect("one client");
    assert_eq!((client.tools.len(), client.state.reason()), (1, Some("gone")));
}

/// Returns a result with the key `secret`.
struct Telling;

impl Provider for Telling {
    fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Ok(structured("secret")) })
    }
}

fn structured(key: &str) -> ToolOutput {
    ToolOutput { structured: Some(json!({key: 1})), ..ToolOutput::default() }
}

/// Keeps the results that it observes.
#[derive(Default)]
struct Watcher(Mutex<Vec<ToolOutput>>);

impl Observer for Watcher {
    fn observe(&self, _: &Tenant, _: &Arc<Tool>, output: &ToolOutput) {
        self.0.lock().push(output.clone());
    }

    fn misfits(&self, _: &[Arc<Tool>]) -> Vec<(String, u64)> {
        Vec::new()
    }
}

/// Replaces each result.
struct Hiding;

impl CallGuards for Hiding {
    fn before<'g>(
        &'g self,
        _: &'g ProposedCall<'g>,
        _: Instant,
    ) -> BoxFuture<'g, Result<GuardedCall, CallError>> {
        Box::pin(async { Ok(GuardedCall::default()) })
    }

    fn looks_before(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn looks_after(&self, _: &ProposedCall<'_>) -> bool {
        true
    }

    fn after(
        &self,
        _: FinishedCall,
        _: Result<ToolOutput, CallError>,
    ) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async { Ok(structured("hidden")) })
    }
}

#[tokio::test]
async fn the_observer_sees_a_result_as_the_guards_leave_it() {
    let second = Duration::from_secs(1);
    let budget =
        Budget { deadline: second, script: second, nested_calls: 1, depth: 1, in_flight: 1 };
    for (is_guarded, expected) in [(false, "secret"), (true, "hidden")] {
        let catalog = Catalog::new();
        let watcher = Arc::new(Watcher::default());
        catalog.set_observer(watcher.clone());
        if is_guarded {
            catalog.set_guards(Arc::new(Hiding));
        }
        let fs = client("fs");
        let policy = Policy { execute: Allowlist::All, code_mode: true, ..Policy::default() };
        catalog.add_client(&fs, crate::SourceKind::Server("stdio"), policy);
        let tools = json!([{"name": "a", "inputSchema": {}}]);
        catalog.blocking_publish(&fs, definitions(tools), Arc::new(Telling));
        let view = catalog.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Caller, budget);
        let call = caller.admit("fs-a", "{}").expect("the request is the approval");
        assert_eq!(call.run().await.expect("it runs"), structured(expected));
        assert_eq!(*watcher.0.lock(), [structured(expected)]);
    }
}
