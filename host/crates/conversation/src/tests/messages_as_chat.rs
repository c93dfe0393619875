use airlock_json::object;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Recorded, events, events_of, lines, parse, recorded};
use crate::{
    Delta, Object, Reply, ReplyError,
    chat::{self, ChunkWriter},
    messages::ReplyReader,
};

const RECORDED: [Recorded; 7] = recorded![
    "anthropic": "text", "tool_use", "thinking", "thinking_omitted", "citations", "server_tool", "refusal"
];
const CREATED: u64 = 1_700_000_000;
const ERROR: &str = include_str!("../../../../../tests/fixtures/chat_streams/anthropic/error.sse");

/// Returns all chunks of a stream.
fn chunks(events: impl IntoIterator<Item = Object>, include_usage: bool) -> Vec<Object> {
    let mut reader = ReplyReader::default();
    let mut writer = ChunkWriter::new(CREATED, include_usage);
    let mut chunks = Vec::new();
    for event in events {
        let deltas = reader.event(&event).expect("a good stream").into_iter();
        deltas.for_each(|delta| writer.delta(delta, &mut chunks));
    }
    assert!(reader.has_ended());
    chunks
}

/// Returns the chat completion of a message that was not streamed.
fn to_completion(message: Object) -> Result<Object, ReplyError> {
    let mut reply = Reply::default();
    reply.extend(ReplyReader::default().whole(message)?);
    Ok(chat::write_reply(reply, CREATED))
}

/// Merges chunks into a completion, as OpenAI's clients do: text is appended, elements of lists are
/// merged by their index.
fn collect(chunks: &[Object]) -> Value {
    let mut message = Object::new();
    let mut end = Object::new();
    for choice in chunks.iter().flat_map(|chunk| chunk["choices"].as_array().expect("choices")) {
        merge(&mut message, choice["delta"].as_object().expect("a delta"));
        if !choice["finish_reason"].is_null() {
            end = choice.as_object().expect("a choice").clone();
        }
    }
    message.entry("refusal").or_insert(Value::Null);
    end.shift_remove("delta");
    end.insert("message".to_owned(), message.into());
    let first = &chunks[0];
    let usage = chunks.last().and_then(|last| last.get("usage"));
    json!({
        "id": first["id"], "object": "chat.completion", "created": first["created"],
        "model": first["model"], "usage": usage,
        "choices": [end],
    })
}

fn merge(into: &mut Object, delta: &Object) {
    for (name, value) in delta.iter().filter(|(name, _)| *name != "index") {
        match (into.get_mut(name), value) {
            (Some(Value::String(text)), Value::String(piece)) if name != "type" => {
                text.push_str(piece);
            }
            (Some(Value::Object(into)), Value::Object(delta)) => merge(into, delta),
            (_, Value::Array(elements)) => {
                let list = into.entry(name).or_insert_with(|| json!([]));
                let list = list.as_array_mut().expect("a list");
                for element in elements {
                    merge_element(list, element);
                }
            }
            _ => drop(into.insert(name.clone(), value.clone())),
        }
    }
}

fn merge_element(list: &mut Vec<Value>, element: &Value) {
    let index = element["index"].as_u64().and_then(|index| usize::try_from(index).ok());
    let index = index.expect("an element has an index");
    assert!(index <= list.len(), "indexes are dense");
    if index == list.len() {
        list.push(json!({}));
    }
    merge(list[index].as_object_mut().expect("an object"), element.as_object().expect("an object"));
}

/// Replaces the arguments of calls by their parsed value: only a stream keeps the model's spaces.
fn parse_arguments(mut completion: Value) -> Value {
    let calls = completion["choices"][0]["message"].get_mut("tool_calls");
    for call in calls.and_then(Value::as_array_mut).into_iter().flatten() {
        let arguments = &mut call["function"]["arguments"];
        *arguments = parse(arguments.as_str().expect("text")).into();
    }
    completion
}

