//! Requests that are refused, with the name of the member.

use super::*;

/// Checks that a request with `members` is refused with this `param` and `code`.
fn is_refused(members: &Value, param: &str, code: &str) {
    let error = refusal(request(members.clone()));
    assert_eq!((error.param.as_str(), error.code), (param, code), "{members}: {error}");
    assert!(error.message.contains(&format!("'{param}'")), "{error}");
}

#[test]
fn members_without_a_counterpart_are_refused_by_name() {
    for name in [
        "conversation",
        "prompt",
        "context_management",
        "moderation",
        "access_programs",
        "image",
        "background_options",
        "audio",
        "messages",
        "functions",
        "function_call",
        "response_format",
        "verbosity",
        "reasoning_effort",
        "max_tokens",
        "max_completion_tokens",
        "logprobs",
    ] {
        is_refused(&json!({name: {}}), name, "unsupported_parameter");
    }
    for (members, param) in [
        (json!({"background": true}), "background"),
        (json!({"n": 2}), "n"),
        (json!({"modalities": ["audio"]}), "modalities"),
        (
            json!({"stream_options": {"include_obfuscation": true}}),
            "stream_options.include_obfuscation",
        ),
        (json!({"reasoning": {"summary": "detailed"}}), "reasoning.summary"),
        (json!({"reasoning": {"mode": "pro"}}), "reasoning.mode"),
        (
            json!({"tools": [{"type": "function", "name": "f", "allowed_callers": ["programmatic"]}]}),
            "tools[0].allowed_callers",
        ),
    ] {
        is_refused(&members, param, "unsupported_value");
    }
    for (members, param) in [
        (json!({"stream_options": {"include_usage": true}}), "stream_options.include_usage"),
        (json!({"text": {"color": "red"}}), "text.color"),
        (json!({"reasoning": {"budget": 1}}), "reasoning.budget"),
        (
            json!({"tools": [{"type": "function", "name": "f", "output_schema": {}}]}),
            "tools[0].output_schema",
        ),
    ] {
        is_refused(&members, param, "unsupported_parameter");
    }
}

#[test]
fn values_outside_of_those_supported_are_refused_by_name() {
    for (members, param) in [
        (
            json!({"tools": [{"type": "function", "name": "f"}, {"type": "web_search"}]}),
            "tools[1].type",
        ),
        (json!({"tools": [{"type": "file_search"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "code_interpreter"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "computer_use_preview"}]}), "tools[0].type"),
        (json!({"tools": [{"type": "mcp", "server_url": "https://example.com"}]}), "tools[0].type"),
        (
            json!({"tools": [{"type": "custom", "name": "c", "format": {"type": "xml"}}]}),
            "tools[0].format.type",
        ),
        (json!({"tool_choice": "any"}), "tool_choice"),
        (json!({"tool_choice": {"type": "web_search_preview"}}), "tool_choice.type"),
        (
            json!({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "image_generation"}]}}),
            "tool_choice.tools[0].type",
        ),
        (json!({"include": ["file_search_call.results"]}), "include[0]"),
        (json!({"text": {"format": {"type": "grammar"}}}), "text.format.type"),
        (json!({"metadata": {"k": "x".repeat(513)}}), "metadata.k"),
        (
            json!({"metadata": (0..17).map(|n| (n.to_string(), json!("x"))).collect::<Object>()}),
            "metadata",
        ),
    ] {
        is_refused(&members, param, "invalid_value");
    }
}

#[test]
fn members_of_the_wrong_type_are_refused_by_name() {
    for (members, param) in [
        (json!({"input": 7}), "input"),
        (json!({"input": [7]}), "input[0]"),
        (json!({"instructions": []}), "instructions"),
        (json!({"store": "yes"}), "store"),
        (json!({"stream": 1}), "stream"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"parallel_tool_calls": 1}), "parallel_tool_calls"),
        (json!({"user": {}}), "user"),
        (json!({"max_output_tokens": -1}), "max_output_tokens"),
        (json!({"max_tool_calls": 1.5}), "max_tool_calls"),
        (json!({"previous_response_id": 1}), "previous_response_id"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": ["f"]}), "tools[0]"),
        (json!({"tools": [{"type": "function", "name": 7}]}), "tools[0].name"),
        (json!({"tool_choice": 1}), "tool_choice"),
        (json!({"include": "all"}), "include"),
        (json!({"include": [1]}), "include[0]"),
        (json!({"text": "json"}), "text"),
        (json!({"text": {"format": "json"}}), "text.format"),
        (json!({"reasoning": "high"}), "reasoning"),
        (json!({"metadata": []}), "metadata"),
        (json!({"metadata": {"a": 1}}), "metadata.a"),
        (json!({"stream_options": true}), "stream_options"),
    ] {
        is_refused(&members, param, "invalid_type");
    }
}

#[test]
fn missing_members_are_named() {
    let error = refusal(json!({"model": "m"}));
    assert_eq!(error.param, "input");
    assert_eq!(error.to_string(), "Missing required parameter: 'input'.");
    for (members, param) in [
        (json!({"input": null}), "input"),
        (json!({"input": [{"content": "x"}]}), "input[0].type"),
        (json!({"input": [{"role": "user"}]}), "input[0].content"),
        (json!({"input": [{"type": "message", "content": "x"}]}), "input[0].role"),
        (
            json!({"input": [{"role": "user", "content": [{"text": "x"}]}]}),
            "input[0].content[0].type",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}),
            "input[0].content[0].image_url",
        ),
        (
            json!({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}),
            "input[0].content[0].file_data",
        ),
        (
            json!({"input": [{"type": "function_call", "name": "f", "arguments": ""}]}),
            "input[0].call_id",
        ),
        (
            json!({"input": [{"type": "function_call", "call_id": "a", "name": "f"}]}),
            "input[0].arguments",
        ),
        (json!({"input": [{"type": "function_call_output", "call_id": "a"}]}), "input[0].output"),
        (json!({"tools": [{"type": "function", "function": {"name": "f"}}]}), "tools[0].name"),
        (json!({"tools": [{"name": "f"}]}), "tools[0].type"),
        (json!({"tool_choice": {"type": "mcp", "server_label": "fs"}}), "tool_choice.name"),
        (json!({"text": {"format": {"type": "json_schema", "name": "n"}}}), "text.format.schema"),
    ] {
        is_refused(&members, param, "missing_required_parameter");
    }
}

