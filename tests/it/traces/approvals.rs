//! Traces of calls that do not run: refused ones, those that wait, and one whose plugin traps.

use airlock_tests::{
    Client, Reply, Service,
    collector::{attributes, tree},
    guests,
    mcp::Endpoint,
    service, wait,
};
use reqwest::Method;
use serde_json::json;

use super::{ANN, CHAT, Stage, named, recorded};

#[tokio::test]
async fn a_refused_call_has_a_span_with_the_reason() {
    let stage = Stage::saying([service::text("hello")]).await;
    let call = json!({"function": {"name": "rec-drop", "arguments": "{\"n\":1}"}});
    let reply = stage.post("/v1/mcp/tool/execute", &[("x-bf-vk", ANN)], &call).await;
    assert_eq!(reply.code(), "not_found");
    let trace = stage.trace_with("execute_tool").await;
    let shown = [
        "http.response.status_code",
        "gen_ai.tool.name",
        "airlock.decision",
        "airlock.key.id",
        "error.type",
    ];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/mcp/tool/execute http.response.status_code=400 airlock.key.id=ann
      INTERNAL execute_tool gen_ai.tool.name=rec-drop airlock.decision=refused airlock.key.id=ann error.type=not_found
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

#[tokio::test]
async fn a_call_over_mcp_is_pending_and_has_the_permission_of_the_person_once_it_runs() {
    let model = Service::saying([service::text("hello")]).await;
    let stage =
        Stage::with(model, |setup| recorded(setup).set("/mcp_server/approval_wait", "0s")).await;
    let endpoint = Endpoint::new(&stage.gateway).key(ANN);
    let call = json!({"name": "rec-add", "arguments": {"n": 1}});
    let waiting = endpoint.modern("tools/call", call.clone()).result().await;
    let id = waiting["_meta"]["airlock/approval"]["id"].as_str().expect("it waits");
    let trace = stage.trace_with("execute_tool rec-add").await;
    let shown = ["airlock.decision", "airlock.decision.reason"];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER tools/call rec-add
      INTERNAL execute_tool rec-add airlock.decision=pending
    ");
    let request = named(&trace, "tools/call rec-add");
    let record = wait::until("the log record of the wait", async || {
        let records = stage.collector.logs().into_iter().map(|record| record.element);
        let mut found = records
            .filter(|record| format!("{:?}", record.body).contains("a call waits for an approval"));
        found.next()
    })
    .await;
    assert_eq!(
        (&record.trace_id, &record.span_id),
        (&request.trace_id, &request.span_id),
        "log records have the ids of their span"
    );
    let approve = stage.gateway.request(Method::POST, &format!("/v1/approvals/{id}/approve"));
    let approved = Reply::fetch(approve.header("x-bf-vk", ANN)).await;
    assert_eq!(approved.status, 200, "{}", approved.text);
    let _ = endpoint.modern("tools/call", call).result().await;
    let trace = stage.trace_with("tools/call add").await;
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER tools/call rec-add
      INTERNAL execute_tool rec-add airlock.decision=allowed airlock.decision.reason=person
        CLIENT tools/call add
    ");
}

#[tokio::test]
async fn a_call_beyond_a_limit_is_refused() {
    let model = Service::saying([service::text("hello")]).await;
    let stage = Stage::with(model, |setup| {
        let limit = json!({"tool_call_max_limit": 1, "tool_call_reset_duration": "1h"});
        let store = setup.directory().join("airlock.db").display().to_string();
        let client = Client::wasm("text", guests::TEXT).auto(&["*"]).set("/rate_limit", limit);
        setup.set("/store", store).client(client)
    })
    .await;
    let arguments = json!({"text": "one two"});
    let _ = stage.execute("text-word_count", &arguments, &json!({})).await.ok();
    let refused = stage.execute("text-word_count", &arguments, &json!({})).await;
    assert_eq!(refused.code(), "limit_reached");
    let trace = stage.trace_where("the refused call", |span| {
        attributes(&span.attributes).get("airlock.decision").is_some_and(|found| found == "refused")
    });
    insta::assert_snapshot!(tree(&trace.await, &["airlock.decision", "error.type"]), @r"
    SERVER POST /v1/mcp/tool/execute
      INTERNAL execute_tool text-word_count airlock.decision=refused error.type=limit_reached
    ");
}

#[tokio::test]
async fn a_call_whose_plugin_traps_has_the_error() {
    let model = Service::saying([service::text("hello")]).await;
    let hostile = Client::wasm("hostile", guests::HOSTILE).trusted().auto(&["*"]);
    let stage = Stage::with(model, |setup| setup.client(hostile)).await;
    stage.gateway.connected("hostile").await;
    assert_eq!(stage.execute("hostile-trap", &json!({}), &json!({})).await.code(), "trap");
    let trace = stage.trace_with("execute_tool hostile-trap").await;
    let call = attributes(&named(&trace, "execute_tool hostile-trap").attributes);
    assert_eq!((&*call["airlock.decision"], &*call["error.type"]), ("allowed", "trap"));
}
