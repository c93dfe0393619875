use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::{
    CallInput, Content, FunctionTool, Item, Media, Message, NativeItem, Part, Reasoning,
    ReplyFormat, Role, Seal, ToolCall, ToolChoice, ToolDefinition, ToolResult,
    messages::write_request,
};

/// Returns a request with these members more.
fn request(more: &Value) -> Object {
    let mut request = json!({"model": "m", "max_tokens": 10, "messages": []});
    let more = more.as_object().expect("members").clone();
    request.as_object_mut().expect("an object").extend(more);
    airlock_json::object(request)
}

fn read(more: &Value) -> Conversation {
    read_request(request(more)).expect("a good request")
}

fn items(messages: &Value) -> Vec<Item> {
    read(&json!({"messages": messages})).items
}

/// Returns `code` and `param` of the error of a request.
fn refused(more: &Value) -> (&'static str, String) {
    let error = read_request(request(more)).expect_err("a bad request");
    (error.code, error.param)
}

fn native(object: Value) -> NativeItem {
    NativeItem::new(Wire::Messages, airlock_json::object(object))
}

#[test]
fn a_message_without_blocks_stays() {
    let items = items(&json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": []},
        {"role": "user", "content": []},
    ]));
    let messages = crate::chat::write_messages(items).expect("messages");
    assert_eq!(
        Value::from(messages),
        json!([
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": ""},
            {"role": "user", "content": ""},
        ])
    );
}

#[test]
fn texts_and_blocks_of_text_become_messages() {
    let read = read(&json!({
        "system": [{"type": "text", "text": "be brief", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "a", "citations": null},
                {"type": "text", "text": "b"},
            ]},
            {"role": "system", "content": "now in French"},
        ],
    }));
    let marked =
        Part { cache_control: Some(json!({"type": "ephemeral"})), ..Part::text("be brief") };
    assert_eq!(
        read.items,
        [
            Item::Message(Message::new(Role::System, vec![marked])),
            Item::Message(Message::new(Role::User, vec![Part::text("hi")])),
            Item::Message(Message::new(Role::Assistant, vec![Part::text("a"), Part::text("b")])),
            Item::Message(Message::new(Role::System, vec![Part::text("now in French")])),
        ]
    );
    assert_eq!((read.wire, read.model.as_str()), (Wire::Messages, "m"));
}

