use super::*;
use crate::object;

fn translate(members: Value) -> Result<Value, String> {
    let mut chat = object(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
    chat.extend(object(members));
    to_responses(chat).map(Value::from).map_err(|error| error.to_string())
}

fn input(messages: &Value) -> Result<Value, String> {
    translate(json!({"messages": messages})).map(|mut request| request["input"].take())
}

#[test]
fn settings_have_their_names_of_the_responses_api() {
    let request = translate(json!({
        "temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"}, "user": "u", "service_tier": "flex",
        "prompt_cache_key": "k", "parallel_tool_calls": false, "unknown": [1], "max_completion_tokens": 9,
        "reasoning_effort": "high", "verbosity": "low", "logprobs": true, "top_logprobs": 2,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true}},
        "stream": true, "stream_options": {"include_usage": true}, "seed": 1, "n": 1, "stop": null,
    }));
    assert_eq!(
        request,
        Ok(json!({
            "model": "m", "input": [{"type": "message", "role": "user", "content": "hi"}],
            "temperature": 0.5, "top_p": 0.9, "metadata": {"a": "b"}, "user": "u", "service_tier": "flex",
            "prompt_cache_key": "k", "parallel_tool_calls": false, "unknown": [1], "max_output_tokens": 9,
            "reasoning": {"effort": "high"}, "include": ["message.output_text.logprobs"], "top_logprobs": 2,
            "text": {"verbosity": "low", "format": {"type": "json_schema", "name": "n", "schema": {}, "strict": true}},
        }))
    );
}

#[test]
fn members_without_a_counterpart_are_refused_by_name_unless_they_ask_for_nothing() {
    for (name, value, default) in [
        ("n", json!(2), "1"),
        ("stop", json!(["x"]), "null"),
        ("logit_bias", json!({"1": 2}), "{}"),
        ("frequency_penalty", json!(0.5), "0"),
        ("presence_penalty", json!(1), "0"),
        ("modalities", json!(["audio"]), "[\"text\"]"),
        ("audio", json!({}), "null"),
        ("store", json!(true), "false"),
        ("functions", json!([{}]), "null; use `tools`"),
        ("function_call", json!("auto"), "null; use `tool_choice`"),
        ("web_search_options", json!({}), "null"),
        ("prompt", json!({"id": "pmpt_1"}), "left out"),
        ("conversation", json!("conv_1"), "left out"),
    ] {
        let expected =
            format!("`{name}` has no counterpart in the Responses API; it must be {default}");
        assert_eq!(translate(json!({name: value})), Err(expected));
    }
    let nothing = json!({
        "n": 1, "stop": [], "logit_bias": {}, "frequency_penalty": 0, "presence_penalty": 0.0,
        "modalities": ["text"], "store": false, "functions": [], "audio": null
    });
    assert_eq!(translate(nothing), translate(json!({})));
    assert_eq!(
        translate(json!({"max_tokens": 1, "max_completion_tokens": 2})),
        Err("`max_tokens` must be equal to `max_completion_tokens`".to_owned())
    );
}

#[test]
fn tools_and_the_choice_of_one_are_flat() {
    let request = translate(json!({
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}, "cache_control": {}},
            {"type": "function", "function": {"name": "g", "strict": true}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "d"}}}},
        ],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }))
    .expect("good tools");
    assert_eq!(
        request["tools"],
        json!([
            {"type": "function", "name": "f", "parameters": {"type": "object"}, "cache_control": {}, "strict": false},
            {"type": "function", "name": "g", "strict": true},
            {"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "d"}},
        ])
    );
    assert_eq!(request["tool_choice"], json!({"type": "function", "name": "f"}));
    let allowed = json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}});
    assert_eq!(
        translate(json!({"tool_choice": allowed})).expect("a choice")["tool_choice"],
        json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]})
    );
    for (members, expected) in [
        (
            json!({"tools": [{"type": "web_search"}]}),
            "`tools[0].type` must be \"function\" or \"custom\"",
        ),
        (json!({"tools": [{"type": "function"}]}), "`tools[0].function` must be an object"),
        (json!({"tools": 7}), "`tools` must be a list"),
        (
            json!({"tool_choice": {"type": "mcp"}}),
            "`tool_choice.type` must be \"function\" or \"custom\"",
        ),
    ] {
        assert_eq!(translate(members), Err(expected.to_owned()));
    }
}

#[test]
fn messages_become_items_in_their_order() {
    let items = input(&json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": [
            {"type": "text", "text": "t"},
            {"type": "image_url", "image_url": {"url": "https://h/a.png", "detail": "low"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:x"}},
            {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
        ]},
        {"role": "assistant", "content": "Let me see.", "reasoning_content": "left out", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
            {"id": "b", "type": "custom", "custom": {"name": "c", "input": "x"}},
        ]},
        {"role": "tool", "tool_call_id": "a", "content": "1"},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}]},
        {"role": "assistant", "content": null, "refusal": "no"},
    ]));
    assert_eq!(
        items,
        Ok(json!([
            {"type": "message", "role": "system", "content": "s"},
            {"type": "message", "role": "user", "content": [
                {"type": "input_text", "text": "t"},
                {"type": "input_image", "image_url": "https://h/a.png", "detail": "low"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:x"},
                {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
            ]},
            {"type": "message", "role": "assistant", "content": "Let me see."},
            {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "c", "input": "x"},
            {"type": "function_call_output", "call_id": "a", "output": "1"},
            {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}]},
            {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        ]))
    );
}

#[test]
fn encrypted_reasoning_of_this_api_is_sent_back_and_that_of_others_is_not() {
    let details = json!([
        detail("reasoning.summary", "summary", "openai-responses-v1"),
        detail("reasoning.encrypted", "data", "openai-responses-v1"),
        detail("reasoning.encrypted", "data", "anthropic-claude-v1"),
        7,
    ]);
    let message =
        json!({"role": "assistant", "content": "", "reasoning_details": details, "tool_calls": []});
    assert_eq!(
        input(&json!([message])),
        Ok(json!([{
            "type": "reasoning", "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "x"}], "encrypted_content": "x"
        }]))
    );
}

fn detail(kind: &str, name: &str, format: &str) -> Value {
    json!({"type": kind, name: "x", "id": "rs_1", "format": format, "index": 0})
}

#[test]
fn messages_that_cannot_be_expressed_are_refused_with_their_place() {
    for (message, expected) in [
        (json!(7), "`messages[0]` must be an object"),
        (
            json!({"role": "function", "content": ""}),
            "`messages[0].role` must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"",
        ),
        (
            json!({"role": "user", "name": "bob", "content": ""}),
            "`messages[0].name` has no counterpart in the Responses API; write it in the text",
        ),
        (
            json!({"role": "user", "content": [{"type": "video"}]}),
            "`messages[0].content[0].type` must be \"text\", \"image_url\", \"file\" or \"input_audio\"",
        ),
        (
            json!({"role": "assistant", "audio": {"id": "x"}}),
            "`messages[0].audio` has no counterpart in the Responses API",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": 1}}]}),
            "`messages[0].tool_calls[0].function.name` must be a string",
        ),
        (json!({"role": "tool", "content": "x"}), "`messages[0].tool_call_id` must be a string"),
    ] {
        assert_eq!(input(&json!([message])), Err(expected.to_owned()));
    }
    assert_eq!(
        translate(json!({"messages": null})),
        Err("`messages` must be a list of messages".to_owned())
    );
}
