use airlock_json::object;
use serde_json::{Number, json};

use super::*;
use crate::{
    CallInput, Content, FunctionTool, Item, Message, NativeItem, Part, Reasoning, Role, Seal,
    ToolCall, ToolChoice, ToolDefinition, ToolResult,
};

/// Reads a request with these members beside a message.
fn read(members: Value) -> Result<Conversation, Untranslatable> {
    let mut body = object(json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]}));
    body.extend(object(members));
    read_request(body)
}

fn items(messages: Value) -> Vec<Item> {
    let members = crate::object_of([("messages", messages)]);
    read(members.into()).expect("good messages").items
}

fn message(role: Role, parts: Vec<Part>) -> Item {
    Item::Message(Message::new(role, parts))
}

fn signed(text: &str, signature: &str) -> Item {
    let seal = Some(Seal::Signature(signature.to_owned()));
    Item::Reasoning(Reasoning { text: text.to_owned(), seal, ..Reasoning::default() })
}

fn unsigned(text: &str) -> Item {
    Item::Reasoning(Reasoning { text: text.to_owned(), ..Reasoning::default() })
}

#[test]
fn messages_become_items() {
    let call = |id: &str| json!({"id": id, "type": "function", "index": 0, "function": {"name": "f", "arguments": "{}"}});
    let custom = json!({"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}});
    let found = items(json!([
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "hi", "name": "Ann"},
        {"role": "assistant", "content": "I look.", "refusal": null, "reasoning_content": "Hm.",
         "tool_calls": [call("c1"), custom]},
        {"role": "tool", "tool_call_id": "c1", "content": "one", "is_error": true},
        {"role": "assistant", "content": null, "refusal": "No."}
    ]));
    let named = Message {
        extra: object(json!({"name": "Ann"})),
        ..Message::new(Role::User, vec![Part::text("hi")])
    };
    let result =
        ToolResult { is_error: Some(true), ..ToolResult::new("c1", vec![Part::text("one")]) };
    let custom =
        ToolCall { input: CallInput::Text("x".to_owned()), ..ToolCall::function("c2", "g", "") };
    assert_eq!(
        found,
        [
            message(Role::System, vec![Part::text("Be kind.")]),
            message(Role::Developer, vec![Part::text("Be brief.")]),
            Item::Message(named),
            unsigned("Hm."),
            message(Role::Assistant, vec![Part::text("I look.")]),
            Item::ToolCall(ToolCall::function("c1", "f", "{}")),
            Item::ToolCall(custom),
            Item::ToolResult(result),
            message(Role::Assistant, vec![Part::new(Content::Refusal("No.".to_owned()))]),
        ]
    );
}

#[test]
fn signed_blocks_take_the_place_of_the_readable_reasoning() {
    let redacted = Item::Reasoning(Reasoning {
        seal: Some(Seal::Redacted("d".to_owned())),
        ..Reasoning::default()
    });
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "s", "index": 0});
    let encrypted = json!({"type": "redacted_thinking", "data": "d"});
    for (members, reasoning) in [
        (json!({"reasoning": "Hm."}), vec![unsigned("Hm.")]),
        (
            json!({"reasoning_content": "Hm.", "thinking_blocks": [block, encrypted]}),
            vec![signed("Hm.", "s"), redacted.clone()],
        ),
        (
            json!({"reasoning_content": "Hm.", "thinking_blocks": [encrypted]}),
            vec![unsigned("Hm."), redacted],
        ),
    ] {
        let mut sent = members.clone();
        sent["role"] = "assistant".into();
        sent["content"] = "a".into();
        let mut expected = reasoning;
        expected.push(message(Role::Assistant, vec![Part::text("a")]));
        assert_eq!(items(json!([sent])), expected, "{members}");
    }
}

#[test]
fn reasoning_details_are_read_if_they_are_of_the_responses_api() {
    let detail = |kind: &str, name: &str, text: &str| json!({"type": kind, name: text, "id": "rs_1", "format": "openai-responses-v1", "index": 0});
    let own = json!([
        detail("reasoning.summary", "summary", "Hm."),
        detail("reasoning.encrypted", "data", "e")
    ]);
    let typed = Item::Reasoning(Reasoning {
        id: Some("rs_1".to_owned()),
        summary: vec!["Hm.".to_owned()],
        seal: Some(Seal::Encrypted("e".to_owned())),
        ..Reasoning::default()
    });
    let other = json!([{"type": "reasoning.text", "text": "Hm."}]);
    let kept = Item::Reasoning(Reasoning {
        extra: object(json!({"reasoning_details": other})),
        ..Reasoning::default()
    });
    for (details, expected) in [
        (own, vec![typed]),
        (other, vec![unsigned("Hm."), kept]),
        (json!([]), vec![unsigned("Hm.")]),
    ] {
        let found = items(json!([{"role": "assistant", "content": "a",
            "reasoning_content": "Hm.", "reasoning_details": details}]));
        assert_eq!(found[..found.len() - 1], expected);
    }
}

