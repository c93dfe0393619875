use std::{fs, path::Path};

use futures_util::{FutureExt as _, stream};
use serde_json::json;

use bytes::Bytes;

use super::*;
use crate::{
    Api, Service, chat_replies,
    http::{HttpClient, ServiceBounds, ServiceResponse},
};
use airlock_conversation::{
    Delta, Reply,
    chat::{self, ReplyReader},
};
use airlock_core::memory::MemoryBudget;
use airlock_json::{Caps, object};

/// Result of reading a stream, in the form of the corpus.
#[derive(Debug, PartialEq)]
enum Outcome {
    Answer(Value),
    Reported(Value),
    Malformed,
    Truncated,
}

fn client() -> HttpClient {
    let service = Service::new(Api::OpenAi, "http://127.0.0.1:1/v1");
    HttpClient::new("up", &service, ServiceBounds::new(&service)).expect("a good address")
}

async fn read(client: &HttpClient, pieces: Vec<Bytes>) -> Outcome {
    let response = ServiceResponse::of_pieces(stream::iter(pieces));
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(true, &held);
    let mut chunks = OpenAiChunks::new(ServiceEvents::new(client, response, held.beside()), &terms);
    let mut reply = Reply::default();
    loop {
        match chunks.next().await {
            Ok(Some(chunk)) => reply.extend(chunk.into_deltas()),
            Ok(None) => return Outcome::Answer(chat::write_reply(reply, 0).into()),
            Err(error @ ModelError::Refused { .. }) => {
                return Outcome::Reported(error.to_object()["message"].clone());
            }
            Err(ModelError::BadAnswer { what, .. })
                if what.contains("ended") || what == "no `choices`" =>
            {
                return Outcome::Truncated;
            }
            Err(_) => return Outcome::Malformed,
        }
    }
}

/// Returns a completion as it is written from its deltas.
fn as_reply(completion: Object) -> Value {
    let mut reply = Reply::default();
    reply.extend(ReplyReader::default().whole(completion).expect("a completion"));
    chat::write_reply(reply, 0).into()
}

/// Sorts the calls, which the corpus sorts by their index, and removes their ids: the repair adds
/// missing ones.
fn comparable(mut answer: Value) -> Value {
    for choice in answer["choices"].as_array_mut().into_iter().flatten() {
        let calls = choice.pointer_mut("/message/tool_calls").and_then(Value::as_array_mut);
        let Some(calls) = calls else { continue };
        for call in calls.iter_mut().filter_map(Value::as_object_mut) {
            call.shift_remove("id");
        }
        calls.sort_by_key(|call| call["function"].to_string());
    }
    // Members that no delta has.
    let known = ["id", "object", "created", "model", "choices", "usage"];
    answer.as_object_mut().expect("an object").retain(|name, _| known.contains(&name.as_str()));
    for choice in answer["choices"].as_array_mut().into_iter().flatten() {
        let known = ["index", "message", "logprobs", "finish_reason"];
        choice.as_object_mut().expect("an object").retain(|name, _| known.contains(&name.as_str()));
        if let Value::Object(logprobs) = &mut choice["logprobs"] {
            logprobs.retain(|_, list| !list.is_null());
        }
    }
    answer
}

fn expected(path: &Path) -> Outcome {
    let text = fs::read_to_string(path.with_extension("json")).expect("a result");
    let result: Value = serde_json::from_str(&text).expect("JSON");
    match result["error"]["kind"].as_str() {
        Some("reported") => {
            let error = &result["error"]["error"];
            let message = error
                .get("message")
                .filter(|message| message.is_string())
                .or(Some(error).filter(|error| error.is_string()));
            Outcome::Reported(
                message
                    .cloned()
                    .unwrap_or_else(|| json!("provider 'up' responded with status 502")),
            )
        }
        Some("malformed") => Outcome::Malformed,
        Some(_) => Outcome::Truncated,
        None if result["answer"]["choices"] == json!([]) => Outcome::Truncated,
        None => Outcome::Answer(comparable(as_reply(object(result["answer"].clone())))),
    }
}

async fn outcome(client: &HttpClient, pieces: Vec<Bytes>) -> Outcome {
    match read(client, pieces).await {
        Outcome::Answer(answer) => Outcome::Answer(comparable(answer)),
        other => other,
    }
}

