//! Whole replies, errors, and streams of real servers.

use std::{fs, path::Path};

use super::*;
use crate::{Reply, chat::write_reply};

fn call_of(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

#[test]
fn a_whole_reply_is_read_as_its_stream() {
    let whole = json!({"id": "a", "object": "chat.completion", "created": 7, "model": "m", "choices": [{
        "index": 0, "logprobs": null, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "t", "refusal": null, "annotations": [],
            "tool_calls": [call_of("a"), call_of("b")]
        }
    }], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}});
    let begin =
        Begin { id: "a".to_owned(), model: "m".to_owned(), created: 7, extra: Object::new() };
    assert_eq!(
        ReplyReader::default().whole(object(whole)),
        Ok(vec![
            Delta::Begin(begin),
            text("t"),
            call(0, "a", "f"),
            arguments(0, "{}"),
            call(1, "b", "f"),
            arguments(1, "{}"),
            Delta::End { choice: 0, reason: FinishReason::ToolCalls },
            Delta::Usage(Usage { input: 3, output: 2, ..Usage::default() }),
        ])
    );
}

#[test]
fn errors_are_reported_in_openais_form() {
    for (chunk, error, status) in [
        (
            json!({"error": {"message": "slow", "type": "t", "code": 429}}),
            json!({"message": "slow", "type": "t", "code": 429}),
            429,
        ),
        (json!({"error": "oops", "choices": []}), json!({"message": "oops"}), 502),
        (
            json!({"error": {"odd": 1}}),
            json!({"message": "the provider reported an error without a message"}),
            502,
        ),
        (
            json!({"object": "error", "message": "m", "code": "400"}),
            json!({"object": "error", "message": "m", "code": "400"}),
            502,
        ),
    ] {
        let found = ReplyReader::default().chunk(object(chunk.clone()));
        let expected = ReplyError::Reported { error: object(error), status: Some(status) };
        assert_eq!(found, Err(expected), "{chunk}");
    }
    let fine = json!({"error": null, "choices": [{}]});
    assert!(ReplyReader::default().chunk(object(fine)).is_ok());
}

#[test]
fn a_reply_without_choices_fails() {
    let mut reader = ReplyReader::default();
    assert_eq!(reader.chunk(object(json!({"id": "a", "choices": []}))), Ok(Vec::new()));
    assert_eq!(reader.finish(), Err(ReplyError::Invalid { what: "a reply without choices" }));
}

/// Returns the chunks of a stream; `None` if its events need a reader of their own.
fn chunks_of(stream: Vec<u8>) -> Option<Vec<Object>> {
    let stream = String::from_utf8(stream).ok()?.replace('\r', "\n");
    let data = stream.trim_start_matches('\u{feff}').lines();
    let data = data.filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let data = data.take_while(|data| *data != "[DONE]").filter(|data| !data.is_empty());
    data.map(|data| serde_json::from_str(data).ok()).collect()
}

/// Returns the text of a choice, the reason of its end and its calls, sorted. An empty text is none, and a
/// choice without a reason ends as if it were complete.
fn summary(choice: &Value) -> (String, String, Vec<String>) {
    let message = &choice["message"];
    let text = message["content"].as_str().unwrap_or_default();
    let reason = choice["finish_reason"].as_str().unwrap_or("stop");
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| {
        let body = call.get("function").unwrap_or(&call["custom"]);
        format!("{} {} {}", body["name"], body["arguments"], body["input"])
    });
    let mut calls: Vec<_> = calls.collect();
    calls.sort();
    (text.to_owned(), reason.to_owned(), calls)
}

#[test]
fn streams_of_real_servers_are_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/chat_streams");
    let mut compared = 0;
    for entry in fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("a file").path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // Without an index of its own, a call is not told from another before the repair.
        if path.extension().is_none_or(|end| end != "sse") || name.ends_with("_at_index_0") {
            continue;
        }
        let expected = fs::read_to_string(path.with_extension("json")).expect("a result");
        let expected: Value = serde_json::from_str(&expected).expect("JSON");
        let expected = expected["answer"]["choices"].as_array().filter(|list| !list.is_empty());
        let chunks = chunks_of(fs::read(&path).expect("a stream"));
        let (Some(expected), Some(chunks)) = (expected, chunks) else { continue };
        let mut reader = ReplyReader::default();
        let mut reply = Reply::default();
        for chunk in chunks {
            reply.extend(reader.chunk(chunk).expect(&name));
        }
        reply.extend(reader.finish().expect(&name));
        let found = write_reply(reply, 1);
        let found = found["choices"].as_array().expect("choices");
        assert_eq!(found.len(), expected.len(), "{name}");
        for (found, expected) in found.iter().zip(expected) {
            // Mistral's parts become texts and reasoning.
            if !expected["message"]["content"].is_array() {
                assert_eq!(summary(found), summary(expected), "{name}");
            }
        }
        compared += 1;
    }
    assert!(compared > 60, "{compared}");
}
