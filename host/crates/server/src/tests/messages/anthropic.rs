//! A provider that has the Messages API.

use super::*;
use airlock_model::{self as model, Api, Kind, Retries, Service};
use airlock_test_http::model::{self as service, FakeService};

/// A recorded message of Anthropic's API, and the stream of the same request.
macro_rules! recorded {
    ($($name:literal),*) => {
        [$((
            include_str!(concat!("../../../../../../tests/fixtures/chat_streams/anthropic/", $name, ".json")),
            include_str!(concat!("../../../../../../tests/fixtures/chat_streams/anthropic/", $name, ".sse")),
        )),*]
    };
}

/// Starts a gateway whose provider of Anthropic's API gives this answer.
async fn before_anthropic(answer: String) -> (Gateway, FakeService) {
    let fake = FakeService::start(vec![answer]).await;
    let retries = Retries { max: 0, ..Retries::default() };
    let service = Service { retries, ..Service::new(Api::Anthropic, &fake.base_url) };
    let provider = model::Settings {
        name: "anthropic".to_owned(),
        kind: Kind::Service(Box::new(service)),
        fallbacks: Vec::new(),
    };
    let models = Models::new(&[provider]).expect("a good provider");
    (Gateway::with_models(settings(), models, None).await, fake)
}

#[tokio::test]
async fn a_message_of_anthropics_api_reaches_the_caller_as_it_came() {
    for (whole, stream) in recorded!["text", "tool_use", "thinking", "thinking_omitted", "refusal"]
    {
        let mut expected: Value = serde_json::from_str(whole).expect("JSON");
        for block in expected["content"].as_array_mut().expect("a list") {
            // A client need not send it back.
            block.as_object_mut().expect("an object").remove("caller");
        }
        for is_streamed in [false, true] {
            let answer =
                if is_streamed { service::events(stream) } else { service::json("200 OK", whole) };
            let (gateway, _fake) = before_anthropic(answer).await;
            let tools = ["get_weather", "get_time", "save"]
                .map(|name| json!({"name": name, "input_schema": {"type": "object"}}));
            let request = body("go", &json!({"model": "anthropic/claude", "tools": tools}));
            let message = if is_streamed {
                collected(&gateway.message_stream(request, &[]).await)
            } else {
                gateway.message(&request).await.1
            };
            for member in ["id", "model", "content", "stop_reason", "stop_sequence"] {
                assert_eq!(message[member], expected[member], "{member}: {message}");
            }
            assert_eq!(
                message["stop_details"]["explanation"], expected["stop_details"]["explanation"],
                "{message}"
            );
            for count in ["input_tokens", "output_tokens"] {
                assert_eq!(message["usage"][count], expected["usage"][count], "{message}");
            }
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_provider_of_anthropics_api_receives_the_members_of_the_request() {
    let [(whole, _)] = recorded!["text"];
    let (gateway, fake) = before_anthropic(service::json("200 OK", whole)).await;
    let marked = json!({"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}});
    let signed = json!({"type": "thinking", "thinking": "hm", "signature": "sig"});
    let used = json!({"type": "tool_use", "id": "t1", "name": "mine", "input": {"a": 1}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "is_error": true,
        "content": [{"type": "text", "text": "no"}]});
    let request = json!({
        "model": "anthropic/claude",
        "max_tokens": 2_000,
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [marked]},
            {"role": "assistant", "content": [signed, used]},
            {"role": "user", "content": [result]},
        ],
        "tools": [{"name": "mine", "input_schema": {"type": "object"}}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": []},
        "metadata": {"user_id": "u"},
    });
    let headers =
        [("anthropic-beta", "context-management-2025-06-27"), ("x-bf-mcp-include-tools", "none")];
    let (status, message) = gateway.ask(Method::POST, PATH, &headers, &request.to_string()).await;
    assert_eq!(status, 200, "{message}");
    let sent = fake.requests().await.remove(0);
    let (head, sent) = sent.split_once("\r\n\r\n").expect("a head");
    assert!(head.contains("anthropic-beta: context-management-2025-06-27"), "{head}");
    let sent: Value = serde_json::from_str(sent).expect("JSON");
    let mut expected = request;
    expected["model"] = "claude".into();
    for member in expected.as_object().expect("an object").keys() {
        assert_eq!(sent[member], expected[member], "{member}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn a_fallback_of_another_api_receives_the_request_without_the_members_of_anthropics() {
    let busy = service::json("529 Overloaded", r#"{"type":"error","error":{"message":"busy"}}"#);
    let completion = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"chat"},"finish_reason":"stop"}]}"#;
    let first = FakeService::start(vec![busy]).await;
    let second = FakeService::start(vec![service::json("200 OK", completion)]).await;
    let providers = [
        ("anthropic", Api::Anthropic, &first, vec!["chat/gpt".to_owned()]),
        ("chat", Api::OpenAi, &second, Vec::new()),
    ];
    let providers = providers.map(|(name, api, fake, fallbacks)| {
        let retries = Retries { max: 0, ..Retries::default() };
        let service = Service { retries, ..Service::new(api, &fake.base_url) };
        let kind = Kind::Service(Box::new(service));
        model::Settings { name: name.to_owned(), kind, fallbacks }
    });
    let models = Models::new(&providers).expect("good providers");
    let gateway = Gateway::with_models(settings(), models, None).await;
    let marked = json!({"type": "text", "text": "go", "cache_control": {"type": "ephemeral"}});
    let used = json!({"type": "tool_use", "id": "t1", "name": "mine", "input": {"a": 1}});
    let result = json!({"type": "tool_result", "tool_use_id": "t1", "content": "no"});
    let thinking = json!({"type": "enabled", "budget_tokens": 2_000});
    let request = json!({
        "model": "anthropic/claude", "max_tokens": 3_000, "thinking": thinking,
        "tools": [{"name": "mine", "input_schema": {"type": "object"}}],
        "messages": [
            {"role": "user", "content": [marked]},
            {"role": "assistant", "content": [used]},
            {"role": "user", "content": [result]},
        ],
    });
    let (status, message) = gateway.message(&request).await;
    assert_eq!((status, &message["content"][0]["text"]), (200, &json!("chat")), "{message}");
    gateway.stop().await;
    let first = sent_body(&first.requests().await[0]);
    assert_eq!((&first["thinking"], &first["messages"][0]["content"][0]), (&thinking, &marked));
    let second = sent_body(&second.requests().await[0]);
    assert_eq!((&second["model"], &second["reasoning_effort"]), (&json!("gpt"), &json!("low")));
    assert!(second.get("thinking").is_none(), "{second}");
    assert_eq!(second["messages"][0]["content"], "go");
    assert_eq!(second["messages"][2]["tool_call_id"], "t1");
}

fn sent_body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").expect("a head").1).expect("JSON")
}
