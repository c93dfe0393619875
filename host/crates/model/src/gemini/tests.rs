use std::time::Duration;

use bytes::Bytes;
use futures_util::stream as pieces;

use super::*;
use crate::{
    Api, Key, Prompt, Retries, Service,
    address::addresses,
    backend::Backend as _,
    chat_replies,
    delta_stream::DeltaStream,
    http::{ServiceBounds, ServiceEvents},
    service as client,
};
use airlock_core::{
    memory::{Limited, MemoryBudget},
    secret::Secret,
};
use airlock_json::RawObject;
use airlock_test_http::model::{self as fake, FakeService};

const KEY: &str = "AIza-very-secret";

fn settings(base_url: &str) -> Service {
    Service {
        keys: vec![Key::new("first", Secret::new(KEY))],
        retries: Retries { max: 0, ..Retries::default() },
        ..Service::new(Api::Gemini, base_url)
    }
}

fn request(members: Value) -> Prompt {
    let mut body = object(json!({
        "model": "gemini-3-flash-preview", "messages": [{"role": "user", "content": "hi"}]
    }));
    body.extend(object(members));
    Prompt::new(RawObject::from(&body))
}

fn free() -> Charge {
    MemoryBudget::unlimited().charge()
}

/// Sends a request and returns the completion, or the chunks.
async fn respond(
    service: &Service,
    prompt: &Prompt,
    is_streamed: bool,
    held: &Charge,
) -> Result<Vec<Value>, ModelError> {
    let client = client::ServiceClient::new("google", service).expect("a good service");
    let terms = chat_replies::terms(is_streamed, held);
    chat_replies::read(client.respond(prompt, terms).await?).await
}

/// Sends a request to a service that gives one answer.
async fn exchange(
    answer: String,
    prompt: &Prompt,
    is_streamed: bool,
) -> (Result<Vec<Value>, ModelError>, String) {
    let fake = FakeService::start(vec![answer]).await;
    let answered = respond(&settings(&fake.base_url), prompt, is_streamed, &free()).await;
    (answered, fake.requests().await.remove(0))
}

fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).expect("JSON")
}

/// The events of a reply with a thought, a text and a signed call.
fn events() -> Vec<Value> {
    let event = |parts: Value, rest: Value| {
        let mut candidate = object(json!({"content": {"role": "model", "parts": parts}}));
        candidate.extend(object(rest));
        json!({
            "candidates": [candidate], "modelVersion": "gemini-3-flash-preview", "responseId": "r1",
            "usageMetadata": {"promptTokenCount": 8, "candidatesTokenCount": 3, "thoughtsTokenCount": 5}
        })
    };
    vec![
        event(json!([{"text": "Hm.", "thought": true}]), json!({})),
        event(json!([{"text": "I "}]), json!({})),
        event(
            json!([
                {"text": "look."},
                {"functionCall": {"id": "fc1", "name": "get", "args": {"a": 1}}, "thoughtSignature": "S"}
            ]),
            json!({}),
        ),
        event(json!([{"text": ""}]), json!({"finishReason": "STOP"})),
    ]
}

fn sse(events: &[Value]) -> String {
    let mut text = String::new();
    for event in events {
        text.push_str("data: ");
        text.push_str(&event.to_string());
        text.push_str("\r\n\r\n");
    }
    text
}

/// The whole response of the same reply.
fn whole() -> Value {
    let mut whole = events().remove(0);
    let parts: Vec<Value> = events()
        .iter()
        .filter_map(|event| event["candidates"][0]["content"]["parts"].as_array().cloned())
        .flatten()
        .collect();
    whole["candidates"][0]["content"]["parts"] = parts.into();
    whole["candidates"][0]["finishReason"] = "STOP".into();
    whole
}

/// Joins the texts of a member of all deltas.
fn joined(chunks: &[Value], name: &str) -> String {
    chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"][name].as_str()).collect()
}