#[test]
fn a_mark_of_the_cache_goes_to_the_last_call_or_part() {
    let mark = json!({"type": "ephemeral"});
    let own = json!({"type": "ephemeral", "ttl": "1h"});
    let call = json!({"id": "c", "function": {"name": "f", "arguments": ""}});
    let found = items(json!([
        {"role": "user", "content": "a", "cache_control": mark},
        {"role": "user", "content": [{"type": "text", "text": "b", "cache_control": own}],
         "cache_control": mark},
        {"role": "assistant", "content": "c", "tool_calls": [call], "cache_control": mark},
        {"role": "tool", "tool_call_id": "c", "content": "d", "cache_control": mark},
        {"role": "user", "cache_control": mark}
    ]));
    let marks: Vec<_> = found
        .iter()
        .map(|item| match item {
            Item::Message(message) => {
                message.parts.last().map(|part| part.cache_control.clone()).unwrap_or_default()
            }
            Item::ToolCall(call) => call.cache_control.clone(),
            Item::ToolResult(result) => result.cache_control.clone(),
            _ => None,
        })
        .collect();
    let set = Some(mark.clone());
    assert_eq!(marks, [set.clone(), Some(own), None, set.clone(), set, None]);
    let Some(Item::Message(last)) = found.last() else { panic!("a message") };
    assert_eq!(last.extra.get(crate::chat::members::CACHE_CONTROL), Some(&mark));
}

#[test]
fn a_message_of_an_unknown_role_is_kept_as_it_came() {
    let sent = json!({"role": "function", "name": "f", "content": "x"});
    let expected =
        NativeItem { wire: Wire::Chat, kind: "function".to_owned(), object: object(sent.clone()) };
    assert_eq!(items(json!([sent])), [Item::Native(expected)]);
}

#[test]
fn messages_that_are_not_valid_are_refused_by_name() {
    let calls = |calls: Value| json!([{"role": "assistant", "tool_calls": calls}]);
    for (messages, param) in [
        (json!(null), "messages"),
        (json!("hi"), "messages"),
        (json!(["hi"]), "messages[0]"),
        (json!([{"content": "hi"}]), "messages[0].role"),
        (json!([{"role": "user", "content": 1}]), "messages[0].content"),
        (json!([{"role": "assistant", "refusal": 1}]), "messages[0].refusal"),
        (json!([{"role": "assistant", "thinking_blocks": {}}]), "messages[0].thinking_blocks"),
        (
            json!([{"role": "assistant", "thinking_blocks": [{"type": "text"}]}]),
            "messages[0].thinking_blocks[0].type",
        ),
        (calls(json!({})), "messages[0].tool_calls"),
        (calls(json!([1])), "messages[0].tool_calls[0]"),
        (
            calls(json!([{"function": {"name": "x", "arguments": "{}"}}])),
            "messages[0].tool_calls[0].id",
        ),
        (calls(json!([{"id": "c"}])), "messages[0].tool_calls[0].function"),
        (
            calls(json!([{"id": "c", "function": {"arguments": "{}"}}])),
            "messages[0].tool_calls[0].function.name",
        ),
        (
            calls(json!([{"id": "c", "function": {"name": "x", "arguments": {}}}])),
            "messages[0].tool_calls[0].function.arguments",
        ),
        (json!([{"role": "tool", "content": "x"}]), "messages[0].tool_call_id"),
        (json!([{"role": "tool", "tool_call_id": "c", "is_error": "yes"}]), "messages[0].is_error"),
    ] {
        let refused = read(json!({"messages": messages})).expect_err("refused");
        assert_eq!(refused.param, param, "{messages}");
    }
}

#[test]
fn settings_are_read_and_the_rest_is_kept() {
    let conversation = read(json!({
        "stream": true, "max_tokens": 5, "temperature": 0.5, "top_p": 1, "top_k": 3, "stop": "a",
        "parallel_tool_calls": false, "reasoning_effort": "high", "user": "u",
        "service_tier": "flex", "response_format": {"type": "json_object"}, "seed": 7,
        "stream_options": {"include_usage": true}, "n": 2, "thinking": {"type": "adaptive"},
        "logit_bias": null
    }));
    let conversation = conversation.expect("a good request");
    assert_eq!(
        conversation.settings,
        Settings {
            stream: true,
            max_output_tokens: Some(5),
            temperature: Number::from_f64(0.5),
            top_p: Some(1.into()),
            top_k: Some(3),
            stop: vec!["a".to_owned()],
            parallel_tool_calls: Some(false),
            effort: Some("high".to_owned()),
            reasoning_tokens: None,
            format: Some(ReplyFormat::Json),
            user: Some("u".to_owned()),
            service_tier: Some("flex".to_owned()),
        }
    );
    assert_eq!(
        Value::from(conversation.hints),
        json!({"max_tokens": 5, "user": "u", "seed": 7, "stream_options": {"include_usage": true}})
    );
    assert_eq!(Value::from(conversation.extra), json!({"n": 2, "thinking": {"type": "adaptive"}}));
}

