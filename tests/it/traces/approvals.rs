//! Traces of calls that do not run: refused ones, and those that wait.

use airlock_tests::{collector::tree, service};
use serde_json::json;

use super::{ANN, CHAT, Stage};

#[tokio::test]
async fn a_refused_call_has_a_span_with_the_reason() {
    let stage = Stage::saying([service::text("hello")]).await;
    let call = json!({"function": {"name": "rec-drop", "arguments": "{\"n\":1}"}});
    let reply = stage.post("/v1/mcp/tool/execute", &[("x-bf-vk", ANN)], &call).await;
    assert_eq!(reply.code(), "not_found");
    let trace = stage.trace_with("execute_tool rec-drop").await;
    let shown = ["http.response.status_code", "airlock.decision", "airlock.key.id", "error.type"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/mcp/tool/execute http.response.status_code=400 airlock.key.id=ann
      INTERNAL execute_tool rec-drop airlock.decision=refused airlock.key.id=ann error.type=not_found
    ");
}

#[tokio::test]
async fn a_call_of_a_model_that_needs_an_approval_is_pending() {
    let stage = Stage::saying([service::asking_for(&[("rec-add", json!({"n": 1}))])]).await;
    let _ = stage.chat(&[], json!({})).await.ok();
    let trace = stage.trace_with(CHAT).await;
    let shown = ["airlock.rounds", "airlock.origin", "airlock.decision", "error.type"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/chat/completions
      INTERNAL invoke_agent airlock airlock.rounds=1
        CLIENT chat model
        INTERNAL execute_tool rec-add airlock.origin=model airlock.decision=pending
    ");
}
