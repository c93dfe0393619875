use std::time::Duration;

use serde_json::json;

use super::*;
use crate::{
    Api, Apis, Key, ReplyChunk, Retries, Service, backend::Backend as _, chat_replies,
    service::ServiceClient,
};
use airlock_conversation::Delta;
use airlock_core::{
    memory::{Limited, MemoryBudget},
    secret::Secret,
};
use airlock_json::{RawObject, object};
use airlock_test_http::model::{self as fake, FakeService};

const REASONING: [&str; 2] = [
    include_str!("../../../../../tests/fixtures/chat_streams/responses/reasoning.sse"),
    include_str!("../../../../../tests/fixtures/chat_streams/responses/reasoning.json"),
];
const FAILED: &str =
    include_str!("../../../../../tests/fixtures/chat_streams/responses/failed.sse");

fn settings(base_url: &str, apis: Apis) -> Service {
    let wait = Duration::from_millis(1);
    Service {
        apis,
        keys: vec![Key::new("first", Secret::new("sk-secret"))],
        retries: Retries { max: 1, initial: wait, longest: wait },
        ..Service::new(Api::OpenAi, base_url)
    }
}

fn chat() -> Prompt {
    let body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    Prompt::new(RawObject::from(&object(body)))
}

fn native() -> Prompt {
    let body =
        json!({"model": "m", "input": [{"role": "user", "content": "hi"}], "truncation": "auto"});
    Prompt::responses(RawObject::from(&object(body)), Arc::default())
}

/// Sends requests until one succeeds. Returns the completion or the chunks, and the requests.
async fn exchange(
    answers: Vec<String>,
    apis: Apis,
    prompt: &Prompt,
    is_streamed: bool,
    held: &Charge,
) -> (Result<Vec<ReplyChunk>, ModelError>, Vec<String>) {
    let fake = FakeService::start(answers).await;
    let client = ServiceClient::new("up", &settings(&fake.base_url, apis)).expect("a good service");
    let terms = chat_replies::terms(is_streamed, held);
    let mut read = Vec::new();
    let answered = match client.respond(prompt, terms).await {
        Ok(Response::Whole(answer)) => Ok(vec![answer]),
        Ok(Response::Chunks(mut chunks)) => loop {
            match chunks.next().await {
                Ok(Some(chunk)) => read.push(chunk),
                Ok(None) => break Ok(read),
                Err(error) => break Err(error),
            }
        },
        Err(error) => Err(error),
    };
    (answered, fake.requests().await)
}

fn free() -> Charge {
    MemoryBudget::unlimited().charge()
}

fn line(request: &str) -> &str {
    request.lines().next().unwrap_or_default()
}

fn body(request: &str) -> Value {
    serde_json::from_str(request.split_once("\r\n\r\n").expect("a head").1).expect("JSON")
}

fn whole() -> String {
    fake::json("200 OK", REASONING[1])
}

#[tokio::test]
async fn a_request_is_sent_in_the_api_in_which_it_came_if_the_service_has_it() {
    for (prompt, apis, answer, path) in [
        (chat(), Apis::Chat, completion(), "/v1/chat/completions"),
        (chat(), Apis::Both, completion(), "/v1/chat/completions"),
        (chat(), Apis::Responses, whole(), "/v1/responses"),
        (native(), Apis::Chat, completion(), "/v1/chat/completions"),
        (native(), Apis::Both, whole(), "/v1/responses"),
        (native(), Apis::Responses, whole(), "/v1/responses"),
    ] {
        let (answered, requests) = exchange(vec![answer], apis, &prompt, false, &free()).await;
        assert!(answered.is_ok(), "{answered:?}");
        assert_eq!(line(&requests[0]), format!("POST {path} HTTP/1.1"));
    }
}

