use std::{
    future::{pending, ready},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use insta::assert_snapshot;

use super::*;
use airlock_catalog::{Catalog, SourceKind};
use airlock_core::{
    door::{Admitted, Budget, Filter, OwnTools, Provider},
    tool::{Allowlist, ClientName, Content, ErrorKind, HostCode, Policy, Tool, ToolError},
};

const BUDGET: Budget = Budget {
    deadline: Duration::from_secs(5),
    script: Duration::from_secs(5),
    nested_calls: 8,
    depth: 4,
    in_flight: 2,
};

/// Stands in for the executor. A "script" is one word that selects how the run ends, or the name of
/// a tool to call.
struct Executor;

impl Provider for Executor {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move {
            let arguments = call.arguments().to_object();
            let script = arguments["code"].as_str().unwrap_or_default();
            for line in ["one", "two"] {
                call.chain().reporter().emit(Content::text(line));
            }
            call.chain().meter().spend_fuel(42);
            match script {
                "fail" => Err(CallError::from(ToolError::new(
                    ErrorKind::InvalidInput,
                    "report.star:1: no such name",
                ))),
                "spin" => Err(CallError::budget("units of fuel", 42)),
                "wait" => pending().await,
                tool => {
                    let answer =
                        call.chain().admit(&Origin::Script, tool, r#"{"a": 1}"#)?.run().await?;
                    let structured = Some(json!({"result": {"text": answer.to_text()}}));
                    Ok(ToolOutput { structured, ..ToolOutput::default() })
                }
            }
        })
    }
}

struct Echo;

impl Provider for Echo {
    fn call(&self, call: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
        Box::pin(async move { Ok(ToolOutput::text(call.arguments().as_str())) })
    }
}

/// Returns a caller whose scripts may call `fs-read` without approval, and `fs-write` only with
/// approval.
fn caller(origin: Origin) -> Caller {
    let catalog = Catalog::new();
    let fs = ClientName::parse("fs").expect("a good name");
    let auto_execute = Allowlist::parse(&["read"]).expect("a good list");
    catalog.add_client(
        &fs,
        SourceKind::Server("stdio"),
        Policy { execute: Allowlist::All, auto_execute, code_mode: true, ..Policy::default() },
    );
    let tools = json!([{"name": "read", "inputSchema": {}}, {"name": "write", "inputSchema": {}}]);
    catalog.blocking_publish(
        &fs,
        serde_json::from_value(tools).expect("definitions"),
        Arc::new(Echo),
    );
    let execute = Tool::own(EXECUTE, "Runs a script.", json!({"type": "object"}));
    catalog
        .set_meta_tools(OwnTools { tools: vec![Arc::new(execute)], provider: Arc::new(Executor) });
    Caller::new(catalog.snapshot().view(&Filter::none(), None), origin, BUDGET)
}

/// Returns the document that `--json` prints, with durations masked.
async fn report(origin: Origin, script: &str) -> String {
    report_to(&caller(origin), script).await
}

async fn report_to(caller: &Caller, script: &str) -> String {
    masked(&run_script(caller, script, pending()).await.expect("a script that starts"))
}

fn masked(report: &RunReport) -> String {
    let mut value = serde_json::to_value(report).expect("a report is JSON");
    value["duration_ms"] = json!("…");
    for call in value["calls"].as_array_mut().expect("calls") {
        call["duration_ms"] = json!("…");
    }
    value.to_string()
}

#[tokio::test]
async fn a_successful_script_reports_its_result_output_and_calls() {
    assert_snapshot!(
        report(Origin::Model, "fs-read").await,
        @r#"{"run":null,"status":"ok","result":{"text":"{\"a\": 1}"},"output":"one\ntwo","calls":[{"name":"fs-read","arguments":{"a":1},"status":"ok","error":null,"duration_ms":"…","fuel":null}],"fuel":42,"duration_ms":"…","error":null}"#
    );
}

#[tokio::test]
async fn failed_and_stopped_scripts_report_their_status() {
    assert_snapshot!(
        report(Origin::Model, "fail").await,
        @r#"{"run":null,"status":"error","result":null,"output":"one\ntwo","calls":[],"fuel":42,"duration_ms":"…","error":{"code":"airlock.tool_error","message":"report.star:1: no such name","kind":"invalid_input"}}"#
    );
    assert_snapshot!(
        report(Origin::Model, "spin").await,
        @r#"{"run":null,"status":"limit","result":null,"output":"one\ntwo","calls":[],"fuel":42,"duration_ms":"…","error":{"code":"airlock.budget","message":"the call reached its limit of 42 units of fuel","kind":"limit_reached"}}"#
    );
}

#[tokio::test]
async fn a_call_that_needs_approval_stops_the_script_unless_all_are_approved() {
    assert_snapshot!(
        report(Origin::Model, "fs-write").await,
        @r#"{"run":null,"status":"needs_approval","result":null,"output":"one\ntwo","calls":[],"fuel":42,"duration_ms":"…","error":{"code":"airlock.needs_approval","message":"tool 'fs-write' needs approval before it may run; it was called with {\"a\": 1}","kind":"denied"}}"#
    );
    let approving = caller(Origin::Model).approving_scripts();
    assert!(report_to(&approving, "fs-write").await.starts_with(r#"{"run":null,"status":"ok""#));
}

#[tokio::test]
async fn a_cancelled_script_still_reports_its_output() {
    let report = run_script(&caller(Origin::Model), "wait", ready_soon())
        .await
        .expect("a script that starts");
    assert_snapshot!(
        masked(&report),
        @r#"{"run":null,"status":"cancelled","result":null,"output":"one\ntwo","calls":[],"fuel":42,"duration_ms":"…","error":{"code":"airlock.cancelled","message":"the call was cancelled","kind":"cancelled"}}"#
    );
}

/// Yields once, so that the script starts first.
async fn ready_soon() {
    tokio::task::yield_now().await;
    ready(()).await;
}

#[tokio::test]
async fn without_a_tool_for_scripts_no_script_starts() {
    let nothing = Catalog::new().snapshot().view(&Filter::none(), None);
    let started =
        run_script(&Caller::new(nothing, Origin::Model, BUDGET), "fs-read", pending()).await;
    assert!(started.is_err_and(|error| error.code() == HostCode::NotFound));
}
