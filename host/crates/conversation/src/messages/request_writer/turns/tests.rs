use serde_json::json;

use super::{super::tests, *};

/// Returns `messages` of the request for messages of chat.
fn translate(messages: Value) -> Result<Value> {
    let body = tests::translate(object_of([("messages", messages)]).into());
    body.map(|mut body| body["messages"].take())
}

fn call(id: &str, arguments: &str) -> Value {
    let function = json!({"name": "get", "arguments": arguments});
    json!({"id": id, "type": "function", "function": function})
}

/// Returns the input of a call with these arguments.
fn input_of(arguments: &str) -> Value {
    let messages = json!([{"role": "assistant", "tool_calls": [call("c", arguments)]}]);
    translate(messages).expect("a good message")[0]["content"][0]["input"].take()
}

#[test]
fn system_and_developer_messages_become_the_system_prompt() {
    let body = tests::translate(json!({"messages": [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hi"},
        {"role": "developer", "cache_control": {"type": "ephemeral"}, "content": [
            {"type": "text", "text": "Be brief."}, {"type": "text", "text": "Be exact."}
        ]}
    ]}));
    let body = body.expect("good messages");
    assert_eq!(
        body["system"],
        json!([
            {"type": "text", "text": "Be kind."},
            {"type": "text", "text": "Be brief."},
            {"type": "text", "text": "Be exact.", "cache_control": {"type": "ephemeral"}}
        ])
    );
    assert_eq!(body["messages"], json!([{"role": "user", "content": [text("hi")]}]));
}

#[test]
fn a_round_of_tools_becomes_one_message_of_the_model_and_one_of_the_user() {
    let messages = json!([
        {"role": "user", "content": "What is there?"},
        {"role": "assistant", "content": "I look.", "refusal": null, "reasoning_content": "Hm.",
         "annotations": [], "citations": [{"cited_text": "x"}],
         "thinking_blocks": [
             {"index": 0, "type": "thinking", "thinking": "Hm.", "signature": "s"},
             {"type": "redacted_thinking", "data": "d"}
         ],
         "tool_calls": [call("c1", "{\"a\": 1}"), call("c2", "")]},
        {"role": "tool", "tool_call_id": "c1", "content": "one", "cache_control": {"type": "ephemeral"}},
        {"role": "tool", "tool_call_id": "c2", "is_error": true, "content": [
            {"type": "text", "text": "two"},
            {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        ]},
        {"role": "user", "content": "And now?"}
    ]);
    assert_eq!(
        translate(messages).expect("good messages"),
        json!([
            {"role": "user", "content": [{"type": "text", "text": "What is there?"}]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "redacted_thinking", "data": "d"},
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "get", "input": {"a": 1}},
                {"type": "tool_use", "id": "c2", "name": "get", "input": {}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1",
                 "content": [{"type": "text", "text": "one"}], "cache_control": {"type": "ephemeral"}},
                {"type": "tool_result", "tool_use_id": "c2", "content": [
                    {"type": "text", "text": "two"},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
                ], "is_error": true},
                {"type": "text", "text": "And now?"}
            ]}
        ])
    );
}

#[test]
fn results_come_before_the_other_blocks_of_their_turn() {
    let messages = json!([
        {"role": "assistant", "tool_calls": [call("c1", "{}"), call("c2", "{}")]},
        {"role": "tool", "tool_call_id": "c1", "content": "one"},
        {"role": "user", "content": "Wait."},
        {"role": "tool", "tool_call_id": "c2", "content": "two"}
    ]);
    let messages = translate(messages).expect("good messages");
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "c1", "content": [text("one")]},
            {"type": "tool_result", "tool_use_id": "c2", "content": [text("two")]},
            text("Wait.")
        ])
    );
}