#[test]
fn a_turn_of_the_model_keeps_the_order_of_its_blocks() {
    let items = items(&json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "let me see"},
        {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
        {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}},
        {"type": "tool_use", "id": "u", "name": "g", "input": {"INVALID_JSON": "{\"a\":"}},
    ]}]));
    let sealed = |seal| Reasoning { seal: Some(seal), ..Reasoning::default() };
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    assert_eq!(
        items,
        [
            Item::Reasoning(Reasoning {
                text: "hm".to_owned(),
                ..sealed(Seal::Signature("sig".to_owned()))
            }),
            Item::Reasoning(sealed(Seal::Redacted("xyz".to_owned()))),
            Item::Message(Message::new(Role::Assistant, vec![Part::text("let me see")])),
            Item::Native(native(search)),
            Item::ToolCall(ToolCall::function("t", "f", r#"{"a":1}"#)),
            Item::ToolCall(ToolCall::function("u", "g", r#"{"a":"#)),
        ]
    );
}

#[test]
fn results_come_before_the_other_blocks_of_a_turn() {
    let items = items(&json!([{"role": "user", "content": [
        {"type": "text", "text": "go on"},
        {"type": "tool_result", "tool_use_id": "t", "content": "4", "is_error": true},
        {"type": "tool_result", "tool_use_id": "u"},
    ]}]));
    let failed = ToolResult { is_error: Some(true), ..ToolResult::new("t", vec![Part::text("4")]) };
    assert_eq!(
        items,
        [
            Item::ToolResult(failed),
            Item::ToolResult(ToolResult::new("u", Vec::new())),
            Item::Message(Message::new(Role::User, vec![Part::text("go on")])),
        ]
    );
}

#[test]
fn each_source_of_an_image_or_document_is_read() {
    let base64 = |media_type: &str| Media::Base64 {
        media_type: media_type.to_owned(),
        data: "QQ==".to_owned(),
    };
    let image = |media| Content::Image { media, detail: None };
    let file = |media, name: Option<&str>| Content::File { media, name: name.map(str::to_owned) };
    let cited = json!({"type": "document", "citations": {"enabled": true}, "source": {"type": "text", "media_type": "text/plain", "data": "x"}});
    let blocks = json!({"type": "document", "source": {"type": "content", "content": []}});
    let found = json!({"type": "search_result", "source": "s", "title": "t", "content": []});
    for (block, expected) in [
        (
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}),
            image(base64("image/png")),
        ),
        (
            json!({"type": "image", "source": {"type": "url", "url": "https://a/b"}}),
            image(Media::Url("https://a/b".to_owned())),
        ),
        (
            json!({"type": "image", "source": {"type": "file", "file_id": "f"}}),
            image(Media::FileId("f".to_owned())),
        ),
        (
            json!({"type": "document", "title": "n", "citations": {"enabled": false}, "source": {"type": "base64", "media_type": "application/pdf", "data": "QQ=="}}),
            file(base64("application/pdf"), Some("n")),
        ),
        (
            json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"}}),
            file(Media::Text("x".to_owned()), None),
        ),
        (cited.clone(), Content::Native(native(cited))),
        (blocks.clone(), Content::Native(native(blocks))),
        (found.clone(), Content::Native(native(found))),
    ] {
        let items = items(&json!([{"role": "user", "content": [block]}]));
        assert_eq!(items, [Item::Message(Message::new(Role::User, vec![Part::new(expected)]))]);
    }
}

#[test]
fn tools_and_the_choice_among_them_are_read() {
    let read = read(&json!({
        "tools": [
            {"name": "f", "description": "d", "input_schema": {"type": "object"}, "strict": true,
             "cache_control": {"type": "ephemeral"}, "eager_input_streaming": true, "defer_loading": true,
             "input_examples": [{}], "allowed_callers": ["direct"]},
            {"type": "custom", "name": "g", "input_schema": {}},
            {"type": "bash_20250124", "name": "bash"},
        ],
        "tool_choice": {"type": "tool", "name": "g", "disable_parallel_tool_use": true},
    }));
    let tool = FunctionTool {
        name: "f".to_owned(),
        description: Some("d".to_owned()),
        parameters: Some(json!({"type": "object"})),
        strict: Some(true),
        cache_control: Some(json!({"type": "ephemeral"})),
        extra: airlock_json::object(json!({
            "eager_input_streaming": true, "input_examples": [{}], "allowed_callers": ["direct"],
        })),
    };
    let other = FunctionTool {
        name: "g".to_owned(),
        description: None,
        parameters: Some(json!({})),
        strict: None,
        cache_control: None,
        extra: Object::new(),
    };
    assert_eq!(
        read.tools,
        [
            ToolDefinition::Function(tool),
            ToolDefinition::Function(other),
            ToolDefinition::Native(native(json!({"type": "bash_20250124", "name": "bash"}))),
        ]
    );
    assert_eq!(read.tool_choice, Some(ToolChoice::Function("g".to_owned())));
    assert_eq!(read.settings.parallel_tool_calls, Some(false));
    for (choice, expected) in
        [("auto", ToolChoice::Auto), ("any", ToolChoice::Required), ("none", ToolChoice::None)]
    {
        let read = self::read(&json!({"tool_choice": {"type": choice}}));
        assert_eq!(read.tool_choice, Some(expected));
    }
}

#[test]
fn settings_hints_and_members_that_are_not_known_are_kept_apart() {
    let read = read(&json!({
        "stream": true, "temperature": 0.5, "top_p": 1, "top_k": 5, "stop_sequences": ["x"],
        "metadata": {"user_id": "u"}, "service_tier": "standard_only",
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {}}, "task_budget": {}},
        "context_management": {"edits": []}, "cache_control": {"type": "ephemeral"},
        "inference_geo": "eu", "mcp_servers": [], "container": null,
        "speed": "fast", "billing_policy": "x", "fallback_credit_token": "x",
    }));
    let settings = read.settings;
    assert!(settings.stream);
    assert_eq!((settings.max_output_tokens, settings.top_k), (Some(10), Some(5)));
    assert_eq!((json!(settings.temperature), json!(settings.top_p)), (json!(0.5), json!(1)));
    assert_eq!(settings.stop, ["x"]);
    assert_eq!(settings.user.as_deref(), Some("u"));
    assert_eq!(settings.service_tier.as_deref(), Some("default"));
    assert_eq!(settings.reasoning_tokens, Some(1024));
    assert_eq!(settings.effort.as_deref(), Some("high"));
    let format = ReplyFormat::Schema {
        name: String::new(),
        description: None,
        schema: Some(json!({})),
        strict: Some(true),
    };
    assert_eq!(settings.format, Some(format));
    let hints: Vec<_> = read.hints.keys().map(String::as_str).collect();
    assert_eq!(hints, ["cache_control", "context_management", "thinking"]);
    let extra = json!({"output_config": {"task_budget": {}}, "inference_geo": "eu"});
    assert_eq!(Value::from(read.extra), extra);
}