#[test]
fn a_recorded_stream_says_the_same_as_its_whole_message() {
    for Recorded { name, stream, whole } in RECORDED {
        let streamed = collect(&chunks(events(stream), true));
        let whole = to_completion(parse(whole)).expect("a message");
        assert_eq!(parse_arguments(streamed), parse_arguments(whole.into()), "{name}");
    }
}

#[test]
fn text_is_relayed_as_it_comes() {
    let chunks = chunks(events_of(&RECORDED, "text"), false);
    assert_eq!(
        lines(&chunks),
        [
            r#"{"role":"assistant","content":null}"#,
            r#"{"content":"Grüße, "}"#,
            r#"{"content":"world"}"#,
            r#"{"content":" 👋!"}"#,
            r#"{} "stop""#,
        ]
    );
    assert_eq!(
        Value::from(chunks[1].clone()).to_string(),
        r#"{"id":"msg_text","object":"chat.completion.chunk","created":1700000000,"model":"claude-sonnet-4-5","choices":[{"index":0,"delta":{"content":"Grüße, "},"logprobs":null,"finish_reason":null}]}"#
    );
}

#[test]
fn calls_are_numbered_and_their_arguments_come_in_pieces() {
    let chunks = chunks(events_of(&RECORDED, "tool_use"), false);
    assert_eq!(
        lines(&chunks)[3..],
        [
            r#"{"tool_calls":[{"index":0,"id":"toolu_01","type":"function","function":{"name":"get_weather","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"{\"location\":"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":" \"San"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":" Francisc"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"o, CA\""}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":", "}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"\"unit\": \"fah"}}]}"#,
            r#"{"tool_calls":[{"index":0,"function":{"arguments":"renheit\"}"}}]}"#,
            r#"{"tool_calls":[{"index":1,"id":"toolu_02","type":"function","function":{"name":"get_weather","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":1,"function":{"arguments":"{\"location\": \"Paris\"}"}}]}"#,
            r#"{"tool_calls":[{"index":2,"id":"toolu_03","type":"function","function":{"name":"get_time","arguments":""}}]}"#,
            r#"{"tool_calls":[{"index":2,"function":{"arguments":"{}"}}]}"#,
            r#"{} "tool_calls""#,
        ]
    );
}

#[test]
fn thinking_is_readable_at_once_and_its_signed_block_comes_when_it_is_complete() {
    let chunks = chunks(events_of(&RECORDED, "thinking"), false);
    assert_eq!(
        lines(&chunks)[1..5],
        [
            r#"{"reasoning_content":"I need the GCD of 1071 and 462.\n\n"}"#,
            r#"{"reasoning_content":"147 = 7 × 21 + 0"}"#,
            r#"{"thinking_blocks":[{"index":0,"type":"thinking","thinking":"I need the GCD of 1071 and 462.\n\n147 = 7 × 21 + 0","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3hGgxBdjrkzLoky3dl1pkiMOYds"}]}"#,
            r#"{"thinking_blocks":[{"index":1,"type":"redacted_thinking","data":"EmwKAhgBEgy3va3pzix/LafPsn4aDFIT2Xlxh0L5L8rLVyIw"}]}"#,
        ]
    );
}

#[test]
fn the_position_of_a_block_in_its_list_takes_precedence_over_its_own_index() {
    let block = json!({"type": "redacted_thinking", "data": "d", "index": 9});
    let block = Streamed { whole: Value::Null, start: block, deltas: Vec::new() };
    let stream = stream_of(&[block], &json!({}), &json!({"stop_reason": "end_turn"}));
    assert_eq!(
        lines(&chunks(stream, false))[1],
        r#"{"thinking_blocks":[{"index":0,"type":"redacted_thinking","data":"d"}]}"#
    );
}

#[test]
fn blocks_and_events_of_unknown_types_leave_no_chunk() {
    let chunks = chunks(events_of(&RECORDED, "server_tool"), false);
    assert_eq!(
        lines(&chunks),
        [
            r#"{"role":"assistant","content":null}"#,
            r#"{"content":"I'll check."}"#,
            r#"{"content":" Sunny."}"#,
            r#"{} "length""#,
        ]
    );
}

