use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use futures_util::stream as pieces;

use super::{recorded::RECORDED, *};
use crate::{
    Api, Key, ModelError, Prompt, Retries,
    backend::Backend as _,
    chat_replies,
    delta_stream::DeltaStream,
    http::{ServiceBounds, ServiceEvents},
    service,
};
use airlock_conversation::{
    Reply,
    chat::{self, ChunkWriter},
};
use airlock_core::{
    memory::{Limited, MemoryBudget},
    secret::Secret,
};
use airlock_json::RawObject;
use airlock_test_http::model::{self as fake, FakeService};

const KEY: &str = "sk-ant-very-secret";

const ERROR: &str = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/error.sse");

fn settings(base_url: &str) -> Service {
    Service {
        keys: vec![Key::new("first", Secret::new(KEY))],
        retries: Retries { max: 0, ..Retries::default() },
        ..Service::new(Api::Anthropic, base_url)
    }
}

fn request(members: Value) -> Prompt {
    let mut body = object(json!({
        "model": "claude-opus-4-6", "messages": [{"role": "user", "content": "hi"}]
    }));
    body.extend(object(members));
    Prompt::new(RawObject::from(&body))
}

/// Sends a request and returns the completion, or the chunks.
async fn respond(
    service: &Service,
    prompt: &Prompt,
    is_streamed: bool,
    held: &Charge,
) -> Result<Vec<Value>, ModelError> {
    let client = service::ServiceClient::new("claude", service).expect("a good service");
    let terms = chat_replies::terms(is_streamed, held);
    chat_replies::read(client.respond(prompt, terms).await?).await
}

