use airlock_json::object;

use super::*;
use crate::chat::read_request;

/// Translates a chat completion request. Returns the message of the error if there is one.
fn translate(members: Value) -> Result<Value, String> {
    let mut chat = object(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
    chat.extend(object(members));
    let written = read_request(chat).and_then(write_request);
    written.map(Value::from).map_err(|error| error.to_string())
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
    for (name, value, found, default) in [
        ("n", json!(2), "2", "1"),
        ("stop", json!(["x"]), "'x'", "null"),
        ("logit_bias", json!({"1": 2}), "an object", "{}"),
        ("frequency_penalty", json!(0.5), "0.5", "0"),
        ("presence_penalty", json!(1), "1", "0"),
        ("modalities", json!(["audio"]), "an array", "[\"text\"]"),
        ("audio", json!({}), "an object", "null"),
        ("store", json!(true), "true", "false"),
        ("functions", json!([{}]), "an array", "null; use `tools`"),
        ("function_call", json!("auto"), "'auto'", "null; use `tool_choice`"),
        ("web_search_options", json!({}), "an object", "null"),
        ("prompt", json!({"id": "pmpt_1"}), "an object", "left out"),
        ("conversation", json!("conv_1"), "'conv_1'", "left out"),
    ] {
        let expected = format!(
            "Unsupported value: '{name}' does not support {found}. It has no counterpart in the \
             Responses API; it must be {default}."
        );
        assert_eq!(translate(json!({name: value})), Err(expected));
    }
    let nothing = json!({
        "n": 1, "stop": [], "logit_bias": {}, "frequency_penalty": 0, "presence_penalty": 0.0,
        "modalities": ["text"], "store": false, "functions": [], "audio": null
    });
    assert_eq!(translate(nothing), translate(json!({})));
    assert_eq!(
        translate(json!({"max_tokens": 1, "max_completion_tokens": 2})),
        Err("Invalid 'max_tokens': it must be equal to 'max_completion_tokens'.".to_owned())
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
    let custom = json!({"type": "custom", "custom": {"name": "c"}});
    let allowed =
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [custom]}});
    assert_eq!(
        translate(json!({"tool_choice": allowed})).expect("a choice")["tool_choice"],
        json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "custom", "name": "c"}]})
    );
    for (members, expected) in [
        (
            json!({"tools": [{"type": "web_search"}]}),
            "Invalid value: 'web_search'. Supported values for 'tools[0].type' are: 'function' and 'custom'.",
        ),
        (
            json!({"tools": [{"type": "function"}]}),
            "Missing required parameter: 'tools[0].function'.",
        ),
        (
            json!({"tools": 7}),
            "Invalid type for 'tools': expected an array, but got an integer instead.",
        ),
        (
            json!({"tool_choice": {"type": "mcp"}}),
            "Invalid value: 'mcp'. Supported values for 'tool_choice.type' are: 'function' and 'custom'.",
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
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "2"}, {"type": "text", "text": "3"}]},
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
            {"type": "custom_tool_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "2"}, {"type": "input_text", "text": "3"}]},
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
        (
            json!(7),
            "Invalid type for 'messages[0]': expected an object, but got an integer instead.",
        ),
        (
            json!({"role": "function", "content": ""}),
            "Invalid value: 'function'. Supported values for 'messages[0].role' are: 'system', \
             'developer', 'user', 'assistant', and 'tool'.",
        ),
        (
            json!({"role": "user", "name": "bob", "content": ""}),
            "Unsupported parameter: 'messages[0].name'. It has no counterpart in the Responses API; \
             write it in the text.",
        ),
        (
            json!({"role": "user", "content": [{"type": "video"}]}),
            "Invalid value: 'video'. Supported values for 'messages[0].content[0].type' are: 'text', \
             'image_url', 'file', and 'input_audio'.",
        ),
        (
            json!({"role": "user", "content": [{"type": "refusal", "refusal": "no"}, {"type": "text", "text": "a"}]}),
            "Unsupported parameter: 'messages[0].content[0]'. Content must be texts, images, documents and sounds.",
        ),
        (
            json!({"role": "assistant", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}),
            "Unsupported parameter: 'messages[0].content[0]'. A message of the model must have text and \
             refusals alone.",
        ),
        (
            json!({"role": "assistant", "audio": {"id": "x"}}),
            "Unsupported parameter: 'messages[0].audio'. It has no counterpart in the Responses API.",
        ),
        (
            json!({"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": 1}}]}),
            "Invalid type for 'messages[0].tool_calls[0].function.name': expected a string, but \
             got an integer instead.",
        ),
        (
            json!({"role": "tool", "content": "x"}),
            "Missing required parameter: 'messages[0].tool_call_id'.",
        ),
    ] {
        assert_eq!(input(&json!([message])), Err(expected.to_owned()));
    }
    assert_eq!(
        translate(json!({"messages": null})),
        Err("Missing required parameter: 'messages'.".to_owned())
    );
}

#[test]
fn media_are_sent_as_they_came_and_members_that_are_not_known_stay() {
    let content = json!([
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "x": 1}, "cache_control": {}},
        {"type": "file", "file": {"file_id": "f"}},
        {"type": "file", "file": {"file_id": "f", "file_data": "AA=="}},
        {"type": "file", "file": {"file_data": "https://h/a.pdf"}},
        {"type": "input_audio", "input_audio": {"url": "u"}},
    ]);
    assert_eq!(
        input(&json!([{"role": "user", "content": content}])).expect("content")[0]["content"],
        json!([
            {"type": "input_image", "image_url": "data:image/png;base64,AA==", "x": 1},
            {"type": "input_file", "file_id": "f"},
            {"type": "input_file", "file_id": "f", "file_data": "AA=="},
            {"type": "input_file", "file_data": "https://h/a.pdf"},
            {"type": "input_audio", "input_audio": {"url": "u"}},
        ])
    );
}

#[test]
fn the_identifier_of_the_user_has_the_name_that_the_caller_used() {
    for members in [
        json!({"user": "u"}),
        json!({"safety_identifier": "s"}),
        json!({"user": "u", "safety_identifier": "s"}),
    ] {
        let mut expected =
            json!({"model": "m", "input": [{"type": "message", "role": "user", "content": "hi"}]});
        expected.as_object_mut().expect("an object").extend(object(members.clone()));
        assert_eq!(translate(members), Ok(expected));
    }
}