#[tokio::test]
async fn a_request_is_translated_and_sent_with_its_header() {
    let tool =
        json!({"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}});
    let prompt = request(json!({
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
            ]},
        ],
        "tools": [tool], "tool_choice": "required", "max_completion_tokens": 7, "seed": 1,
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
    }));
    let (answered, request) =
        exchange(fake::json("200 OK", &whole().to_string()), &prompt, false).await;
    answered.expect("an answer");
    let start = "POST /v1/models/gemini-3-flash-preview:generateContent HTTP/1.1\r\n";
    assert!(request.starts_with(start), "{request}");
    assert!(request.contains(&format!("x-goog-api-key: {KEY}\r\n")), "{request}");
    assert_eq!(
        body(&request),
        json!({
            "systemInstruction": {"parts": [{"text": "Be kind."}]},
            "contents": [{"role": "user", "parts": [
                {"inlineData": {"mimeType": "image/png", "data": "AA=="}}
            ]}],
            "tools": [{"functionDeclarations": [
                {"name": "get", "parametersJsonSchema": {"type": "object"}}
            ]}],
            "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}],
            "generationConfig": {"seed": 1, "maxOutputTokens": 7},
            "toolConfig": {"functionCallingConfig": {"mode": "ANY"}}
        })
    );
}

#[tokio::test]
async fn a_whole_response_arrives_as_a_completion() {
    let (answered, _) =
        exchange(fake::json("200 OK", &whole().to_string()), &request(json!({})), false).await;
    let completion = answered.expect("an answer").remove(0);
    let choice = &completion["choices"][0];
    assert_eq!(completion["id"], "r1");
    assert_eq!(completion["model"], "gemini-3-flash-preview");
    assert_eq!(choice["message"]["content"], "I look.");
    assert_eq!(choice["message"]["reasoning_content"], "Hm.");
    let call = &choice["message"]["tool_calls"][0];
    assert_eq!(call["id"], "fc1");
    assert_eq!(call["function"], json!({"name": "get", "arguments": "{\"a\":1}"}));
    assert_eq!(call["extra_content"], json!({"google": {"thought_signature": "S"}}));
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(completion["usage"]["prompt_tokens"], 8);
    assert_eq!(completion["usage"]["completion_tokens"], 8);
}

#[tokio::test]
async fn a_stream_arrives_as_chunks() {
    let prompt = request(json!({"stream_options": {"include_usage": true}}));
    for end in ["", "data: [DONE]\n\n"] {
        let stream = sse(&events()) + end;
        let (answered, sent) = exchange(fake::events(&stream), &prompt, true).await;
        let start = "POST /v1/models/gemini-3-flash-preview:streamGenerateContent?alt=sse HTTP";
        assert!(sent.starts_with(start), "{sent}");
        let chunks = answered.expect("a stream");
        assert_eq!(joined(&chunks, "content"), "I look.");
        assert_eq!(joined(&chunks, "reasoning_content"), "Hm.");
        let calls = chunks.iter().filter_map(|c| c["choices"][0]["delta"]["tool_calls"].as_array());
        let calls: Vec<_> = calls.flatten().collect();
        assert_eq!(calls[0]["extra_content"], json!({"google": {"thought_signature": "S"}}));
        assert_eq!((&calls[0]["index"], &calls[0]["id"]), (&json!(0), &json!("fc1")));
        let arguments: String =
            calls.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
        assert_eq!(arguments, "{\"a\":1}");
        let reasons: Vec<_> =
            chunks.iter().filter_map(|c| c["choices"][0]["finish_reason"].as_str()).collect();
        assert_eq!(reasons, ["tool_calls"]);
        assert_eq!(chunks.last().expect("chunks")["usage"]["completion_tokens"], 8);
    }
}

#[tokio::test]
async fn the_tier_of_service_that_a_header_names_is_that_of_the_response() {
    for (named, expected) in [
        ("standard", json!("default")),
        ("priority", json!("priority")),
        ("FLEX", json!("flex")),
        ("other", Value::Null),
    ] {
        let head = format!("x-gemini-service-tier: {named}\r\n");
        let json = fake::respond("200 OK", "application/json", &head, &whole().to_string());
        let stream = fake::respond("200 OK", "text/event-stream", &head, &sse(&events()));
        for (answer, is_streamed) in [(json, false), (stream, true)] {
            let (answered, _) = exchange(answer, &request(json!({})), is_streamed).await;
            let last = answered.expect("an answer").pop().expect("a chunk");
            assert_eq!(last["service_tier"], expected, "{named} {is_streamed}");
        }
    }
}