fn free() -> Charge {
    MemoryBudget::unlimited().charge()
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

/// Sets the time of creation, which is that of the test, to 0.
fn undated(mut values: Vec<Value>) -> Vec<Value> {
    for value in &mut values {
        value["created"] = 0.into();
    }
    values
}

fn parse(text: &str) -> Object {
    serde_json::from_str(text).expect("a JSON object")
}

/// Returns the chunks of a recorded stream, from the translation alone.
fn translated(sse: &str, includes_usage: bool) -> Vec<Value> {
    let mut reader = ReplyReader::default();
    let data = sse.lines().filter_map(|line| line.strip_prefix("data: "));
    let deltas = data.flat_map(|data| reader.event(&parse(data)).expect("a good event"));
    chat_replies::written(deltas.collect(), &mut ChunkWriter::new(0, includes_usage))
}

fn body(request: &str) -> Value {
    let (_, body) = request.split_once("\r\n\r\n").expect("a head");
    serde_json::from_str(body).expect("JSON")
}

#[tokio::test]
async fn a_request_is_translated_and_sent_with_its_headers() {
    let picture = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}});
    let prompt = request(json!({
        "betas": ["b-1"],
        "messages": [
            {"role": "system", "content": "Be kind.", "cache_control": {"type": "ephemeral"}},
            {"role": "user", "content": [picture]},
        ],
        "tools": [{"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}}],
        "thinking": {"type": "adaptive"},
    }));
    let (_, _, message) = RECORDED[0];
    let fake = FakeService::start(vec![fake::json("200 OK", message)]).await;
    let beta = ("anthropic-beta".to_owned(), Secret::new("a-1"));
    let service = Service { headers: BTreeMap::from([beta]), ..settings(&fake.base_url) };
    respond(&service, &prompt, false, &free()).await.expect("an answer");
    let request = fake.requests().await.remove(0);
    assert!(request.starts_with("POST /v1/messages HTTP/1.1\r\n"), "{request}");
    for header in [
        format!("x-api-key: {KEY}\r\n"),
        "anthropic-version: 2023-06-01\r\n".to_owned(),
        "anthropic-beta: a-1,b-1\r\n".to_owned(),
        "content-type: application/json\r\n".to_owned(),
    ] {
        assert!(request.contains(&header), "{header} is not in {request}");
    }
    let sent = body(&request);
    assert_eq!(sent["system"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(sent["messages"][0]["content"][0]["source"]["media_type"], "image/png");
    assert_eq!(sent["tools"][0]["name"], "get");
    assert_eq!(sent["thinking"], json!({"type": "adaptive"}));
    assert_eq!((sent.get("betas"), sent.get("stream")), (None, None));
}

#[tokio::test]
async fn recorded_messages_arrive_as_completions() {
    for (name, _, message) in RECORDED {
        let (answered, _) =
            exchange(fake::json("200 OK", message), &request(json!({})), false).await;
        let mut reply = Reply::default();
        reply.extend(ReplyReader::default().whole(parse(message)).expect("a message"));
        let expected = chat::write_reply(reply, 0);
        assert_eq!(undated(answered.expect(name)), [Value::from(expected)], "{name}");
    }
}

#[tokio::test]
async fn recorded_streams_arrive_as_chunks() {
    for (name, sse, _) in RECORDED {
        let prompt = request(json!({"stream_options": {"include_usage": true}}));
        let (answered, sent) = exchange(fake::events(sse), &prompt, true).await;
        assert_eq!(undated(answered.expect(name)), translated(sse, true), "{name}");
        assert_eq!(body(&sent)["stream"], true);
    }
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
        HttpClient::new("claude", &service, ServiceBounds::new(&service)).expect("a good service");
    for (name, sse, _) in RECORDED {
        let bytes = Bytes::from(sse);
        let expected = translated(sse, false);
        // Steps without a common divisor with the lengths of lines. The decoder has tests of its own
        // for every place.
        for at in (0..bytes.len()).step_by(11) {
            let cut = vec![bytes.slice(..at), bytes.slice(at..)];
            assert_eq!(read(&client, cut).await.expect(name), expected, "{name}, cut at {at}");
        }
        let stop = sse.find("\"message_stop\"").expect("an end");
        for at in (0..stop).step_by(23) {
            let error = read(&client, vec![bytes.slice(..at)]).await.expect_err(name);
            assert!(
                matches!(error, ModelError::BadAnswer { what, .. } if what.contains("ended")),
                "{name}, ended at {at}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_error_in_the_stream_has_the_status_of_its_type() {
    let (answered, _) = exchange(fake::events(ERROR), &request(json!({})), true).await;
    let error = answered.expect_err("an error");
    assert_eq!(error.status().as_u16(), 529);
    assert_eq!(error.to_object()["code"], "overloaded_error");
    let refused = ERROR.replace("overloaded_error", "authentication_error");
    let (answered, _) = exchange(fake::events(&refused), &request(json!({})), true).await;
    assert!(matches!(answered, Err(ModelError::Credential { .. })), "{answered:?}");
}

#[tokio::test]
async fn native_errors_keep_status_and_retry_after_in_openais_form() {
    let body = format!(
        r#"{{"type":"error","error":{{"type":"rate_limit_error","message":"slow {KEY}"}},"request_id":"req_1"}}"#
    );
    let answer = fake::respond("429 Slow", "application/json", "retry-after: 9\r\n", &body);
    for is_streamed in [false, true] {
        let (answered, _) = exchange(answer.clone(), &request(json!({})), is_streamed).await;
        let error = answered.expect_err("an error");
        assert_eq!(
            (error.status().as_u16(), error.retry_after().expect("sent")),
            (429, Duration::from_secs(9))
        );
        assert_eq!(
            Value::from(error.to_object()),
            json!({
                "message": "slow ***", "type": "rate_limit_error", "param": null,
                "code": "rate_limit_error", "request_id": "req_1"
            })
        );
    }
    for status in ["401 No", "403 No"] {
        let (answered, _) = exchange(fake::json(status, &body), &request(json!({})), false).await;
        let error = answered.expect_err("an error");
        assert!(matches!(error, ModelError::Credential { .. }), "{error:?}");
        assert!(!format!("{error:?} {:?}", error.to_object()).contains(KEY));
    }
    let (answered, _) = exchange(fake::json("200 OK", "{}"), &request(json!({})), false).await;
    assert_eq!(answered.expect_err("no message").status(), StatusCode::BAD_GATEWAY);
}

#[tokio::test]
async fn a_request_that_has_no_translation_is_refused_by_field_and_not_sent() {
    let service = settings("http://127.0.0.1:1/v1");
    for (members, param) in [
        (json!({"n": 2}), "n"),
        (json!({"betas": "x"}), "betas"),
        (json!({"messages": 1}), "messages"),
    ] {
        let error = respond(&service, &request(members), false, &free()).await.expect_err(param);
        let status = error.status().as_u16();
        let error = error.to_object();
        assert_eq!((status, &error["param"]), (400, &json!(param)));
        assert_eq!(error["type"], "invalid_request_error");
        assert!(error["code"].is_string() && error["message"].is_string(), "{error:?}");
    }
}

#[tokio::test]
async fn thinking_that_is_kept_until_its_signature_comes_is_charged() {
    let (_, sse, _) = RECORDED[2];
    let delta = sse.split("\n\n").find(|event| event.contains("\"thinking_delta\""));
    let delta = format!("{}\n\n", delta.expect("a piece of thinking"));
    // Each piece alone is too short to be charged.
    let piece =
        delta.replacen("\"thinking\":\"", &format!("\"thinking\":\"{}", "x".repeat(1_000)), 1);
    assert_ne!(piece, delta);
    let long = sse.replacen(&delta, &piece.repeat(50), 1);
    let memory = Limited::new(1 << 20);
    let held = MemoryBudget::new(memory.clone()).charge();
    let fake = FakeService::start(vec![fake::events(&long)]).await;
    respond(&settings(&fake.base_url), &request(json!({})), true, &held).await.expect("a stream");
    assert!(memory.most() > 50_000, "{}", memory.most());
    assert_eq!(memory.taken(), 0);
    fake.requests().await;
}

#[tokio::test]
async fn inputs_of_calls_and_reasons_of_ends_that_are_kept_are_charged() {
    let long = "x".repeat(1_000);
    let input = json!({"type": "tool_use", "id": "c", "name": "n", "input": {"a": long}});
    let block = [
        event(&json!({"type": "content_block_start", "index": 0, "content_block": input})),
        event(&json!({"type": "content_block_stop", "index": 0})),
    ];
    let end = json!({"stop_reason": "end_turn", "stop_details": {"explanation": long}});
    let end = event(&json!({"type": "message_delta", "delta": end}));
    let start = event(&json!({"type": "message_start", "message": {"id": "msg_1", "model": "m"}}));
    let stop = event(&json!({"type": "message_stop"}));
    for kept in [block.concat(), end.clone()] {
        let sse = [start.as_str(), &kept.repeat(50), &end, &stop].concat();
        let memory = Limited::new(1 << 20);
        let held = MemoryBudget::new(memory.clone()).charge();
        let fake = FakeService::start(vec![fake::events(&sse)]).await;
        let answered = respond(&settings(&fake.base_url), &request(json!({})), true, &held).await;
        answered.expect("a stream");
        assert!(memory.most() > 50_000, "{}", memory.most());
        assert_eq!(memory.taken(), 0);
        fake.requests().await;
    }
}

/// Returns an event of a stream.
fn event(data: &Value) -> String {
    format!("data: {data}\n\n")
}

#[tokio::test]
async fn the_chunks_of_one_event_are_charged_until_they_are_dropped() {
    let citations = vec![json!({}); 1_000];
    let block = json!({"type": "text", "text": "x", "citations": citations});
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "m"}}),
        json!({"type": "content_block_start", "index": 0, "content_block": block}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let sse = events.map(|event| format!("data: {event}\n\n")).concat();
    for (limit, has_room) in [(16 << 20, true), (256 << 10, false)] {
        let memory = Limited::new(limit);
        let held = MemoryBudget::new(memory.clone()).charge();
        let fake = FakeService::start(vec![fake::events(&sse)]).await;
        let answered = respond(&settings(&fake.base_url), &request(json!({})), true, &held).await;
        assert_eq!(answered.is_ok(), has_room, "{answered:?}");
        assert_eq!(memory.most() > 1_000 * 300, has_room, "{}", memory.most());
        assert_eq!(memory.taken(), 0);
        fake.requests().await;
    }
}

#[tokio::test]
async fn models_are_listed_in_openais_form() {
    let list = json!({"data": [
        {"type": "model", "id": "claude-x", "display_name": "X", "created_at": "1970-01-02T00:00:00Z"},
        {"type": "model", "display_name": "no id"},
    ], "has_more": false});
    let fake = FakeService::start(vec![fake::json("200 OK", &list.to_string())]).await;
    let client =
        service::ServiceClient::new("claude", &settings(&fake.base_url)).expect("a service");
    let listed: Value = client.list().await.parse().expect("one model");
    assert_eq!(
        listed,
        json!({
            "id": "claude/claude-x", "object": "model", "created": 86_400, "owned_by": "anthropic",
            "display_name": "X"
        })
    );
    let request = fake.requests().await.remove(0);
    assert!(request.starts_with("GET /v1/models?limit=1000 HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("anthropic-version: 2023-06-01\r\n"), "{request}");
}
