//! Settings and tools.

use super::*;

/// Translates a request with `members`. Returns the members that they add to a chat completion
/// request.
fn added(members: Value) -> Value {
    let mut body = chat(request(members));
    assert_eq!(body.remove("model"), Some(json!("m")));
    assert!(body.remove("messages").is_some());
    body.into()
}

#[test]
fn settings_have_their_names_of_chat_completions() {
    let schema = json!({"type": "object", "properties": {"n": {"maximum": 1e300}}});
    for (members, expected) in [
        (json!({"temperature": 0.1, "top_p": 1}), json!({"temperature": 0.1, "top_p": 1})),
        (json!({"max_output_tokens": 5}), json!({"max_completion_tokens": 5})),
        (json!({"parallel_tool_calls": false}), json!({"parallel_tool_calls": false})),
        (
            json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "flex"}),
            json!({"user": "u", "safety_identifier": "s", "prompt_cache_key": "k", "service_tier": "flex"}),
        ),
        (
            json!({"prompt_cache_options": {"ttl": "30m"}}),
            json!({"prompt_cache_options": {"ttl": "30m"}}),
        ),
        (
            json!({"text": {"format": {"type": "text"}, "verbosity": "low"}}),
            json!({"verbosity": "low"}),
        ),
        (
            json!({"text": {"format": {"type": "json_object"}}}),
            json!({"response_format": {"type": "json_object"}}),
        ),
        (
            json!({"text": {"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": true}}}),
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": true}}}),
        ),
        (
            json!({"reasoning": {"effort": "high", "summary": "auto"}}),
            json!({"reasoning_effort": "high"}),
        ),
        (json!({"tools": [], "tool_choice": "auto", "parallel_tool_calls": true}), json!({})),
        (json!({"top_logprobs": 0}), json!({})),
        (json!({"top_logprobs": 2}), json!({"logprobs": true, "top_logprobs": 2})),
        (json!({"include": ["message.output_text.logprobs"]}), json!({"logprobs": true})),
        (
            json!({"include": ["reasoning.encrypted_content", "message.input_image.image_url"]}),
            json!({}),
        ),
        (
            json!({"store": false, "stream": true, "stream_options": {"include_obfuscation": false}}),
            json!({"stream": true}),
        ),
        (
            json!({"metadata": {"a": "b"}, "max_tool_calls": 3, "previous_response_id": "resp_0"}),
            json!({}),
        ),
        (
            json!({"background": false, "truncation": "disabled", "conversation": null, "tools": null}),
            json!({}),
        ),
        (
            json!({"seed": 1, "airlock": {"events": true}}),
            json!({"seed": 1, "airlock": {"events": true}}),
        ),
    ] {
        assert_eq!(added(members.clone()), expected, "{members}");
    }
}

#[test]
fn tools_have_their_form_of_chat_completions() {
    let schema = json!({"type": "object", "z": 1, "a": 1});
    for (tool, expected) in [
        (
            json!({"type": "function", "name": "f", "description": "d", "parameters": schema, "strict": true, "cache_control": {}}),
            json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": schema, "strict": true}, "cache_control": {}}),
        ),
        (
            json!({"type": "function", "name": "f", "parameters": null, "strict": null, "defer_loading": false, "allowed_callers": ["direct"]}),
            json!({"type": "function", "function": {"name": "f"}}),
        ),
        (
            json!({"type": "custom", "name": "c", "format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}}),
            json!({"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}}}),
        ),
        (
            json!({"type": "custom", "name": "c", "description": "d", "format": {"type": "text"}}),
            json!({"type": "custom", "custom": {"name": "c", "description": "d", "format": {"type": "text"}}}),
        ),
    ] {
        assert_eq!(added(json!({"tools": [tool]})), json!({"tools": [expected]}), "{tool}");
    }
}

#[test]
fn every_form_of_tool_choice_is_translated() {
    let function = json!({"type": "function", "function": {"name": "f"}});
    let custom = json!({"type": "custom", "custom": {"name": "c"}});
    for (choice, expected) in [
        (json!("none"), json!("none")),
        (json!("required"), json!("required")),
        (json!({"type": "function", "name": "f"}), function.clone()),
        (json!({"type": "mcp", "server_label": "fs", "name": "f"}), function.clone()),
        (json!({"type": "custom", "name": "c"}), custom.clone()),
        (
            json!({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}, {"type": "custom", "name": "c"}]}),
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function, custom]}}),
        ),
    ] {
        let choice = json!({"tool_choice": choice});
        assert_eq!(added(choice.clone()), json!({"tool_choice": expected}), "{choice}");
    }
}
