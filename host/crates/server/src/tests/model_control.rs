//! Requests to models under a control, through each API.

use super::*;
use airlock_core::model_control::TokenUsage;
use airlock_fakes::{RecordingControl, Told};
use airlock_model::{self as model, Api, Apis, Kind, Retries, Service};
use airlock_test_http::model::{self as service, FakeService};

const PATHS: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];
const ANN: (&str, &str) = ("x-bf-vk", "sk-bf-ann");

/// Returns an echo in the first round, and a text in the second one.
fn turns() -> Value {
    json!([
        {"when": {"role": "user"}, "answer": {"content": "I see", "tool_calls": [{"id": "c1", "name": "desk-echo"}]}},
        {"answer": {"content": "done"}},
    ])
}

async fn gateway(control: &RecordingControl) -> Gateway {
    let models = fake::scripted(&turns()).with_control(Arc::new(control.clone()));
    Gateway::with_models(settings(), models, None).await
}

/// Returns a request of the API at this path.
fn body(path: &str, is_streamed: bool) -> String {
    let mut body = json!({"model": "demo/m", "stream": is_streamed});
    let messages = json!([{"role": "user", "content": "go"}]);
    match path {
        "/v1/responses" => body["input"] = "go".into(),
        "/v1/messages" => {
            body["max_tokens"] = 100.into();
            body["messages"] = messages;
        }
        _ => body["messages"] = messages,
    }
    body.to_string()
}

async fn sent(gateway: &Gateway, path: &str, is_streamed: bool) -> reqwest::Response {
    gateway.send(Method::POST, path, &[ANN], &body(path, is_streamed)).await
}

