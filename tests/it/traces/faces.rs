//! Traces of the other APIs: Responses, Messages, and MCP of both eras.

use airlock_tests::{
    collector::{hex, tree},
    mcp::Endpoint,
    service,
};
use serde_json::json;

use super::{SENT, SENT_SPAN, SENT_TRACE, Stage, named, trace_id};

#[tokio::test]
async fn requests_of_the_responses_and_the_messages_api_have_the_same_trace() {
    let stage = Stage::without_tools().await;
    let response = json!({"model": "fake/model", "input": "hi"});
    let _ = stage.post("/v1/responses", &[], &response).await.ok();
    let message = json!({
        "model": "fake/model", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}],
    });
    let _ = stage.post("/v1/messages", &[], &message).await.ok();
    let shown = ["gen_ai.request.max_tokens", "gen_ai.response.finish_reasons"];
    let trace = stage.trace_with("POST /v1/responses").await;
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/responses
      CLIENT chat model gen_ai.response.finish_reasons=stop
    ");
    let trace = stage.trace_with("POST /v1/messages").await;
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/messages
      CLIENT chat model gen_ai.request.max_tokens=10 gen_ai.response.finish_reasons=stop
    ");
}

#[tokio::test]
async fn a_call_of_a_modern_mcp_client_begins_with_its_method_and_is_linked_to_its_trace() {
    let stage = Stage::saying([service::text("hello")]).await;
    let call = json!({"name": "rec-read", "arguments": {"n": 1}, "_meta": {"traceparent": SENT}});
    let _ = Endpoint::new(&stage.gateway).modern("tools/call", call).result().await;
    let trace = stage.trace_with("tools/call rec-read").await;
    let shown = ["mcp.method.name", "mcp.protocol.version", "airlock.origin", "error.type"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER tools/call rec-read mcp.method.name=tools/call mcp.protocol.version=2026-07-28 linked
      INTERNAL execute_tool rec-read airlock.origin=mcp_client
        CLIENT tools/call read mcp.method.name=tools/call mcp.protocol.version=2025-11-25
    ");
    assert_ne!(trace_id(&trace), SENT_TRACE, "a caller without a key is not trusted");
    assert_eq!(hex(&named(&trace, "tools/call rec-read").links[0].span_id), SENT_SPAN);
}

#[tokio::test]
async fn a_client_does_not_name_a_span_by_a_tool_that_it_invents() {
    let stage = Stage::saying([service::text("hello")]).await;
    let call = json!({"name": "invented", "arguments": {}});
    let _ = Endpoint::new(&stage.gateway).modern("tools/call", call).error().await;
    let trace = stage.trace_with("tools/call").await;
    insta::assert_snapshot!(tree(&trace, &["mcp.method.name", "gen_ai.tool.name"]), @r"
    SERVER tools/call mcp.method.name=tools/call
      INTERNAL execute_tool gen_ai.tool.name=invented
    ");
}

#[tokio::test]
async fn a_call_of_a_legacy_mcp_client_has_the_same_trace() {
    let stage = Stage::saying([service::text("hello")]).await;
    let session = Endpoint::new(&stage.gateway).session().await;
    let call = json!({"name": "rec-read", "arguments": {"n": 1}});
    let _ = session.request("tools/call", call).result().await;
    let trace = stage.trace_with("tools/call rec-read").await;
    let shown = ["mcp.protocol.version", "airlock.origin"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER tools/call rec-read mcp.protocol.version=2025-11-25
      INTERNAL execute_tool rec-read airlock.origin=mcp_client
        CLIENT tools/call read mcp.protocol.version=2025-11-25
    ");
}