#[test]
fn a_request_that_the_api_refuses_is_refused_by_the_name_of_its_member() {
    let user = |content: &Value| json!({"messages": [{"role": "user", "content": content}]});
    for (more, code, param) in [
        (json!({"max_tokens": null}), "missing_required_parameter", "max_tokens"),
        (json!({"max_tokens": -1}), "invalid_type", "max_tokens"),
        (json!({"model": null}), "missing_required_parameter", "model"),
        (json!({"messages": null}), "missing_required_parameter", "messages"),
        (json!({"messages": "hi"}), "invalid_type", "messages"),
        (
            json!({"messages": [{"role": "tool", "content": ""}]}),
            "invalid_value",
            "messages[0].role",
        ),
        (
            json!({"messages": [{"role": "user"}]}),
            "missing_required_parameter",
            "messages[0].content",
        ),
        (user(&json!([1])), "invalid_type", "messages[0].content[0]"),
        (
            user(&json!([{"type": "text"}])),
            "missing_required_parameter",
            "messages[0].content[0].text",
        ),
        (
            user(&json!([{"type": "image", "source": {"type": "disk"}}])),
            "invalid_value",
            "messages[0].content[0].source.type",
        ),
        (
            user(&json!([{"type": "tool_result"}])),
            "missing_required_parameter",
            "messages[0].content[0].tool_use_id",
        ),
        (json!({"tools": [{"name": "f"}]}), "missing_required_parameter", "tools[0].input_schema"),
        (json!({"tool_choice": {"type": "some"}}), "invalid_value", "tool_choice.type"),
        (json!({"stop_sequences": [1]}), "invalid_type", "stop_sequences[0]"),
        (
            json!({"thinking": {"type": "enabled"}}),
            "missing_required_parameter",
            "thinking.budget_tokens",
        ),
        (json!({"thinking": {}}), "missing_required_parameter", "thinking.type"),
        (json!({"service_tier": "flex"}), "invalid_value", "service_tier"),
        (
            json!({"output_config": {"format": {"type": "text"}}}),
            "invalid_value",
            "output_config.format.type",
        ),
        (json!({"metadata": {"user": "u"}}), "unsupported_parameter", "metadata.user"),
        (json!({"mcp_servers": [{}]}), "unsupported_value", "mcp_servers"),
        (json!({"container": "c"}), "unsupported_parameter", "container"),
    ] {
        assert_eq!(refused(&more), (code, param.to_owned()), "{more}");
    }
}

#[test]
fn the_proof_of_another_provider_is_read_from_the_signature() {
    let signature = r#"airlock:{"id":"rs_1","encrypted":"e"}"#;
    let items = items(&json!([{"role": "assistant", "content": [
        {"type": "thinking", "thinking": "why", "signature": signature},
    ]}]));
    let [Item::Reasoning(reasoning)] = &items[..] else { panic!("{items:?}") };
    assert_eq!(reasoning.seal, Some(Seal::Encrypted("e".to_owned())));
    assert_eq!(
        (reasoning.id.as_deref(), &reasoning.summary[..]),
        (Some("rs_1"), &["why".to_owned()][..])
    );
}

#[test]
fn the_signature_of_a_call_is_read_from_the_block_before_it() {
    let carrier = |id: &str| {
        let signature = format!(r#"airlock:{{"call":"{id}","thought_signature":"s"}}"#);
        json!({"type": "thinking", "thinking": "", "signature": signature})
    };
    let used = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let text = json!({"type": "text", "text": "a"});
    let items = items(&json!([{"role": "assistant", "content": [
        text, carrier("t"), text, carrier("dropped"), used("t"), used("u"),
    ]}]));
    let extra = json!({"extra_content": {"google": {"thought_signature": "s"}}});
    let signed =
        ToolCall { extra: airlock_json::object(extra), ..ToolCall::function("t", "f", "{}") };
    assert_eq!(
        items,
        [
            Item::Message(Message::new(Role::Assistant, vec![Part::text("a"), Part::text("a")])),
            Item::ToolCall(signed),
            Item::ToolCall(ToolCall::function("u", "f", "{}")),
        ]
    );
}

/// Returns a strategy for JSON with many of the names that the reader looks at.
fn hostile() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec![
        "type",
        "role",
        "content",
        "text",
        "source",
        "data",
        "id",
        "name",
        "input",
        "tool_use_id",
        "system",
        "messages",
        "tools",
        "tool_choice",
        "thinking",
        "output_config",
        "metadata",
        "max_tokens",
        "model",
        "media_type",
        "signature",
        "format",
        "schema",
        "citations",
    ]);
    let words = prop::sample::select(vec![
        "user",
        "assistant",
        "system",
        "text",
        "image",
        "document",
        "tool_use",
        "tool_result",
        "thinking",
        "redacted_thinking",
        "base64",
        "url",
        "airlock:{}",
        "json_schema",
        "enabled",
        "",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((names.clone(), inner), 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

proptest! {
    #[test]
    fn no_request_makes_the_reader_or_the_writer_panic(
        messages in hostile(), system in hostile(), tools in hostile(), rest in hostile(),
    ) {
        let mut request = request(&json!({"messages": messages, "system": system, "tools": [tools]}));
        if let Value::Object(rest) = rest {
            request.extend(rest);
        }
        if let Ok(read) = read_request(request) {
            // Arguments of calls are text, whatever the input was.
            let is_text = |item: &Item| match item {
                Item::ToolCall(call) => matches!(call.input, CallInput::Arguments(_)),
                _ => true,
            };
            prop_assert!(read.items.iter().all(is_text));
            // It may be refused; a name in the error is short, whatever was sent.
            if let Err(error) = write_request(read) {
                prop_assert!(error.param.len() < 100, "{}", error.param);
            }
        }
    }
}
