//! Definitions that guards withhold or rewrite.

use super::*;
use crate::SourceKind;
use airlock_core::{
    door::{DefinitionGuards, GuardedList, WithheldTool},
    tool::{GuardAct, GuardDecision, GuardHook, HostCode, Prefix},
};

const SERVER: SourceKind = SourceKind::Server("stdio");

/// Withholds tools whose description is `bad`, and replaces that of the others.
struct Screening;

impl DefinitionGuards for Screening {
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    fn decide(&self, tools: Vec<Arc<Tool>>) -> GuardedList {
        let mut list = GuardedList::default();
        for tool in tools {
            if tool.description == "bad" {
                list.withheld.push(withheld(tool));
                continue;
            }
            let mut definition = tool.to_definition();
            definition.description = "read".to_owned();
            list.tools.push(Arc::new(tool.with_texts(definition).expect("a good definition")));
        }
        list
    }
}

fn withheld(tool: Arc<Tool>) -> WithheldTool {
    let act = GuardAct {
        guard: "reading".into(),
        digest: "sha256:0".into(),
        hook: GuardHook::Definition,
        verdict: GuardDecision::Deny,
    };
    WithheldTool { tool, act, code: "orders".to_owned(), reason: "it gives orders".to_owned() }
}

fn open() -> Policy {
    Policy { execute: Allowlist::All, ..Policy::default() }
}

/// Returns a catalog with guards of definitions, in which a client has two tools.
async fn guarded(kind: SourceKind, policy: Policy) -> Arc<Catalog> {
    let catalog = Catalog::new();
    catalog.set_definition_guards(Arc::new(Screening));
    catalog.add_client(&client("fs"), kind, policy);
    let tools = definitions(json!([
        {"name": "a", "inputSchema": {}, "description": "bad"},
        {"name": "b", "inputSchema": {}, "description": "good"},
    ]));
    catalog.publish(&client("fs"), tools, Arc::new(Unused)).await;
    catalog
}

/// Returns the names that a model sees.
fn listed(catalog: &Catalog) -> Vec<String> {
    let view = catalog.snapshot().view(&Filter::none(), None);
    view.list(&Origin::Model).map(|entry| entry.tool.name.to_string()).collect()
}

/// Returns the code of the error of a call.
fn code(catalog: &Catalog, origin: Origin, tool: &str) -> HostCode {
    let second = Duration::from_secs(1);
    let budget =
        Budget { deadline: second, script: second, nested_calls: 1, depth: 1, in_flight: 1 };
    let view = catalog.snapshot().view(&Filter::none(), None);
    let refused = Caller::new(view, origin, budget).admit(tool, "{}").err();
    refused.expect("it is refused").code()
}

#[tokio::test]
async fn a_withheld_tool_is_not_listed_and_a_call_of_it_has_the_decision_of_the_guard() {
    let catalog = guarded(SERVER, open()).await;
    assert_eq!(listed(&catalog), ["fs-b"]);
    assert_eq!(code(&catalog, Origin::Caller, "fs-a"), HostCode::GuardDenied);
    assert_eq!(code(&catalog, Origin::Caller, "fs-c"), HostCode::NotFound);
    // Its names follow the policy.
    catalog.set_policy(&client("fs"), Policy { prefix: Prefix::Other(client("disk")), ..open() });
    for name in ["fs-a", "disk-a"] {
        assert_eq!(code(&catalog, Origin::Caller, name), HostCode::GuardDenied, "{name}");
    }
}

#[tokio::test]
async fn a_withheld_tool_that_the_caller_may_not_see_is_like_an_unknown_one() {
    let catalog = guarded(SERVER, open()).await;
    for (granted, expected) in [("fs-a", HostCode::GuardDenied), ("fs-b", HostCode::NotFound)] {
        let plugin = Origin::Plugin(Arc::new([granted.to_owned()].into()));
        assert_eq!(code(&catalog, plugin, "fs-a"), expected, "{granted}");
    }
    catalog.set_policy(&client("fs"), Policy::default());
    assert_eq!(code(&catalog, Origin::Caller, "fs-a"), HostCode::NotFound);
}

#[tokio::test]
async fn the_reason_of_the_guard_is_explained_and_the_announced_text_is_shown_to_operators() {
    let catalog = guarded(SERVER, open()).await;
    let snapshot = catalog.snapshot();
    let source = snapshot.clients().next().expect("one client");
    let tool = &source.tools[0];
    assert_eq!((&*tool.description, tool.announced_description()), ("read", "good"));
    assert_eq!(source.left_out[0].cause, LeftOutCause::Guard);
    let filter = Filter::none();
    let lines = snapshot.explain(&filter, None).lines().join("\n");
    assert!(lines.contains("fs-a: hidden\n  guard: "), "{lines}");
    let reason = r#"the guard "reading" denies its definition: it gives orders (orders)"#;
    assert!(lines.contains(reason), "{lines}");
}

#[tokio::test]
async fn a_later_list_replaces_what_is_withheld_and_tools_of_the_program_are_not_looked_at() {
    let catalog = guarded(SERVER, open()).await;
    let tools = definitions(json!([{"name": "a", "inputSchema": {}, "description": "good"}]));
    catalog.publish(&client("fs"), tools, Arc::new(Unused)).await;
    assert_eq!(listed(&catalog), ["fs-a"]);
    catalog.withdraw(&client("fs"), "gone".to_owned());
    assert_eq!(code(&catalog, Origin::Caller, "fs-a"), HostCode::NotFound);
    let program = guarded(SourceKind::Internal, open()).await;
    assert_eq!(listed(&program), ["fs-a", "fs-b"]);
}