#[test]
fn usage_comes_in_a_last_chunk_if_the_request_asks_for_it() {
    let with = chunks(events_of(&RECORDED, "text"), true);
    let (last, others) = with.split_last().expect("chunks");
    assert!(others.iter().all(|chunk| chunk["usage"].is_null()));
    assert_eq!(last["choices"], json!([]));
    assert_eq!(
        (&last["usage"]["prompt_tokens"], &last["usage"]["completion_tokens"]),
        (&json!(4625), &json!(15))
    );
    let without = chunks(events_of(&RECORDED, "text"), false);
    assert_eq!(without.len(), with.len() - 1);
    assert!(without.iter().all(|chunk| !chunk.contains_key("usage")));
}

#[test]
fn an_error_in_the_middle_of_a_stream_ends_it_with_the_status_of_the_error() {
    let mut reader = ReplyReader::default();
    let read: Result<Vec<Vec<Delta>>, _> =
        events(ERROR).map(|event| reader.event(&event)).collect();
    let Err(ReplyError::Reported { error, status }) = read else { panic!("{read:?}") };
    assert_eq!(status, Some(529));
    assert_eq!(
        Value::from(error),
        json!({
            "message": "Overloaded", "type": "server_error", "param": null,
            "code": "overloaded_error", "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"
        })
    );
    assert!(!reader.has_ended());
}

/// A block of a message, and the deltas that stream it after its start.
#[derive(Debug, Clone)]
struct Streamed {
    whole: Value,
    start: Value,
    deltas: Vec<Value>,
}

/// Cuts text into pieces of a few characters.
fn pieces(text: &str, length: usize) -> Vec<String> {
    let characters: Vec<_> = text.chars().collect();
    characters.chunks(length).map(|piece| piece.iter().collect()).collect()
}

fn block() -> impl Strategy<Value = Streamed> {
    let text = (".{1,20}", 1..5usize).prop_map(|(text, length)| Streamed {
        whole: json!({"type": "text", "text": text}),
        start: json!({"type": "text", "text": ""}),
        deltas: pieces(&text, length)
            .iter()
            .map(|piece| json!({"type": "text_delta", "text": piece}))
            .collect(),
    });
    let thinking = (".{0,20}", 1..5usize, "[a-z]{1,8}").prop_map(|(text, length, signature)| {
        let thinking = pieces(&text, length);
        let thinking = thinking.iter().map(|p| json!({"type": "thinking_delta", "thinking": p}));
        let signed = json!({"type": "signature_delta", "signature": signature});
        Streamed {
            whole: json!({"type": "thinking", "thinking": text, "signature": signature}),
            start: json!({"type": "thinking", "thinking": "", "signature": ""}),
            deltas: thinking.chain([signed]).collect(),
        }
    });
    let input = prop::collection::btree_map("[a-z]{1,4}", ".{0,6}", 0..3);
    let call =
        ("[a-z]{1,4}", "[a-z]{1,4}", input, 1..5usize).prop_map(|(id, name, input, length)| {
            let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
            let mut whole = start.clone();
            whole["input"] = json!(input);
            let text = if input.is_empty() { String::new() } else { whole["input"].to_string() };
            let deltas = pieces(&text, length);
            let deltas = deltas
                .iter()
                .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                .collect();
            Streamed { whole, start, deltas }
        });
    let other = Just(json!({"type": "web_search_tool_result", "content": []}));
    let other = other.prop_map(|b| Streamed { whole: b.clone(), start: b, deltas: Vec::new() });
    prop_oneof![text, thinking, call, other]
}