#[test]
fn items_and_parts_without_a_counterpart_are_refused_by_name() {
    for (item, param, code) in [
        (
            input_with(&json!({"type": "item_reference", "id": "msg_1"})),
            "input[1].type",
            "unsupported_value",
        ),
        (input_with(&json!({"id": "msg_1"})), "input[1].type", "unsupported_value"),
        (input_with(&json!({"type": "computer_call_output"})), "input[1].type", "invalid_value"),
        (input_with(&json!({"type": "mcp_approval_response"})), "input[1].type", "invalid_value"),
        (input_with(&json!({"role": "tool", "content": "x"})), "input[1].role", "invalid_value"),
        (
            input_with(&json!({"role": "system", "content": [{"type": "input_image"}]})),
            "input[1].content[0].type",
            "invalid_value",
        ),
        (
            input_with(&json!({"role": "user", "content": [{"type": "text", "text": "x"}]})),
            "input[1].content[0].type",
            "invalid_value",
        ),
        (
            input_with(
                &json!({"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
            ),
            "input[1].content[0].file_id",
            "unsupported_parameter",
        ),
        (
            input_with(
                &json!({"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}),
            ),
            "input[1].content[0].file_url",
            "unsupported_parameter",
        ),
        (
            input_with(
                &json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "", "caller": {"type": "program"}}),
            ),
            "input[1].caller",
            "unsupported_value",
        ),
        (
            input_with(&json!({"type": "reasoning", "summary": [], "encrypted_content": "gAAAA"})),
            "input[1].encrypted_content",
            "invalid_value",
        ),
        (
            input_with(
                &json!({"type": "reasoning", "summary": [], "encrypted_content": "{\"role\":[]}"}),
            ),
            "input[1].encrypted_content",
            "invalid_value",
        ),
        (
            input_with(&json!({"type": "reasoning", "summary": [{"type": "text"}]})),
            "input[1].summary[0].type",
            "invalid_value",
        ),
    ] {
        is_refused(&item, param, code);
    }
}

fn input_with(item: &Value) -> Value {
    json!({"input": [{"role": "user", "content": "x"}, item]})
}

#[test]
fn a_call_without_an_output_and_an_output_without_a_call_are_refused() {
    let call = json!({"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"});
    let output = json!({"type": "function_call_output", "call_id": "a", "output": "A"});
    for (input, message) in [
        (
            json!([call, {"role": "user", "content": "x"}]),
            "No tool output found for function call a.",
        ),
        (json!([output]), "No tool call found for function call output with call_id a."),
        (
            json!([call, output, output]),
            "No tool call found for function call output with call_id a.",
        ),
    ] {
        let error = refusal(json!({"model": "m", "input": input}));
        assert_eq!((error.param.as_str(), error.message.as_str()), ("input", message));
    }
}

#[test]
fn an_error_message_has_the_found_and_the_supported_values_and_is_bounded() {
    for (members, message) in [
        (
            json!({"tools": [{"type": "web_search"}]}),
            "Invalid value: 'web_search'. Supported values for 'tools[0].type' are: 'function' and 'custom'. OpenAI's built-in tools are not available.",
        ),
        (
            json!({"text": {"format": {"type": "xml"}}}),
            "Invalid value: 'xml'. Supported values for 'text.format.type' are: 'text', 'json_object', and 'json_schema'.",
        ),
        (
            json!({"max_tokens": 5}),
            "Unsupported parameter: 'max_tokens'. In the Responses API, this parameter has moved to 'max_output_tokens'.",
        ),
        (
            json!({"temperature": "hot"}),
            "Invalid type for 'temperature': expected a number, but got a string instead.",
        ),
        (
            json!({"truncation": "last"}),
            "Invalid value: 'last'. Supported values for 'truncation' are: 'auto' and 'disabled'.",
        ),
    ] {
        assert_eq!(refusal(request(members)).message, message);
    }
    let long = "é".repeat(1 << 16);
    for members in [
        json!({"tool_choice": long}),
        json!({"truncation": long}),
        json!({"text": {long.clone(): 1}}),
        json!({"metadata": {long.clone(): 1}}),
        json!({"input": [{"type": "function_call_output", "call_id": long, "output": ""}]}),
    ] {
        let error = refusal(request(members));
        assert!(error.message.len() < 512 && error.param.len() < 128, "{error}");
    }
}

#[test]
fn a_misspelt_bound_is_refused_and_another_unknown_member_is_not() {
    for (name, meant) in [
        ("max_tool_cals", "max_tool_calls"),
        ("max_tools_calls", "max_tool_calls"),
        ("max_ouptut_tokens", "max_output_tokens"),
        ("previous_reponse_id", "previous_response_id"),
    ] {
        let refused = refusal(request(json!({name: 1})));
        let message = format!("Unknown parameter: '{name}'. Did you mean '{meant}'?");
        assert_eq!((refused.param.as_str(), refused.message), (name, message));
    }
    assert_eq!(chat(request(json!({"top_k": 5, "min_p": 0.1})))["top_k"], 5);
}
