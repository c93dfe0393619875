//! Properties of every input.

use proptest::{collection::vec, prelude::*};
use serde_json::json;

use super::*;
use crate::{Delta, ItemPlace, Reply, gemini, messages, responses};

/// Any JSON, with names and words that the readers know.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        let member = (proptest::sample::select(NAMES), inner.clone());
        prop_oneof![
            vec(inner, 0..6).prop_map(Value::from),
            vec(member, 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

fn json_object(names: &'static [&'static str]) -> impl Strategy<Value = Object> {
    vec((proptest::sample::select(names), json_value()), 0..6).prop_map(|members| {
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    })
}

fn message() -> impl Strategy<Value = Value> {
    let role = proptest::sample::select(&["system", "user", "assistant", "tool", "function"][..]);
    (role, json_object(NAMES)).prop_map(|(role, mut message)| {
        message.insert("role".to_owned(), role.into());
        message.into()
    })
}

const WORDS: &[&str] = &[
    "",
    "a",
    "function",
    "custom",
    "allowed_tools",
    "auto",
    "text",
    "refusal",
    "image_url",
    "input_audio",
    "file",
    "thinking",
    "redacted_thinking",
    "reasoning.encrypted",
    "reasoning.summary",
    "openai-responses-v1",
    "json_schema",
    "data:image/png;base64,AAAA",
    "data:",
    "é,😀",
];

const NAMES: &[&str] = &[
    "content",
    "role",
    "refusal",
    "type",
    "text",
    "image_url",
    "input_audio",
    "file",
    "file_data",
    "url",
    "data",
    "format",
    "tool_calls",
    "tool_call_id",
    "id",
    "index",
    "function",
    "custom",
    "name",
    "arguments",
    "input",
    "thinking_blocks",
    "thinking",
    "signature",
    "reasoning_content",
    "reasoning_details",
    "summary",
    "annotations",
    "citations",
    "cache_control",
    "delta",
    "message",
    "logprobs",
    "finish_reason",
    "stop_reason",
    "mode",
    "tools",
];

const TOP: &[&str] = &[
    "tools",
    "tool_choice",
    "stop",
    "max_tokens",
    "user",
    "response_format",
    "temperature",
    "usage",
    "id",
    "model",
    "created",
    "error",
    "logprobs",
    "include",
    "text",
    "verbosity",
    "unknown",
];

proptest! {
    #[test]
    fn no_request_panics_and_one_that_is_read_is_written(
        messages in vec(message(), 0..6),
        mut body in json_object(TOP),
    ) {
        body.insert("messages".to_owned(), messages.into());
        if let Ok(conversation) = read_request(body) {
            for dialect in [ChatDialect::OpenAi, ChatDialect::WithAnthropicMembers] {
                // Only media without a form are refused.
                let _ = write_request(conversation.clone(), dialect);
            }
            let _ = crate::responses::write_request(conversation);
        }
    }

    #[test]
    fn no_reply_panics_and_each_choice_ends_once_and_each_call_begins_before_its_input(
        choices in vec(vec(json_object(NAMES), 0..3), 1..6),
        head in json_object(TOP),
    ) {
        let mut reader = ReplyReader::default();
        let mut deltas = Vec::new();
        for choices in choices {
            let mut chunk = head.clone();
            chunk.insert("choices".to_owned(), choices.into());
            if let Ok(read) = reader.chunk(chunk) {
                deltas.extend(read);
            }
        }
        deltas.extend(reader.finish().unwrap_or_default());
        let mut calls = std::collections::BTreeSet::new();
        let mut ended = std::collections::BTreeSet::new();
        for delta in &deltas {
            match delta {
                Delta::Call { choice, index, .. } => prop_assert!(calls.insert((*choice, *index))),
                Delta::Arguments { choice, index, .. } => {
                    prop_assert!(calls.contains(&(*choice, *index)));
                }
                Delta::End { choice, .. } => prop_assert!(ended.insert(*choice)),
                _ => {}
            }
        }
        let mut writer = ChunkWriter::new(1, true);
        let mut chunks = Vec::new();
        let mut reply = Reply::default();
        for delta in deltas {
            writer.delta(delta.clone(), &mut chunks);
            reply.add(delta);
        }
        let whole = write_reply(reply, 1);
        prop_assert!(whole["choices"].is_array());
    }

    #[test]
    fn a_text_in_pieces_is_the_text(pieces in vec("[a-zé😀]{0,4}", 1..8)) {
        let mut reader = ReplyReader::default();
        let mut reply = Reply::default();
        for piece in &pieces {
            let chunk = json!({"choices": [{"index": 0, "delta": {"content": piece}}]});
            reply.extend(reader.chunk(airlock_json::object(chunk)).expect("a good chunk"));
        }
        reply.extend(reader.finish().expect("a choice"));
        let whole = write_reply(reply, 1);
        prop_assert_eq!(&whole["choices"][0]["message"]["content"], &pieces.concat());
    }
}

#[allow(clippy::needless_pass_by_value, reason = "callers make the value for it")]
fn user(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

#[test]
fn writers_of_other_apis_name_the_member_of_the_caller() {
    let call = json!({"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}});
    let text = json!({"type": "text", "text": "a"});
    for (message, param) in [
        (user(json!([text, {"type": "odd"}])), "messages[1].content[1]"),
        (
            json!({"role": "assistant", "content": "b", "tool_calls": [call]}),
            "messages[1].tool_calls[0]",
        ),
        (json!({"role": "tool", "tool_call_id": "d", "content": "x"}), "messages[1].tool_call_id"),
        (json!({"role": "user", "name": "n", "content": "x"}), "messages[1].name"),
        (json!({"role": "function", "content": "x"}), "messages[1]"),
    ] {
        let request = json!({"model": "m", "messages": [user("go".into()), message]});
        let read = read_request(airlock_json::object(request)).expect("a good request");
        assert_eq!(gemini::write_request(read).expect_err("refused").param, param);
    }
    for (message, param) in [
        (user(json!([text, {"type": "odd"}])), "messages[1].content[1].type"),
        (
            json!({"role": "tool", "tool_call_id": "d", "name": "n", "content": "x"}),
            "messages[1].name",
        ),
        (json!({"role": "function", "content": "x"}), "messages[1].role"),
    ] {
        let request = json!({"model": "m", "messages": [user("go".into()), message]});
        let read = read_request(airlock_json::object(request)).expect("a good request");
        assert_eq!(responses::write_request(read).expect_err("refused").param, param);
    }
}

#[test]
fn an_error_of_a_block_names_its_place_in_the_message_of_the_caller() {
    let uploaded = json!({"type": "image", "source": {"type": "file", "file_id": "f"}});
    let text = json!({"type": "text", "text": "a"});
    let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
    let result =
        |content: Value| json!({"type": "tool_result", "tool_use_id": "t", "content": content});
    for (content, param) in [
        (json!([result("x".into()), text, uploaded]), "messages[1].content[2]"),
        (json!([text, result(json!([text, uploaded]))]), "messages[1].content[1].content[1]"),
    ] {
        let messages = json!([{"role": "assistant", "content": [text, call]}, {"role": "user", "content": content}]);
        let request = json!({"model": "m", "max_tokens": 9, "messages": messages});
        let read = messages::read_request(airlock_json::object(request)).expect("a good request");
        let refused = write_request(read, ChatDialect::OpenAi).expect_err("refused");
        assert_eq!(refused.param, param);
    }
}

#[test]
fn an_error_of_a_part_names_its_place_in_the_input_or_the_previous_response() {
    let file = json!({"type": "input_file", "file_data": "AAAA"});
    let text = json!({"type": "input_text", "text": "a"});
    let input = json!([
        {"role": "user", "content": "go"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": [text, file]},
    ]);
    let request = json!({"model": "m", "instructions": "i", "input": input});
    for (place, param) in
        [(ItemPlace::listed(5), "input[5].output[1]"), (ItemPlace::Stored, "previous_response_id")]
    {
        let places = [ItemPlace::Stored, ItemPlace::Stored, place];
        let read = responses::read_request(airlock_json::object(request.clone()), &places);
        let refused = gemini::write_request(read.expect("a good request"));
        assert_eq!(refused.expect_err("refused").param, param);
    }
}

#[test]
fn reasoning_keeps_the_name_that_its_server_has() {
    for name in ["reasoning", "reasoning_content"] {
        let mut reader = ReplyReader::default();
        let mut deltas = Vec::new();
        for text in ["a", "b"] {
            let chunk = json!({"choices": [{"delta": {name: text}}]});
            deltas.append(&mut reader.chunk(airlock_json::object(chunk)).expect("a chunk"));
        }
        deltas.append(&mut reader.finish().expect("an end"));
        let mut writer = ChunkWriter::new(0, false);
        let mut chunks = Vec::new();
        let mut reply = Reply::default();
        for delta in deltas {
            reply.add(delta.clone());
            writer.delta(delta, &mut chunks);
        }
        let pieces = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"].get(name));
        assert_eq!(pieces.collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(write_reply(reply, 0)["choices"][0]["message"][name], "ab");
    }
}