#[test]
fn null_counts_as_absent() {
    let conversation = read(json!({
        "stream": null, "max_tokens": null, "temperature": null, "stop": null, "tools": null,
        "tool_choice": null, "response_format": null, "user": null, "seed": null, "other": null
    }));
    assert_eq!(conversation, read(json!({})));
}

#[test]
fn formats_are_read() {
    let schema = json!({"type": "json_schema", "json_schema": {
        "name": "n", "description": "d", "schema": {"type": "object"}, "strict": true
    }});
    let read_schema = ReplyFormat::Schema {
        name: "n".to_owned(),
        description: Some("d".to_owned()),
        schema: Some(json!({"type": "object"})),
        strict: Some(true),
    };
    for (format, expected) in [
        (json!({"type": "text"}), Some(ReplyFormat::Text)),
        (schema, Some(read_schema)),
        (json!({"type": "grammar", "grammar": "x"}), None),
        (json!("text"), None),
    ] {
        let conversation = read(json!({"response_format": format})).expect("a good request");
        let is_kept = conversation.extra.contains_key("response_format");
        assert_eq!(is_kept, expected.is_none(), "{format}");
        assert_eq!(conversation.settings.format, expected, "{format}");
    }
}

#[test]
fn settings_that_are_not_valid_are_refused_by_name() {
    for (members, param) in [
        (json!({"model": 1}), "model"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens"),
        (json!({"max_completion_tokens": -1}), "max_completion_tokens"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stop": 1}), "stop"),
        (json!({"stop": ["a", 1]}), "stop[1]"),
        (json!({"user": 1}), "user"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
        (json!({"tools": {}}), "tools"),
        (json!({"tools": [1]}), "tools[0]"),
        (json!({"tools": [{"type": "function"}]}), "tools[0].function"),
        (json!({"tools": [{"type": "function", "function": {}}]}), "tools[0].function.name"),
        (json!({"tool_choice": "sometimes"}), "tool_choice"),
        (json!({"tool_choice": 1}), "tool_choice"),
        (json!({"tool_choice": {"type": "function"}}), "tool_choice.function.name"),
    ] {
        assert_eq!(read(members.clone()).expect_err("refused").param, param, "{members}");
    }
}

#[test]
fn tools_are_read() {
    let custom = json!({"type": "custom", "custom": {"name": "g"}});
    let conversation = read(json!({"tools": [
        {"type": "function", "cache_control": {"type": "ephemeral"}, "defer_loading": true, "function": {
            "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": false, "x": 1
        }},
        custom
    ]}));
    let function = FunctionTool {
        name: "f".to_owned(),
        description: Some("d".to_owned()),
        parameters: Some(json!({"type": "object"})),
        strict: Some(false),
        cache_control: Some(json!({"type": "ephemeral"})),
        extra: object(json!({"defer_loading": true, "function": {"x": 1}})),
    };
    assert_eq!(
        conversation.expect("a good request").tools,
        [
            ToolDefinition::Function(function),
            ToolDefinition::Native(NativeItem::new(Wire::Chat, object(custom))),
        ]
    );
}

#[test]
fn both_forms_of_a_choice_among_tools_are_read() {
    let native =
        |choice: &Value| ToolChoice::Native(NativeItem::new(Wire::Chat, object(choice.clone())));
    let allowed = ToolChoice::Allowed { is_required: true, names: vec!["f".to_owned()] };
    let function = json!({"type": "function", "function": {"name": "f"}});
    let flat = json!({"type": "function", "name": "f"});
    let custom = json!({"type": "custom", "custom": {"name": "g"}});
    let mixed = json!({"type": "allowed_tools", "mode": "auto", "tools": [custom]});
    let any = json!({"type": "any", "disable_parallel_tool_use": true});
    for (choice, expected) in [
        (json!("auto"), ToolChoice::Auto),
        (json!("none"), ToolChoice::None),
        (json!("required"), ToolChoice::Required),
        (json!("any"), ToolChoice::Required),
        (function.clone(), ToolChoice::Function("f".to_owned())),
        (flat.clone(), ToolChoice::Function("f".to_owned())),
        (
            json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [function]}}),
            allowed.clone(),
        ),
        (json!({"type": "allowed_tools", "mode": "required", "tools": [flat]}), allowed),
        (custom.clone(), native(&custom)),
        (mixed.clone(), native(&mixed)),
        (any.clone(), native(&any)),
    ] {
        let conversation = read(json!({"tool_choice": choice})).expect("a good request");
        assert_eq!(conversation.tool_choice, Some(expected), "{choice}");
    }
}