#[tokio::test]
async fn each_round_of_each_api_is_controlled_for_the_key_of_its_caller() {
    let control = RecordingControl::default().with_cost(10);
    let gateway = gateway(&control).await;
    for path in PATHS {
        for is_streamed in [false, true] {
            let reply = sent(&gateway, path, is_streamed).await;
            assert_eq!(reply.status().as_u16(), 200, "{path}");
            let cost = reply.headers().get("x-airlock-cost-usd-micros");
            let cost = cost.map(|cost| cost.to_str().expect("a number").to_owned());
            assert_eq!(cost.as_deref(), (!is_streamed).then_some("20"), "{path}: of both rounds");
            let text = reply.text().await.expect("a whole response");
            assert!(text.contains("done"), "{text}");
            let told = control.told();
            let [begun, ended, next, last] = told.as_slice() else { panic!("{path}: {told:?}") };
            let expected = Told::Begun {
                model: "demo/m".to_owned(),
                key: Some("ann".to_owned()),
                most: (path == "/v1/messages").then_some(100),
                is_streamed,
            };
            assert_eq!((begun, next), (&expected, &expected), "{path}");
            for end in [ended, last] {
                let Told::Ended { provider, usage: Some(usage), error: None, .. } = end else {
                    panic!("{path}: {end:?}")
                };
                assert_eq!(provider.as_deref(), Some("demo"));
                assert!(usage.input > 0 && usage.output > 0, "{path}: {usage:?}");
            }
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn requests_that_ask_no_model_are_not_controlled() {
    let control = RecordingControl::default();
    let gateway = gateway(&control).await;
    for path in ["/v1/responses", "/v1/messages"] {
        let counter = if path == "/v1/messages" { "count_tokens" } else { "input_tokens" };
        let url = format!("{path}/{counter}");
        let (status, _) = gateway.ask(Method::POST, &url, &[ANN], &body(path, false)).await;
        assert_eq!(status, 200, "{url}");
    }
    assert_eq!(gateway.get("/v1/models", &[ANN]).await.0, 200);
    assert!(control.told().is_empty());
    gateway.stop().await;
}

#[tokio::test]
async fn a_refused_request_is_an_error_of_each_api_with_the_time_to_wait() {
    let control = RecordingControl::default().permitting(0);
    let gateway = gateway(&control).await;
    for path in PATHS {
        for is_streamed in [false, true] {
            let reply = sent(&gateway, path, is_streamed).await;
            assert_eq!(reply.status().as_u16(), 429, "{path}");
            assert_eq!(reply.headers()["retry-after"], "2", "whole seconds, and never too early");
            let error: Value = reply.json().await.expect("JSON");
            assert_eq!(error["error"]["type"], "rate_limit_error", "{path}");
            assert_eq!(error["error"]["code"], "limit_reached", "{path}");
            assert_eq!(error["error"]["retry_after_ms"], 1_500, "{path}");
            assert_eq!(error["type"] == "error", path == "/v1/messages", "{path}");
            assert_eq!(control.told(), [Told::Refused]);
        }
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_later_round_that_is_refused_ends_a_stream_with_the_error_of_its_api() {
    for (path, name) in PATHS.into_iter().zip(["error", "response.failed", "error"]) {
        let control = RecordingControl::default().permitting(1);
        let gateway = gateway(&control).await;
        let reply = sent(&gateway, path, true).await;
        assert_eq!(reply.status().as_u16(), 200, "{path}");
        let text = reply.text().await.expect("a whole response");
        let last = text.trim_end().rsplit("\n\n").next().expect("an event");
        let (kind, data) = last.split_once("\ndata: ").expect("an event with data");
        assert_eq!(kind, format!("event: {name}"), "{text}");
        let data: Value = serde_json::from_str(data).expect("JSON");
        let error = data.get("error").unwrap_or(&data["response"]["error"]);
        assert_eq!(error["retry_after_ms"], 1_500, "{data}");
        let code = error.get("native_code").unwrap_or(&error["code"]);
        assert_eq!(code, "limit_reached", "{data}");
        let told = control.told();
        assert!(matches!(
            told.as_slice(),
            [Told::Begun { .. }, Told::Ended { error: None, .. }, Told::Refused]
        ));
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_caller_who_leaves_cancels_the_request() {
    let turns = json!([{"answer": {"content": "a b c", "pace": "1h"}}]);
    let control = RecordingControl::default();
    let models = fake::scripted(&turns).with_control(Arc::new(control.clone()));
    let gateway = Gateway::with_models(settings(), models, None).await;
    let stream = gateway.connect(&post(PATHS[0], &body(PATHS[0], true))).await;
    let is_begun = async {
        while control.begun() == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(is_begun).await;
    drop(stream);
    let has_ended = async {
        loop {
            let ends = control.ends();
            if !ends.is_empty() {
                return ends;
            }
            tokio::task::yield_now().await;
        }
    };
    let ends = soon(has_ended).await;
    let [Told::Ended { error: Some(code), usage: None, .. }] = ends.as_slice() else {
        panic!("{ends:?}");
    };
    assert_eq!(code, "cancelled");
    gateway.stop().await;
}

/// Usage of all providers below, in their own words.
const USAGE: TokenUsage = TokenUsage { input: 10, cached_input: 4, output: 5, reasoning: 2 };

fn openai_whole() -> Value {
    json!({
        "id": "x", "model": "told",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
    })
}

fn response() -> Value {
    json!({
        "id": "resp_p", "object": "response", "created_at": 1, "status": "completed", "model": "told",
        "output": [{
            "id": "msg_p", "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "hi", "annotations": []}],
        }],
        "usage": {
            "input_tokens": 10, "input_tokens_details": {"cached_tokens": 4},
            "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 15,
        },
    })
}

fn anthropic_usage() -> Value {
    json!({
        "input_tokens": 4, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4,
        "output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2},
    })
}

fn anthropic_message() -> Value {
    json!({
        "id": "msg_p", "type": "message", "role": "assistant", "model": "told",
        "content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn",
        "stop_sequence": null, "usage": anthropic_usage(),
    })
}

fn gemini_whole() -> Value {
    json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": "hi"}]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {
            "promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 3,
            "thoughtsTokenCount": 2, "totalTokenCount": 15,
        },
        "modelVersion": "told",
    })
}

fn sse(events: &[Value]) -> String {
    let events = events.iter().map(|data| {
        let kind = data["type"].as_str().unwrap_or("message");
        format!("event: {kind}\ndata: {data}\n\n")
    });
    service::events(&events.collect::<String>())
}

fn whole(answer: &Value) -> String {
    service::json("200 OK", &answer.to_string())
}

/// Returns a gateway with one provider that gives this answer.
async fn with_provider(
    api: Api,
    apis: Apis,
    answer: String,
    control: &RecordingControl,
) -> (Gateway, FakeService) {
    let fake = FakeService::start(vec![answer]).await;
    let retries = Retries { max: 0, ..Retries::default() };
    let kind = Service { apis, retries, ..Service::new(api, &fake.base_url) };
    let provider = model::Settings {
        name: "demo".to_owned(),
        kind: Kind::Service(Box::new(kind)),
        fallbacks: Vec::new(),
    };
    let models = Models::new(&[provider]).expect("a good provider");
    let models = models.with_control(Arc::new(control.clone()));
    (Gateway::with_models(settings(), models, None).await, fake)
}

fn complete(usage: Option<TokenUsage>) -> Told {
    let [provider, model] = ["demo", "told"].map(|name| Some(name.to_owned()));
    Told::Ended { provider, model, usage, cost: None, error: None, has_not_begun: false }
}

#[tokio::test]
async fn the_usage_of_each_api_of_providers_is_told_in_one_form() {
    let begun = json!({"type": "response.created", "response": {"id": "resp_p", "model": "told"}});
    let done = json!({"type": "response.completed", "response": response()});
    let message = json!({"type": "message_start", "message": {
        "id": "msg_p", "type": "message", "role": "assistant", "model": "told", "content": [],
        "usage": {"input_tokens": 4, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4, "output_tokens": 1},
    }});
    let block = json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let text = json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}});
    let block_end = json!({"type": "content_block_stop", "index": 0});
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 5, "output_tokens_details": {"thinking_tokens": 2}}});
    let end = json!({"type": "message_stop"});
    let chat = PATHS[0];
    for (path, is_streamed, api, apis, answer) in [
        (chat, false, Api::OpenAi, Apis::Chat, whole(&openai_whole())),
        ("/v1/responses", false, Api::OpenAi, Apis::Both, whole(&response())),
        ("/v1/responses", true, Api::OpenAi, Apis::Both, sse(&[begun, done])),
        (chat, false, Api::OpenAi, Apis::Responses, whole(&response())),
        ("/v1/messages", false, Api::Anthropic, Apis::Chat, whole(&anthropic_message())),
        (
            "/v1/messages",
            true,
            Api::Anthropic,
            Apis::Chat,
            sse(&[message, block, text, block_end, delta, end]),
        ),
        (chat, false, Api::Gemini, Apis::Chat, whole(&gemini_whole())),
        (chat, true, Api::Gemini, Apis::Chat, sse(&[gemini_whole()])),
    ] {
        let control = RecordingControl::default();
        let (gateway, _fake) = with_provider(api, apis, answer, &control).await;
        let reply = sent(&gateway, path, is_streamed).await;
        assert_eq!(reply.status().as_u16(), 200, "{api:?} {path}");
        let text = reply.text().await.expect("a whole response");
        assert!(text.contains("hi"), "{text}");
        assert_eq!(control.ends(), [complete(Some(USAGE))], "{api:?} {path} {is_streamed}");
        gateway.stop().await;
    }
}