fn completion() -> String {
    fake::json("200 OK", r#"{"choices":[]}"#)
}

#[tokio::test]
async fn a_request_is_sent_without_storage_and_asks_for_encrypted_reasoning() {
    let (_, requests) = exchange(vec![whole()], Apis::Both, &native(), false, &free()).await;
    assert_eq!(
        body(&requests[0]),
        json!({
            "model": "m", "truncation": "auto", "store": false,
            "input": [{"role": "user", "content": "hi"}],
            "include": ["reasoning.encrypted_content"]
        })
    );
    let (_, requests) = exchange(vec![whole()], Apis::Responses, &chat(), false, &free()).await;
    assert_eq!(
        body(&requests[0]),
        json!({
            "model": "m", "store": false,
            "input": [{"type": "message", "role": "user", "content": "hi"}],
            "include": ["reasoning.encrypted_content"]
        })
    );
}

#[tokio::test]
async fn streamed_and_whole_responses_have_the_same_items() {
    let streamed = fake::events(REASONING[0]);
    for (answer, is_streamed) in [(streamed, true), (whole(), true), (whole(), false)] {
        let (chunks, _) = exchange(vec![answer], Apis::Both, &native(), is_streamed, &free()).await;
        let mut deltas = Vec::new();
        for chunk in chunks.expect("an answer") {
            deltas.append(&mut chunk.into_deltas());
        }
        let items = deltas.iter().filter(|delta| matches!(delta, Delta::ItemEnd { .. }));
        assert_eq!(items.count(), 5);
        let text: String = deltas.iter().filter_map(text).collect();
        assert_eq!(text, "Let me look.");
    }
}

fn text(delta: &Delta) -> Option<&str> {
    match delta {
        Delta::Text { text, .. } => Some(text),
        _ => None,
    }
}

#[tokio::test]
async fn a_model_without_encrypted_reasoning_is_asked_again_and_then_never_for_it() {
    let refused = r#"{"error":{"message":"Encrypted content is not supported with this model.","type":"invalid_request_error","param":"include","code":null}}"#;
    let refused = fake::json("400 Bad Request", refused);
    let answers = vec![refused.clone(), whole(), whole(), refused.clone(), refused, whole()];
    let fake = FakeService::start(answers).await;
    let client = ServiceClient::new("up", &settings(&fake.base_url, Apis::Both)).expect("good");
    let held = free();
    let terms = chat_replies::terms(false, &held);
    let mut prompt = native();
    for _ in 0..2 {
        assert!(client.respond(&prompt, terms).await.is_ok());
    }
    prompt.body.set("model", r#""other""#);
    let error = client.respond(&prompt, terms).await.err().expect("it is refused twice");
    assert_eq!(error.status(), StatusCode::BAD_REQUEST);
    assert!(client.respond(&prompt, terms).await.is_ok());
    let requests = fake.requests().await;
    let asks: Vec<_> =
        requests.iter().map(|request| request.contains("encrypted_content")).collect();
    assert_eq!(asks, [true, false, false, true, false, true], "only a success proves the reason");
}

#[tokio::test]
async fn a_model_is_remembered_up_to_the_length_of_the_longest_name() {
    let refused = r#"{"error":{"message":"No.","type":"invalid_request_error","param":"include","code":null}}"#;
    let refused = fake::json("400 Bad Request", refused);
    for (length, asks) in [
        (MAX_KNOWN_MODEL_BYTES, &[true, false, false][..]),
        (MAX_KNOWN_MODEL_BYTES + 1, &[true, false, true, false][..]),
    ] {
        let answers = asks.iter().map(|asks| if *asks { refused.clone() } else { whole() });
        let fake = FakeService::start(answers.collect()).await;
        let client = ServiceClient::new("up", &settings(&fake.base_url, Apis::Both)).expect("good");
        let held = free();
        let mut prompt = native();
        prompt.body.set("model", format!("\"{}\"", "m".repeat(length)));
        for _ in 0..2 {
            assert!(client.respond(&prompt, chat_replies::terms(false, &held)).await.is_ok());
        }
        let requests = fake.requests().await;
        let asked: Vec<_> =
            requests.iter().map(|request| request.contains("encrypted_content")).collect();
        assert_eq!(asked, asks, "{length}");
    }
}

#[tokio::test]
async fn a_failure_before_the_first_item_is_repeated_and_a_cut_stream_fails() {
    let answers = vec![fake::events(FAILED), fake::events(REASONING[0])];
    let (chunks, requests) = exchange(answers, Apis::Both, &native(), true, &free()).await;
    assert!(chunks.is_ok(), "{chunks:?}");
    assert_eq!(requests.len(), 2);
    let cut = REASONING[0].split_once("event: response.completed").expect("an end").0;
    for end in ["", "data: [DONE]\n\n"] {
        let answer = fake::events(&format!("{cut}{end}"));
        let (chunks, _) = exchange(vec![answer], Apis::Both, &native(), true, &free()).await;
        assert_eq!(
            chunks.expect_err("it is cut").to_string(),
            "provider 'up' responded with a stream that ended before the response did"
        );
    }
}

#[tokio::test]
async fn errors_of_the_service_keep_their_status_and_shape() {
    for (status, text, expected) in [
        (
            "400 Bad",
            r#"{"error":{"message":"m","param":"input","x":1}}"#,
            json!({"message": "m", "param": "input", "x": 1}),
        ),
        (
            "404 Gone",
            "<html>",
            json!({"message": "provider 'up' responded with status 404", "type": "invalid_request_error", "param": null, "code": "provider_error"}),
        ),
    ] {
        let answer = fake::json(status, text);
        let (answered, _) = exchange(vec![answer], Apis::Both, &native(), false, &free()).await;
        let error = answered.expect_err("an error");
        assert_eq!(error.status().as_u16().to_string(), status[..3]);
        assert_eq!(Value::from(error.to_object()), expected);
    }
}

#[tokio::test]
async fn all_memory_is_released_and_a_request_without_room_is_not_sent() {
    let memory = Limited::new(1 << 20);
    let held = MemoryBudget::new(memory.clone()).charge();
    for (answer, is_streamed) in [(fake::events(REASONING[0]), true), (whole(), false)] {
        let (chunks, _) =
            exchange(vec![answer], Apis::Responses, &chat(), is_streamed, &held).await;
        assert!(chunks.is_ok(), "{chunks:?}");
        drop(chunks);
        assert_eq!(memory.taken(), 0);
    }
    for prompt in [chat(), native()] {
        let held = MemoryBudget::new(Limited::new(20)).charge();
        let (answered, _) = exchange(Vec::new(), Apis::Responses, &prompt, false, &held).await;
        assert!(matches!(answered, Err(ModelError::NoMemory { .. })), "{answered:?}");
    }
}

#[tokio::test]
async fn the_chunks_of_one_event_are_charged_until_they_are_dropped() {
    let sources = vec![json!({}); 1_000];
    let part = json!({"type": "output_text", "text": "x", "annotations": sources});
    let message = json!({"type": "message", "id": "m", "content": [part]});
    let response = json!({"id": "r", "model": "m", "status": "completed", "output": [message]});
    let created = json!({"type": "response.created", "response": {"id": "r", "model": "m"}});
    let completed = json!({"type": "response.completed", "response": response});
    let streamed = fake::events(&format!("data: {created}\n\ndata: {completed}\n\n"));
    let whole = fake::json("200 OK", &response.to_string());
    for (answer, is_streamed) in [(streamed, true), (whole, false)] {
        let memory = Limited::new(16 << 20);
        let held = MemoryBudget::new(memory.clone()).charge();
        let (chunks, _) = exchange(vec![answer], Apis::Both, &native(), is_streamed, &held).await;
        let chunks = chunks.expect("there is room");
        assert!(memory.taken() > 1_000 * 300, "{}", memory.taken());
        drop(chunks);
        assert_eq!(memory.taken(), 0);
    }
}