#[tokio::test]
async fn the_signature_of_a_call_returns_with_the_next_request() {
    let prompt = request(json!({"messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [{
            "id": "fc1", "type": "function", "function": {"name": "get", "arguments": "{\"a\":1}"},
            "extra_content": {"google": {"thought_signature": "S"}}
        }]},
        {"role": "tool", "tool_call_id": "fc1", "content": "ok"}
    ]}));
    let (answered, sent) =
        exchange(fake::json("200 OK", &whole().to_string()), &prompt, false).await;
    answered.expect("an answer");
    assert_eq!(
        body(&sent)["contents"].as_array().expect("contents")[1..],
        [
            json!({"role": "model", "parts": [{
                "functionCall": {"id": "fc1", "name": "get", "args": {"a": 1}}, "thoughtSignature": "S"
            }]}),
            json!({"role": "user", "parts": [{
                "functionResponse": {"id": "fc1", "name": "get", "response": {"result": "ok"}}
            }]}),
        ]
    );
}

/// Reads a stream that arrives in pieces.
async fn read(client: &HttpClient, pieces: Vec<Bytes>) -> Result<Vec<Value>, ModelError> {
    let response = ServiceResponse::of_pieces(pieces::iter(pieces));
    let events = ServiceEvents::new(client, response, free());
    chat_replies::read_chunks(DeltaStream::new(events, ReplyReader::default())).await
}

#[tokio::test]
async fn a_stream_is_read_however_it_is_cut_and_one_that_ends_early_fails() {
    let service = settings("http://127.0.0.1:1/v1");
    let client =
        HttpClient::new("google", &service, ServiceBounds::new(&service)).expect("a good service");
    let bytes = Bytes::from(sse(&events()));
    let expected = read(&client, vec![bytes.clone()]).await.expect("a stream");
    let last = sse(&events()[..3]).len();
    for at in (0..bytes.len()).step_by(11) {
        let cut = vec![bytes.slice(..at), bytes.slice(at..)];
        assert_eq!(read(&client, cut).await.expect("a stream"), expected, "cut at {at}");
    }
    for at in (0..=last).step_by(23) {
        let error = read(&client, vec![bytes.slice(..at)]).await.expect_err("cut off");
        assert!(matches!(error, ModelError::BadAnswer { .. }), "ended at {at}: {error:?}");
    }
}

#[tokio::test]
async fn native_errors_keep_their_status_and_wait_in_openais_form() {
    let error = json!({"error": {
        "code": 429, "message": format!("slow {KEY}"), "status": "RESOURCE_EXHAUSTED",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "9s"}]
    }});
    for text in [error.to_string(), format!("[{error}\n]")] {
        for is_streamed in [false, true] {
            let answer = fake::json("429 Slow", &text);
            let (answered, _) = exchange(answer, &request(json!({})), is_streamed).await;
            let error = answered.expect_err("an error");
            assert_eq!(
                (error.status().as_u16(), error.retry_after()),
                (429, Some(Duration::from_secs(9)))
            );
            assert_eq!(
                Value::from(error.to_object()),
                json!({
                    "message": "slow ***", "type": "rate_limit_error", "param": null,
                    "code": "RESOURCE_EXHAUSTED"
                })
            );
        }
    }
}

#[tokio::test]
async fn a_key_that_is_not_valid_is_an_error_of_the_credential() {
    let error = json!({"error": {
        "code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT",
        "details": [{"reason": "API_KEY_INVALID"}]
    }});
    let answer = fake::json("400 Bad", &error.to_string());
    let (answered, _) = exchange(answer, &request(json!({})), false).await;
    let error = answered.expect_err("an error");
    assert!(matches!(error, ModelError::Credential { .. }), "{error:?}");
}

#[tokio::test]
async fn an_error_as_the_first_event_is_repeated() {
    let error = json!({"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}});
    let malformed = json!({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL"}]});
    let fake = FakeService::start(vec![
        fake::events(&sse(&[error])),
        fake::events(&sse(&[malformed])),
        fake::events(&sse(&events())),
    ])
    .await;
    let wait = Duration::from_millis(1);
    let retries = Retries { max: 2, initial: wait, longest: wait };
    let service = Service { retries, ..settings(&fake.base_url) };
    let chunks = respond(&service, &request(json!({})), true, &free()).await.expect("a stream");
    assert_eq!(joined(&chunks, "content"), "I look.");
    assert_eq!(fake.requests().await.len(), 3);
}

#[tokio::test]
async fn a_blocked_prompt_is_filtered_content() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}});
    let (answered, _) =
        exchange(fake::json("200 OK", &blocked.to_string()), &request(json!({})), false).await;
    let completion = answered.expect("an answer").remove(0);
    assert_eq!(completion["choices"][0]["finish_reason"], "content_filter");
}

