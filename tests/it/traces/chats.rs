//! Traces of chat completions: plain ones, with tools, with a model that fails, and one that is left.

use airlock_tests::{
    Client, Service,
    collector::{attributes, hex, tree},
    guests, service,
};
use futures_util::{StreamExt as _, stream};
use serde_json::json;

use super::{ANN, CHAT, Stage, named, trace_id};

#[tokio::test]
async fn a_plain_chat_is_a_request_and_its_model() {
    let stage = Stage::without_tools().await;
    let _ = stage.chat(&[], json!({"max_tokens": 100, "temperature": 0.5})).await.ok();
    let trace = stage.trace_with(CHAT).await;
    let shown = tree(
        &trace,
        &[
            "http.response.status_code",
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "airlock.provider",
            "gen_ai.request.model",
            "gen_ai.request.max_tokens",
            "gen_ai.request.temperature",
            "gen_ai.response.model",
            "gen_ai.response.finish_reasons",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
        ],
    );
    insta::assert_snapshot!(shown, @r"
    SERVER POST /v1/chat/completions http.response.status_code=200
      CLIENT chat model gen_ai.operation.name=chat gen_ai.provider.name=openai airlock.provider=fake gen_ai.request.model=model gen_ai.request.max_tokens=100 gen_ai.request.temperature=0.5 gen_ai.response.model=model gen_ai.response.finish_reasons=stop gen_ai.usage.input_tokens=10 gen_ai.usage.output_tokens=5
    ");
    let all = format!("{trace:?}");
    assert!(!all.contains("hello") && !all.contains("\"hi\""), "no contents: {all}");
}

#[tokio::test]
async fn a_call_of_a_servers_tool_is_below_the_loop_and_the_server_sees_its_position() {
    let stage = Stage::saying([
        service::asking_for(&[("rec-read", json!({"n": 1}))]),
        service::text("done"),
    ])
    .await;
    let _ = stage.chat(&[("x-bf-vk", ANN)], json!({})).await.ok();
    let trace = stage.trace_with(CHAT).await;
    let shown = [
        "airlock.rounds",
        "airlock.origin",
        "airlock.decision",
        "airlock.decision.reason",
        "airlock.client",
        "airlock.key.id",
        "network.transport",
        "mcp.protocol.version",
        "gen_ai.response.finish_reasons",
    ];
    insta::assert_snapshot!(tree(&trace, &shown), @r"
    SERVER POST /v1/chat/completions airlock.key.id=ann
      INTERNAL invoke_agent airlock airlock.rounds=2
        CLIENT chat model gen_ai.response.finish_reasons=tool_calls
        INTERNAL execute_tool rec-read airlock.origin=model airlock.decision=allowed airlock.decision.reason=automatic airlock.client=rec airlock.key.id=ann
          CLIENT tools/call read network.transport=pipe mcp.protocol.version=2025-11-25
        CLIENT chat model gen_ai.response.finish_reasons=stop
    ");
    let metas = stage.metas();
    let sent = metas[0]["traceparent"].as_str().expect("the server sees it");
    let call = named(&trace, "tools/call read");
    assert_eq!(sent, format!("00-{}-{}-01", trace_id(&trace), hex(&call.span_id)));
}

#[tokio::test]
async fn a_call_of_a_plugin_has_its_fuel_and_its_memory() {
    let model = Service::saying([
        service::asking_for(&[("text-word_count", json!({"text": "a b"}))]),
        service::text("done"),
    ]);
    let stage = Stage::with(model.await, |setup| {
        setup.client(Client::wasm("text", guests::TEXT).auto(&["*"]))
    })
    .await;
    let _ = stage.chat(&[], json!({})).await.ok();
    let trace = stage.trace_with(CHAT).await;
    insta::assert_snapshot!(tree(&trace, &["airlock.decision", "airlock.client"]), @r"
    SERVER POST /v1/chat/completions
      INTERNAL invoke_agent airlock
        CLIENT chat model
        INTERNAL execute_tool text-word_count airlock.decision=allowed airlock.client=text
        CLIENT chat model
    ");
    let call = attributes(&named(&trace, "execute_tool text-word_count").attributes);
    for name in ["airlock.fuel", "airlock.memory_bytes"] {
        assert!(call[name].parse::<u64>().is_ok_and(|amount| amount > 0), "{name}: {call:?}");
    }
}

#[tokio::test]
async fn a_model_that_fails_and_its_fallback_have_a_span_each() {
    let failing = Service::start(|_| (503, json!({"error": {"message": "secret reason"}}))).await;
    let provider = json!({
        "kind": "openai",
        "base_url": failing.base_url(),
        "api_key": "sk-test",
        "retries": {"max": 0},
    });
    let model = Service::saying([service::text("hello")]).await;
    let stage = Stage::with(model, |setup| setup.set("/providers/failing", provider)).await;
    let asked = json!({"model": "failing/first", "fallbacks": ["fake/second"]});
    let _ = stage.chat(&[], asked).await.ok();
    let trace = stage.trace_with(CHAT).await;
    insta::assert_snapshot!(tree(&trace, &["airlock.provider", "airlock.attempt", "error.type"]), @r"
    SERVER POST /v1/chat/completions
      CLIENT chat first airlock.provider=failing airlock.attempt=1 error.type=503
      CLIENT chat second airlock.provider=fake airlock.attempt=1
    ");
    assert!(!format!("{trace:?}").contains("secret reason"), "the text of an error is a content");
}

#[tokio::test]
async fn a_stream_that_its_client_leaves_says_so() {
    let chunk = json!({
        "id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "model",
        "choices": [{"index": 0, "delta": {"role": "assistant", "content": "so"}, "finish_reason": null}],
    });
    let begun = service::events([chunk.to_string()]);
    let model = Service::start(move |_| {
        service::Answer::stream(stream::iter([begun.clone()]).chain(stream::pending()))
    })
    .await;
    let stage = Stage::with(model, |setup| setup).await;
    let body = json!({"model": "fake/model", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut events = stage.gateway.stream(body.to_string()).await;
    assert!(events.next().await.is_some(), "it has begun");
    drop(events);
    // Both spans end with the connection, in any order.
    let trace = stage.trace_with("chat model").await;
    insta::assert_snapshot!(tree(&trace, &["http.response.status_code", "airlock.cancelled", "error.type"]), @r"
    SERVER POST /v1/chat/completions http.response.status_code=200 airlock.cancelled=true
      CLIENT chat model error.type=cancelled
    ");
    let chat = attributes(&named(&trace, "chat model").attributes);
    let first = chat["gen_ai.response.time_to_first_chunk"].parse::<f64>();
    assert!(first.is_ok_and(|seconds| seconds > 0.0), "{chat:?}");
}
