//! Traces of scripts: their calls, and runs that are resumed.

use airlock_tests::{
    Service,
    collector::{attributes, hex, tree},
    service,
};
use serde_json::json;

use super::{Stage, named, scripted, trace_id};

const EXECUTE: &str = "executeToolCode";

async fn stage() -> Stage {
    Stage::with(Service::saying([service::text("hello")]).await, scripted).await
}

#[tokio::test]
async fn calls_of_a_script_are_below_it_with_their_run_and_position() {
    let stage = stage().await;
    let code = json!({"code": "rec.read(n = 1)\nresult = rec.read(n = 2)"});
    let _ = stage.execute(EXECUTE, &code, &json!({})).await.ok();
    let trace = stage.trace_with("execute_tool executeToolCode").await;
    let shown = ["airlock.origin", "airlock.decision", "airlock.run.position"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/mcp/tool/execute
      INTERNAL execute_tool executeToolCode airlock.origin=caller airlock.decision=allowed
        INTERNAL execute_tool rec-read airlock.origin=script airlock.decision=allowed airlock.run.position=1
          CLIENT tools/call read
        INTERNAL execute_tool rec-read airlock.origin=script airlock.decision=allowed airlock.run.position=2
          CLIENT tools/call read
    ");
    let runs: Vec<_> = trace
        .iter()
        .filter_map(|span| attributes(&span.attributes).remove("airlock.run.id"))
        .collect();
    assert_eq!(runs.len(), 3, "the script and its calls");
    assert!(runs.iter().all(|run| run.starts_with("run_") && *run == runs[0]), "{runs:?}");
}

#[tokio::test]
async fn a_resumed_run_is_linked_to_the_request_that_began_it() {
    let stage = stage().await;
    let code = json!({"code": "result = rec.drop(n = 1)"});
    let waiting = stage.execute(EXECUTE, &code, &json!({})).await.ok();
    let began = stage.trace_with("execute_tool executeToolCode").await;
    let shown = ["airlock.decision", "error.type"];
    insta::assert_snapshot!(tree(&began, &shown), @r"
    SERVER POST /v1/mcp/tool/execute
      INTERNAL execute_tool executeToolCode airlock.decision=pending
        INTERNAL execute_tool rec-drop airlock.decision=pending
    ");
    let request_state = &waiting["airlock"]["run"]["request_state"];
    let _ = stage.execute(EXECUTE, &code, &json!({"request_state": request_state})).await.ok();
    let resumed = stage.trace_with("resume_run").await;
    insta::assert_snapshot!(tree(&resumed, &shown), @r"
    SERVER POST /v1/mcp/tool/execute
      INTERNAL execute_tool executeToolCode airlock.decision=allowed
        INTERNAL resume_run linked
          INTERNAL execute_tool rec-drop airlock.decision=allowed
            CLIENT tools/call drop
    ");
    let link = &named(&resumed, "resume_run").links[0];
    assert_eq!(hex(&link.trace_id), trace_id(&began));
    assert_eq!(link.span_id, named(&began, "execute_tool executeToolCode").span_id);
    assert_ne!(trace_id(&resumed), trace_id(&began));
}
