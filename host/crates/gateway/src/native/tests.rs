use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use super::*;
use airlock_catalog::Catalog;
use airlock_core::{
    door::{Budget, Caller, Filter, Origin},
    tool::{Allowlist, CallError, ErrorKind, HostCode, Policy},
};

const BUDGET: Budget = Budget {
    deadline: std::time::Duration::from_secs(30),
    script: std::time::Duration::from_secs(30),
    nested_calls: 1,
    depth: 1,
    in_flight: 1,
};

fn tool(name: &str, schema: Value) -> NativeTool {
    NativeTool::new(name, "", schema, |_, _| async { Ok(ToolOutput::text("it ran")) })
}

/// Publishes tools. Returns them with their catalog.
fn published(tools: impl IntoIterator<Item = NativeTool>) -> (ProgramTools, Arc<Catalog>) {
    let mut all = NativeTools::default();
    for tool in tools {
        all.register(tool).expect("a good tool");
    }
    let catalog = Catalog::new();
    let policy = Policy { execute: Allowlist::All, ..Policy::default() };
    let tools = ProgramTools::new(&catalog, policy, all);
    (tools.expect("their schemas are small"), catalog)
}

async fn call(catalog: &Catalog, tool: &str, arguments: Value) -> Result<ToolOutput, CallError> {
    let view = catalog.snapshot().view(&Filter::none(), None);
    let caller = Caller::new(view, Origin::Caller, BUDGET);
    caller.admit(tool, &arguments.to_string())?.run().await
}

fn listed(catalog: &Catalog) -> Vec<String> {
    let snapshot = catalog.snapshot();
    let tools = snapshot.clients().flat_map(|client| client.tools.iter());
    tools.map(|tool| tool.name.as_str().to_owned()).collect()
}

#[test]
fn a_tool_that_the_catalog_would_not_take_is_refused() {
    let refused = NativeTools::default().register(tool("a b", json!({})));
    assert!(matches!(refused, Err(BadNativeTool::Tool(BadInternalTool::Name(_)))));
    let output = tool("a", json!({})).output_schema(json!("text"));
    let refused = NativeTools::default().register(output);
    assert!(matches!(refused, Err(BadNativeTool::Tool(BadInternalTool::Definition(_)))));
}

#[test]
fn annotations_leave_those_of_the_effect_that_they_do_not_set() {
    let remote = Annotations { open_world: Some(true), ..Annotations::default() };
    let tool = tool("a", json!({})).effect(ToolEffect::Reads).annotations(remote);
    let found = &tool.definition.annotations;
    assert_eq!(
        (found.read_only, found.destructive, found.idempotent, found.open_world),
        (Some(true), Some(false), Some(true), Some(true))
    );
    let changed = Annotations { idempotent: Some(false), ..Annotations::default() };
    assert_eq!(tool.annotations(changed).definition.annotations.idempotent, Some(false));
}

/// Returns a tool whose schema takes about a fifth of the memory that those of all tools may take.
fn large(name: &str) -> NativeTool {
    tool(name, json!({"properties": {"a": {"enum": vec![0; 100_000]}}}))
}

#[tokio::test]
async fn schemas_that_are_together_too_large_are_refused_and_nothing_is_unchecked() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut all = NativeTools::default();
    for name in names {
        all.register(large(name)).expect("alone, each can be checked");
    }
    let refused = ProgramTools::new(&Catalog::new(), Policy::default(), all);
    assert!(refused.is_err());
    let (tools, catalog) = published([large("a"), large("b")]);
    let mut refused = 0;
    for name in &names[2..] {
        match tools.register(large(name)).await {
            Ok(()) => {}
            Err(BadNativeTool::Schemas(_)) => refused += 1,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0);
    assert_eq!(listed(&catalog).len(), names.len() - refused);
    assert_eq!(tools.names().await.len(), names.len() - refused);
    let misfit = call(&catalog, "internal-a", json!({"a": 1})).await;
    assert_eq!(misfit.expect_err("it is checked").code(), HostCode::BadArguments);
}

#[tokio::test]
async fn a_null_that_does_not_fit_does_not_reach_the_body() {
    let schema = json!({"properties": {
        "count": {"type": "integer"},
        "note": {"type": ["string", "null"]},
    }});
    let echo = NativeTool::new("echo", "", schema, |arguments, _| async {
        Ok(ToolOutput { structured: Some(Value::Object(arguments)), ..ToolOutput::default() })
    });
    let (_, catalog) = published([echo]);
    for (given, received) in [
        (json!({"count": null}), json!({})),
        (json!({"count": 1, "note": null}), json!({"count": 1, "note": null})),
    ] {
        let output = call(&catalog, "internal-echo", given).await.expect("it fits");
        assert_eq!(output.structured, Some(received));
    }
}