#[tokio::test]
async fn a_provider_that_breaks_a_stream_off_ends_the_request_without_a_usage() {
    let begun = json!({"type": "response.created", "response": {"id": "resp_p", "model": "told"}});
    let message = json!({"type": "message_start", "message": {
        "id": "msg_p", "type": "message", "role": "assistant", "model": "told", "content": [],
        "usage": {"input_tokens": 4, "output_tokens": 1},
    }});
    // The first event of a response that has no content yet is no part of it.
    for (path, api, apis, events, responder) in [
        ("/v1/responses", Api::OpenAi, Apis::Both, sse(&[begun]), None),
        ("/v1/messages", Api::Anthropic, Apis::Chat, sse(&[message]), Some("demo")),
    ] {
        let control = RecordingControl::default();
        let (gateway, _fake) = with_provider(api, apis, events, &control).await;
        let reply = sent(&gateway, path, true).await;
        reply.text().await.expect("a whole response");
        let ends = control.ends();
        let [Told::Ended { provider, usage: None, error: Some(error), has_not_begun: false, .. }] =
            ends.as_slice()
        else {
            panic!("{path}: {ends:?}")
        };
        assert_eq!((provider.as_deref(), error.as_str()), (responder, "provider_bad_answer"));
        gateway.stop().await;
    }
}