#[test]
fn consecutive_messages_of_a_role_are_merged_and_empty_ones_left_out() {
    let messages = json!([
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "a"},
        {"role": "system", "content": "s"},
        {"role": "user", "content": "b"},
        {"role": "assistant", "content": null, "tool_calls": []},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "d"},
        {"role": "assistant", "content": null, "refusal": "e"}
    ]);
    assert_eq!(
        translate(messages).expect("good messages"),
        json!([
            {"role": "user", "content": [text("a"), text("b"), text("c")]},
            {"role": "assistant", "content": [text("d"), text("e")]}
        ])
    );
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    for (arguments, input) in [
        ("{\"b\": 1, \"a\": [null]}", json!({"b": 1, "a": [null]})),
        ("[1]", json!({"INVALID_JSON": "[1]"})),
    ] {
        assert_eq!(input_of(arguments), input, "{arguments}");
    }
}

#[test]
fn a_result_without_content_and_a_marked_call_are_translated() {
    let mut marked = call("c", "{}");
    marked["cache_control"] = json!({"type": "ephemeral"});
    let messages = json!([
        {"role": "assistant", "tool_calls": [marked]},
        {"role": "tool", "tool_call_id": "c", "content": ""}
    ]);
    assert_eq!(
        translate(messages).expect("good messages"),
        json!([
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "get",
             "input": {}, "cache_control": {"type": "ephemeral"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}
        ])
    );
}

#[test]
fn a_message_that_cannot_be_expressed_is_refused_by_name() {
    for (messages, param) in [
        (json!("hi"), "messages"),
        (json!([]), "messages"),
        (json!([{"role": "system", "content": "only"}]), "messages"),
        (json!(["hi"]), "messages[0]"),
        (json!([{"content": "hi"}]), "messages[0].role"),
        (json!([{"role": "function", "content": "hi"}]), "messages[0].role"),
        (json!([{"role": "user", "content": 1}]), "messages[0].content"),
        (json!([{"role": "user", "name": "Ann", "content": "hi"}]), "messages[0].name"),
        (json!([{"role": "system", "name": "Ann", "content": "hi"}]), "messages[0].name"),
        (json!([{"role": "assistant", "name": "Ann", "content": "hi"}]), "messages[0].name"),
        (json!([{"role": "assistant", "audio": {"id": "a"}}]), "messages[0].audio"),
        (json!([{"role": "assistant", "function_call": {}}]), "messages[0].function_call"),
        (json!([{"role": "assistant", "refusal": 1}]), "messages[0].refusal"),
        (json!([{"role": "assistant", "thinking_blocks": {}}]), "messages[0].thinking_blocks"),
        (
            json!([{"role": "assistant", "thinking_blocks": [{"type": "text"}]}]),
            "messages[0].thinking_blocks[0].type",
        ),
        (tool_calls(&json!({})), "messages[0].tool_calls"),
        (tool_calls(&json!([1])), "messages[0].tool_calls[0]"),
        (
            tool_calls(
                &json!([{"id": "c", "type": "custom", "custom": {"name": "x", "input": ""}}]),
            ),
            "messages[0].tool_calls[0].type",
        ),
        (
            json!([
                {"role": "assistant", "content": null},
                {"role": "assistant", "reasoning_content": "Hm.", "content": "a", "tool_calls": [
                    call("c", "{}"), {"id": "d", "type": "custom", "custom": {"name": "x", "input": ""}}
                ]}
            ]),
            "messages[1].tool_calls[1].type",
        ),
        (
            tool_calls(&json!([{"function": {"name": "x", "arguments": "{}"}}])),
            "messages[0].tool_calls[0].id",
        ),
        (
            tool_calls(&json!([{"id": "c", "function": {"arguments": "{}"}}])),
            "messages[0].tool_calls[0].function.name",
        ),
        (
            tool_calls(&json!([{"id": "c", "function": {"name": "x", "arguments": {}}}])),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        (json!([{"role": "tool", "tool_call_id": "c", "is_error": "yes"}]), "messages[0].is_error"),
        (
            json!([{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "c",
                    "content": [{"type": "input_audio"}]}]),
            "messages[1].content[0].type",
        ),
    ] {
        assert_eq!(translate(messages.clone()).expect_err("refused").param, param, "{messages}");
    }
}

fn tool_calls(calls: &Value) -> Value {
    json!([{"role": "assistant", "tool_calls": calls}])
}