#[test]
fn a_second_tool_of_a_name_is_refused_and_the_first_stays() {
    let mut tools = NativeTools::default();
    tools.register(tool("a", json!({}))).expect("the first");
    let refusal = tools.register(tool("a", json!({}))).expect_err("the second");
    assert_eq!(refusal.to_string(), r#"a tool named "a" is already registered"#);
}

#[derive(serde::Deserialize, JsonSchema)]
struct Ratio {
    part: f64,
    whole: f64,
}

#[derive(Serialize, JsonSchema)]
struct Percent {
    percent: f64,
}

async fn percent(ratio: Ratio, context: ToolContext) -> Result<Percent, ToolError> {
    assert_eq!(*context.origin(), Origin::Caller);
    if ratio.whole == 0.0 {
        return Err(ToolError::new(ErrorKind::InvalidInput, "`whole` must not be 0"));
    }
    Ok(Percent { percent: 100.0 * ratio.part / ratio.whole })
}

#[tokio::test]
async fn a_typed_tool_gets_its_arguments_and_returns_data_that_fit_its_schema() {
    let tool = NativeTool::typed("percent", "Divides.", percent).effect(ToolEffect::Reads);
    let (_, catalog) = published([tool]);
    let output = call(&catalog, "internal-percent", json!({"part": 1, "whole": 4})).await;
    assert_eq!(output.expect("it fits").structured, Some(json!({"percent": 25.0})));
    let refused = call(&catalog, "internal-percent", json!({"part": "x", "whole": 4})).await;
    assert_eq!(refused.expect_err("no number").code(), HostCode::BadArguments);
    let failed = call(&catalog, "internal-percent", json!({"part": 1, "whole": 0})).await;
    let failed = failed.expect_err("the tool refuses it");
    assert_eq!((failed.code(), failed.kind()), (HostCode::ToolError, ErrorKind::InvalidInput));
    let snapshot = catalog.snapshot();
    let client = snapshot.clients().next().expect("the program");
    assert_eq!(client.tools[0].annotations.read_only, Some(true));
    assert!(client.tools[0].output_schema.is_some());
}

#[tokio::test]
async fn a_result_that_does_not_fit_the_output_schema_is_an_error_of_the_call() {
    let schema = json!({"type": "object", "required": ["n"]});
    let lying = tool("lying", json!({})).output_schema(schema);
    let (_, catalog) = published([lying]);
    let error = call(&catalog, "internal-lying", json!({})).await.expect_err("it has no data");
    assert_eq!(error.code(), HostCode::InvalidResult);
}

#[tokio::test]
async fn tools_come_and_go_while_the_gateway_runs_and_readers_are_notified() {
    let (tools, catalog) = published([]);
    assert!(listed(&catalog).is_empty() && tools.names().await.is_empty());
    let changes = catalog.changes();
    tools.register(tool("a", json!({}))).await.expect("the first");
    assert!(changes.has_changed().expect("the catalog lives"));
    tools.register(tool("b", json!({}))).await.expect("the second");
    assert_eq!(listed(&catalog), ["internal-a", "internal-b"]);
    let twice = tools.register(tool("a", json!({}))).await.expect_err("it is there");
    assert!(matches!(twice, BadNativeTool::Duplicate(name) if name == "a"));
    let other = NativeTool::new("a", "", json!({}), |_, _| async { Ok(ToolOutput::text("other")) });
    tools.replace(other).await.expect("it is there");
    let output = call(&catalog, "internal-a", json!({})).await.expect("it runs");
    assert_eq!(output, ToolOutput::text("other"));
    for unknown in [tools.replace(tool("c", json!({}))).await, tools.remove("internal-a").await] {
        assert!(matches!(unknown.expect_err("there is none"), BadNativeTool::Unknown(_)));
    }
    let bad = tools.replace(tool("a", json!({"type": "array"}))).await.expect_err("a bad schema");
    assert!(matches!(bad, BadNativeTool::Tool(_)));
    assert_eq!(listed(&catalog), ["internal-a", "internal-b"], "nothing has changed");
    tools.remove("a").await.expect("it is there");
    tools.remove("b").await.expect("it is there");
    assert!(listed(&catalog).is_empty() && catalog.snapshot().clients().next().is_none());
    tools.register(tool("a", json!({}))).await.expect("it may come back");
    assert_eq!(listed(&catalog), ["internal-a"]);
}

#[tokio::test]
async fn work_that_a_body_has_started_elsewhere_learns_that_the_call_was_dropped() {
    let (sender, mut begun) = mpsc::unbounded_channel::<oneshot::Receiver<()>>();
    let was_running = Arc::new(AtomicBool::new(false));
    let seen = was_running.clone();
    let slow = NativeTool::new("slow", "", json!({}), move |_, context| {
        let (end, ended) = oneshot::channel();
        seen.store(!context.has_ended(), Ordering::SeqCst);
        let ending = context.ended();
        tokio::spawn(async move {
            ending.await;
            let _ = end.send(());
        });
        sender.send(ended).expect("the test listens");
        std::future::pending()
    });
    let (_, catalog) = published([slow]);
    let calling = tokio::spawn({
        let catalog = catalog.clone();
        async move { call(&catalog, "internal-slow", json!({})).await }
    });
    let ended = begun.recv().await.expect("the call begins");
    assert!(was_running.load(Ordering::SeqCst), "it runs while its body does");
    calling.abort();
    ended.await.expect("the work is told");
}