#[tokio::test]
async fn a_response_that_is_none_fails() {
    let (answered, _) = exchange(fake::json("200 OK", "{}"), &request(json!({})), false).await;
    assert_eq!(answered.expect_err("no reply").status(), StatusCode::BAD_GATEWAY);
    let page = fake::respond("502 Bad", "text/html", "", "<html>");
    let (answered, _) = exchange(page, &request(json!({})), false).await;
    assert_eq!(answered.expect_err("a page").to_object()["code"], "provider_error");
}

#[tokio::test]
async fn a_request_that_has_no_translation_is_refused_by_field_and_not_sent() {
    let service = settings("http://127.0.0.1:1/v1");
    for (members, param) in [
        (json!({"logit_bias": {"1": 1}}), "logit_bias"),
        (json!({"model": "../files"}), "model"),
        (json!({"model": "a?b"}), "model"),
        (json!({"model": "models/a:b"}), "model"),
        (json!({"model": "operations/a"}), "model"),
    ] {
        let error = respond(&service, &request(members), false, &free()).await.expect_err(param);
        assert_eq!((error.status().as_u16(), &error.to_object()["param"]), (400, &json!(param)));
    }
}

#[test]
fn the_name_of_a_model_becomes_one_segment_below_its_folder() {
    for (model, path) in [
        ("gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("models/gemini-2.5-pro", "models/gemini-2.5-pro"),
        ("tunedModels/my-model_1@2", "tunedModels/my-model_1@2"),
        ("..", "models/.."),
    ] {
        assert_eq!(path_of(model).as_deref(), Ok(path));
    }
    let service = Service::new(Api::Gemini, "http://h/v1beta/");
    let gemini = Gemini::new(addresses("google", &service).expect("a URL"));
    assert_eq!(
        gemini.uri("models/..", false).to_string(),
        "http://h/v1beta/models/..:generateContent"
    );
    let long = "x".repeat(MAX_MODEL_BYTES + 1);
    for model in ["", "models/", "a/b", "a b", "a%2e", "a#", "models/../a", long.as_str()] {
        assert_eq!(path_of(model).expect_err(model).param, "model");
    }
}

#[tokio::test]
async fn the_chunks_of_one_event_are_charged_until_they_are_dropped() {
    let parts = vec![json!({"text": "x"}); 2_000];
    let event = json!({"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]});
    let sse = sse(&[event]);
    for (limit, has_room) in [(16 << 20, true), (512 << 10, false)] {
        let memory = Limited::new(limit);
        let held = MemoryBudget::new(memory.clone()).charge();
        let fake = FakeService::start(vec![fake::events(&sse)]).await;
        let answered = respond(&settings(&fake.base_url), &request(json!({})), true, &held).await;
        assert_eq!(answered.is_ok(), has_room, "{answered:?}");
        assert_eq!(memory.taken(), 0);
        fake.requests().await;
    }
}

#[tokio::test]
async fn models_that_generate_content_are_listed_in_openais_form() {
    let list = json!({"models": [
        {"name": "models/gemini-x", "displayName": "X", "supportedGenerationMethods": ["generateContent"]},
        {"name": "models/embedding-x", "supportedGenerationMethods": ["embedContent"]},
        {"displayName": "no name"},
    ]});
    let fake = FakeService::start(vec![fake::json("200 OK", &list.to_string())]).await;
    let client =
        client::ServiceClient::new("google", &settings(&fake.base_url)).expect("a service");
    let listed: Value = client.list().await.parse().expect("one model");
    assert_eq!(
        listed,
        json!({
            "id": "google/gemini-x", "object": "model", "created": 0, "owned_by": "google",
            "display_name": "X"
        })
    );
    let request = fake.requests().await.remove(0);
    assert!(request.starts_with("GET /v1/models?pageSize=1000 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains(&format!("x-goog-api-key: {KEY}\r\n")), "{request}");
}
