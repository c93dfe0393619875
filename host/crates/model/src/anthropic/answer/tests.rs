use serde_json::{Value, json};

use super::*;
use crate::object;

fn translate(message: Value) -> Result<Value, ResponseError> {
    to_completion(object(message), 1_700_000_000).map(Value::from)
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
    let completion = translate(message).expect("a message");
    assert_eq!(
        completion,
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
    let completion = translate(empty).expect("a message");
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
    let completion = translate(message).expect("a message");
    let choice = &completion["choices"][0];
    assert_eq!(choice["message"]["refusal"], "Not this.");
    assert_eq!(choice["finish_reason"], "content_filter");
}