#[tokio::test]
async fn streams_of_real_servers_are_read_however_they_are_cut() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/chat_streams");
    let mut files: Vec<_> = fs::read_dir(corpus)
        .expect("the corpus")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "sse"));
    files.sort();
    assert!(files.len() > 100, "{}", files.len());
    let client = client();
    let mut wrong = Vec::new();
    for path in &files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let bytes = Bytes::from(fs::read(path).expect("a stream"));
        let expected = expected(path);
        let found = outcome(&client, vec![bytes.clone()]).await;
        if found != expected {
            wrong.push(format!("{name}:\n  found    {found:?}\n  expected {expected:?}"));
            continue;
        }
        let bytewise = bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])).collect();
        assert_eq!(outcome(&client, bytewise).await, expected, "{name}, byte by byte");
        for at in (0..bytes.len()).step_by(7) {
            let cut = vec![bytes.slice(..at), bytes.slice(at..)];
            assert_eq!(outcome(&client, cut).await, expected, "{name}, cut at {at}");
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), files.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_stream_is_bounded_in_events_and_in_all() {
    let client = client();
    assert_eq!(read(&client, vec![event(client.bounds.event_bytes)]).await, Outcome::Malformed);
    let all = vec![
        event(client.bounds.event_bytes - 100);
        client.bounds.answer_bytes / client.bounds.event_bytes + 1
    ];
    assert_eq!(read(&client, all).await, Outcome::Malformed);
    let choices: Vec<Value> = (0..=MAX_CHOICES).map(|index| json!({"index": index})).collect();
    let many = Bytes::from(format!("data: {}\n\n", json!({"choices": choices})));
    assert_eq!(read(&client, vec![many]).await, Outcome::Malformed);
}

fn event(bytes: usize) -> Bytes {
    Bytes::from(format!("data: {{\"choices\":[],\"x\":\"{}\"}}\n\n", "x".repeat(bytes)))
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_sends_nothing_for_too_long_fails() {
    let client = client();
    let response = ServiceResponse::of_pieces(stream::pending());
    let held = MemoryBudget::unlimited().charge();
    let terms = chat_replies::terms(true, &held);
    let mut chunks =
        OpenAiChunks::new(ServiceEvents::new(&client, response, held.beside()), &terms);
    let started = tokio::time::Instant::now();
    let error = chunks.next().await.expect_err("it is silent");
    assert_eq!(started.elapsed(), client.bounds.idle);
    assert_eq!(
        (error.status().as_u16(), &error.to_object()["code"]),
        (504, &json!("provider_timeout"))
    );
}

#[tokio::test]
async fn a_chunk_that_repeats_a_choice_too_often_is_refused() {
    assert!(matches!(read(&client(), repeating(MAX_CHOICES)).await, Outcome::Answer(_)));
    assert_eq!(read(&client(), repeating(MAX_CHOICES + 1)).await, Outcome::Malformed);
}

fn repeating(count: usize) -> Vec<Bytes> {
    let choices = vec![json!({"index": 0, "delta": {}, "finish_reason": "stop"}); count];
    vec![Bytes::from(format!("data: {}\n\n", json!({"choices": choices})))]
}

#[tokio::test]
async fn a_message_counts_only_where_there_is_no_delta() {
    let message = json!({"content": "Hi"});
    for choice in [
        json!({"delta": {"content": "Hi"}, "message": message, "finish_reason": "stop"}),
        json!({"message": message, "finish_reason": "stop"}),
    ] {
        let body = Bytes::from(format!("data: {}\n\n", json!({"choices": [choice]})));
        let Outcome::Answer(answer) = read(&client(), vec![body]).await else {
            panic!("no answer")
        };
        assert_eq!(answer["choices"][0]["message"]["content"], "Hi");
        assert!(answer["choices"][0].get("delta").is_none());
    }
}

#[tokio::test]
async fn a_long_chunk_is_not_read_on_a_worker() {
    let held = Arc::new(MemoryBudget::unlimited().charge());
    for (bytes, is_here) in [(10, true), (INLINE_BYTES, false)] {
        let call = json!({"index": 0, "function": {"name": "f", "arguments": "x".repeat(bytes)}});
        let choice = json!({"delta": {"tool_calls": [call]}});
        let text = json!({"choices": [choice]}).to_string();
        let chunk = Document::read_chunk(text, &Caps::memory(1 << 20), &held).expect("a chunk");
        let terms = chat_replies::terms(true, &held);
        let chat = ChatReader::new(&terms);
        let mut reader = StreamReader { chat, ..StreamReader::default() };
        let occupied = threads::occupy(&held.tenant()).await;
        let mut reading = Box::pin(read_chunk(&mut reader, chunk, false, &held));
        let at_once = reading.as_mut().now_or_never();
        assert_eq!(at_once.is_some(), is_here, "{bytes}");
        drop(occupied);
        let read = if let Some(read) = at_once { read } else { reading.as_mut().await };
        drop(reading);
        let deltas = read.expect("a chunk").into_deltas();
        assert!(
            deltas
                .iter()
                .any(|delta| matches!(delta, Delta::Arguments { text, .. } if text.len() == bytes))
        );
        assert!(reader.seen.contains(&0) && reader.chat.held_bytes() == reader.held_bytes);
    }
}