fn stream_of(blocks: &[Streamed], head: &Value, end: &Value) -> Vec<Object> {
    let mut events = vec![json!({"type": "message_start", "message": head})];
    for (index, block) in blocks.iter().enumerate() {
        let start = &block.start;
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(
            block.deltas.iter().map(
                |delta| json!({"type": "content_block_delta", "index": index, "delta": delta}),
            ),
        );
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": end, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events.into_iter().map(object).collect()
}

proptest! {
    #[test]
    fn a_message_says_the_same_streamed_and_whole(
        blocks in prop::collection::vec(block(), 0..6),
        reason in prop::sample::select(vec!["end_turn", "tool_use", "max_tokens", "refusal"]),
    ) {
        let usage = json!({"input_tokens": 3, "output_tokens": 1});
        let head = json!({"id": "msg_1", "model": "m", "content": [], "usage": usage});
        let streamed = stream_of(&blocks, &head, &json!({"stop_reason": reason}));
        let content: Vec<_> = blocks.iter().map(|block| &block.whole).collect();
        let whole = json!({
            "id": "msg_1", "model": "m", "content": content, "stop_reason": reason,
            "usage": {"input_tokens": 3, "output_tokens": 7}
        });
        let whole = to_completion(object(whole)).expect("a message");
        let streamed = collect(&chunks(streamed, true));
        prop_assert_eq!(parse_arguments(streamed), parse_arguments(whole.into()));
    }
}

#[test]
fn a_whole_message_becomes_a_chat_completion() {
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-6",
        "content": [
            {"type": "thinking", "thinking": "One.", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "thinking", "thinking": "Two.", "signature": "s2"},
            {"type": "text", "text": "It "},
            {"type": "text", "text": "is.", "citations": [{"type": "char_location", "cited_text": "is"}]},
            {"type": "tool_use", "id": "toolu_1", "name": "a", "input": {"z": 1, "a": [2]}},
            {"type": "tool_use", "id": "toolu_2", "name": "b", "input": {}}
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 5, "output_tokens": 6, "cache_read_input_tokens": 7}
    });
    let completion = to_completion(object(message)).expect("a message");
    assert_eq!(
        Value::from(completion),
        json!({
            "id": "msg_1", "object": "chat.completion", "created": 1_700_000_000,
            "model": "claude-opus-4-6",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "It is.", "refusal": null,
                    "reasoning_content": "One.Two.",
                    "thinking_blocks": [
                        {"type": "thinking", "thinking": "One.", "signature": "s1"},
                        {"type": "redacted_thinking", "data": "d"},
                        {"type": "thinking", "thinking": "Two.", "signature": "s2"}
                    ],
                    "citations": [{"type": "char_location", "cited_text": "is"}],
                    "tool_calls": [
                        {"id": "toolu_1", "type": "function",
                         "function": {"name": "a", "arguments": "{\"z\":1,\"a\":[2]}"}},
                        {"id": "toolu_2", "type": "function",
                         "function": {"name": "b", "arguments": "{}"}}
                    ]
                },
                "logprobs": null, "finish_reason": "tool_calls"
            }],
            "usage": {
                "prompt_tokens": 12, "completion_tokens": 6, "total_tokens": 18,
                "prompt_tokens_details": {"cached_tokens": 7, "cache_write_tokens": 0},
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 7
            }
        })
    );
}

#[test]
fn a_message_without_text_has_null_content() {
    let empty = json!({"id": "m", "content": [], "stop_reason": "end_turn"});
    let completion = to_completion(object(empty)).expect("a message");
    assert_eq!(
        completion["choices"][0]["message"],
        json!({"role": "assistant", "content": null, "refusal": null})
    );
}

#[test]
fn the_explanation_of_a_refusal_is_the_refusal_of_the_message() {
    let message = json!({
        "id": "m", "content": [], "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "category": "bio", "explanation": "Not this."}
    });
    let completion = to_completion(object(message)).expect("a message");
    let choice = &completion["choices"][0];
    assert_eq!(choice["message"]["refusal"], "Not this.");
    assert_eq!(choice["finish_reason"], "content_filter");
}
