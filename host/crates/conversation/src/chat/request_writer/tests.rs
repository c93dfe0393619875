use airlock_json::object;

use super::{
    ChatDialect::{OpenAi, WithAnthropicMembers},
    *,
};
use crate::{
    Content, Item, Message, NativeItem, Part, Reasoning, Role, Seal, ToolCall, ToolResult,
    chat::read_request,
};

fn conversation(wire: Wire, items: Vec<Item>) -> Conversation {
    Conversation { items, ..Conversation::new(wire, "m") }
}

fn written(conversation: Conversation, dialect: ChatDialect) -> Value {
    write_request(conversation, dialect).expect("it has a form in chat").into()
}

fn messages(wire: Wire, items: Vec<Item>, dialect: ChatDialect) -> Value {
    written(conversation(wire, items), dialect)["messages"].take()
}

fn text(role: Role, text: &str) -> Item {
    Item::Message(Message::new(role, vec![Part::text(text)]))
}

fn call(id: &str) -> Item {
    Item::ToolCall(ToolCall::function(id, "f", "{}"))
}

fn call_of(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}})
}

fn result(id: &str, text: &str) -> Item {
    Item::ToolResult(ToolResult::new(id, vec![Part::text(text)]))
}

fn reasoning(text: &str, seal: Option<Seal>) -> Item {
    Item::Reasoning(Reasoning { text: text.to_owned(), seal, ..Reasoning::default() })
}

fn signed(text: &str) -> Item {
    reasoning(text, Some(Seal::Signature("s".to_owned())))
}

#[test]
fn the_signature_of_a_call_reaches_any_service_and_other_members_anthropics_alone() {
    let google = json!({"google": {"thought_signature": "s"}});
    let extra = object(json!({"extra_content": google, "x": 1}));
    let call = || {
        let call = ToolCall { extra: extra.clone(), ..ToolCall::function("c", "f", "{}") };
        vec![Item::ToolCall(call)]
    };
    for (dialect, other) in [(OpenAi, None), (WithAnthropicMembers, Some(&json!(1)))] {
        let written = messages(Wire::Messages, call(), dialect);
        let written = &written[0]["tool_calls"][0];
        assert_eq!((written.get("extra_content"), written.get("x")), (Some(&google), other));
    }
}

#[test]
fn a_request_is_written_as_it_was_read() {
    let function =
        json!({"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true});
    let choice = json!({"type": "function", "function": {"name": "f"}});
    let allowed = json!({"mode": "auto", "tools": [choice]});
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let mark = json!({"type": "ephemeral"});
    for request in [
        json!({"messages": [{"role": "user", "content": "hi"}]}),
        json!({"messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "name": "Ann", "content": [
                {"type": "text", "text": "What is it?", "cache_control": mark},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
            ]},
            {"role": "assistant", "content": null, "thinking_blocks": [block],
             "reasoning_content": "Hm.", "tool_calls": [call_of("c1"), {
                "id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"},
                "extra_content": {"google": {}}, "cache_control": mark
            }]},
            {"role": "tool", "tool_call_id": "c1", "content": "1", "is_error": true},
            {"role": "tool", "tool_call_id": "c2", "content": "2", "cache_control": mark},
            {"role": "assistant", "content": "A cat.", "reasoning_content": "So.", "annotations": []},
            {"role": "assistant", "content": null, "refusal": "No."},
            {"role": "function", "name": "f", "content": "x"}
        ]}),
        json!({"messages": [], "stream": true, "max_tokens": 5, "user": "u"}),
        json!({"messages": [], "max_completion_tokens": 5, "safety_identifier": "s", "user": "u"}),
        json!({"messages": [], "temperature": 0.5, "top_p": 1, "top_k": 4, "stop": ["a", "b"],
            "parallel_tool_calls": true, "reasoning_effort": "low", "service_tier": "auto",
            "seed": 1, "stream_options": {"include_usage": true}, "n": 2,
            "thinking": {"type": "enabled", "budget_tokens": 5},
            "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}, "strict": true}}}),
        json!({"messages": [], "tools": [
            {"type": "function", "function": function, "cache_control": mark},
            {"type": "custom", "custom": {"name": "g"}}
        ], "tool_choice": "auto"}),
        json!({"messages": [], "tool_choice": choice}),
        json!({"messages": [], "tool_choice": {"type": "allowed_tools", "allowed_tools": allowed}}),
        json!({"messages": [], "tool_choice": {"type": "custom", "custom": {"name": "g"}}}),
    ] {
        let read = read_request(object(request.clone())).expect("a good request");
        assert_eq!(written(read, OpenAi), request);
    }
}

#[test]
fn items_of_the_model_become_one_message_and_results_follow_its_calls() {
    let found = messages(
        Wire::Messages,
        vec![
            text(Role::User, "a"),
            text(Role::Assistant, "b"),
            call("c1"),
            call("c2"),
            result("c2", "2"),
            text(Role::User, "d"),
            result("c1", "1"),
            result("lost", "3"),
            call("c1"),
            result("c1", "4"),
        ],
        OpenAi,
    );
    let tool = |id: &str, text: &str| json!({"role": "tool", "tool_call_id": id, "content": text});
    assert_eq!(
        found,
        json!([
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b", "tool_calls": [call_of("c1"), call_of("c2")]},
            tool("c1", "1"),
            tool("c2", "2"),
            {"role": "user", "content": "d"},
            tool("lost", "3"),
            {"role": "assistant", "content": null, "tool_calls": [call_of("c1")]},
            tool("c1", "4"),
        ])
    );
}

#[test]
fn content_after_content_begins_another_message_and_content_after_calls_does_not() {
    let found = messages(
        Wire::Responses,
        vec![
            text(Role::Assistant, "a"),
            text(Role::Assistant, "b"),
            signed("Hm."),
            call("c"),
            text(Role::Assistant, "d"),
            result("c", "1"),
        ],
        OpenAi,
    );
    assert_eq!(
        found,
        json!([
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "assistant", "content": "d", "reasoning_content": "Hm.",
             "thinking_blocks": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}],
             "tool_calls": [call_of("c")]},
            {"role": "tool", "tool_call_id": "c", "content": "1"},
        ])
    );
}

#[test]
fn messages_of_the_model_that_the_messages_api_joins_are_one() {
    let items = || vec![text(Role::Assistant, "a"), signed("Hm."), text(Role::Assistant, "b")];
    assert_eq!(
        messages(Wire::Messages, items(), OpenAi),
        json!([{"role": "assistant", "content": "ab"}])
    );
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    assert_eq!(
        messages(Wire::Messages, items(), WithAnthropicMembers),
        json!([
            {"role": "assistant", "content": "a"},
            {"role": "assistant", "content": "b", "thinking_blocks": [block]},
        ])
    );
}

#[test]
fn reasoning_is_sent_where_its_provider_needs_it() {
    let block = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let encrypted = Item::Reasoning(Reasoning {
        id: Some("rs_1".to_owned()),
        summary: vec!["So.".to_owned()],
        seal: Some(Seal::Encrypted("e".to_owned())),
        ..Reasoning::default()
    });
    let details = json!([
        {"type": "reasoning.summary", "summary": "So.", "id": "rs_1", "format": "openai-responses-v1", "index": 0},
        {"type": "reasoning.encrypted", "data": "e", "id": "rs_1", "format": "openai-responses-v1", "index": 1}
    ]);
    for (item, next, dialect, expected) in [
        (signed("Hm."), call("c"), WithAnthropicMembers, json!({"thinking_blocks": [block]})),
        (
            signed("Hm."),
            text(Role::Assistant, "a"),
            WithAnthropicMembers,
            json!({"thinking_blocks": [block]}),
        ),
        (signed("Hm."), call("c"), OpenAi, json!({"reasoning_content": "Hm."})),
        (signed("Hm."), text(Role::Assistant, "a"), OpenAi, json!({})),
        (reasoning("Hm.", None), call("c"), OpenAi, json!({"reasoning_content": "Hm."})),
        (reasoning("Hm.", None), text(Role::Assistant, "a"), OpenAi, json!({})),
        (
            encrypted.clone(),
            call("c"),
            OpenAi,
            json!({"reasoning_content": "So.", "reasoning_details": details}),
        ),
        (encrypted, text(Role::Assistant, "a"), OpenAi, json!({})),
    ] {
        let mut found =
            object(messages(Wire::Messages, vec![item.clone(), next], dialect)[0].take());
        found.retain(|name, _| !["role", "content", "tool_calls"].contains(&name.as_str()));
        assert_eq!(Value::from(found), expected, "{item:?} {dialect:?}");
    }
    assert_eq!(messages(Wire::Messages, vec![signed("Hm.")], WithAnthropicMembers), json!([]));
}

#[test]
fn members_of_anthropic_are_for_its_models_alone() {
    let mark = Some(json!({"type": "ephemeral"}));
    let part = Part {
        cache_control: mark.clone(),
        extra: object(json!({"citations": []})),
        ..Part::text("a")
    };
    let failed = ToolResult {
        is_error: Some(true),
        cache_control: mark,
        ..ToolResult::new("c", vec![Part::text("b"), Part::text("c")])
    };
    let items = vec![
        Item::Message(Message::new(Role::User, vec![part])),
        call("c"),
        Item::ToolResult(failed),
    ];
    let found = messages(Wire::Messages, items.clone(), OpenAi);
    assert_eq!(found[0], json!({"role": "user", "content": "a"}));
    assert_eq!(found[2], json!({"role": "tool", "tool_call_id": "c", "content": "b\n\nc"}));
    let found = messages(Wire::Messages, items.clone(), WithAnthropicMembers);
    assert_eq!(found[0]["content"][0]["cache_control"], json!({"type": "ephemeral"}));
    assert_eq!(found[0]["content"][0]["citations"], json!([]));
    assert_eq!(found[2]["is_error"], true);
    assert_eq!(found[2]["cache_control"], json!({"type": "ephemeral"}));
    let found = messages(Wire::Responses, items, WithAnthropicMembers);
    assert_eq!(found[2].get("is_error"), None);
}

#[test]
fn images_of_a_result_stay_in_it() {
    let media =
        crate::Media::Base64 { media_type: "image/png".to_owned(), data: "AAAA".to_owned() };
    let image = Part::new(Content::Image { media, detail: None });
    let parts = vec![Part::text("a"), image];
    let found = messages(
        Wire::Messages,
        vec![call("c"), Item::ToolResult(ToolResult::new("c", parts))],
        OpenAi,
    );
    assert_eq!(
        found[1]["content"],
        json!([
            {"type": "text", "text": "a"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        ])
    );
}

#[test]
fn a_limit_on_the_tokens_of_reasoning_has_a_form_for_every_provider() {
    for (tokens, effort) in [
        (1_024, "low"),
        (4_095, "low"),
        (4_096, "medium"),
        (16_383, "medium"),
        (16_384, "high"),
        (u64::MAX, "high"),
    ] {
        let mut request = conversation(Wire::Messages, Vec::new());
        request.settings.reasoning_tokens = Some(tokens);
        let found = written(request.clone(), OpenAi);
        assert_eq!(
            (&found["reasoning_effort"], found.get("thinking")),
            (&Value::from(effort), None)
        );
        let found = written(request, WithAnthropicMembers);
        assert_eq!(found["thinking"], json!({"type": "enabled", "budget_tokens": tokens}));
        assert_eq!(found.get("reasoning_effort"), None);
    }
}

#[test]
fn defaults_that_openai_refuses_without_tools_are_left_out() {
    for (wire, hint) in [(Wire::Responses, None), (Wire::Messages, Some("cache_control"))] {
        let mut request = conversation(wire, Vec::new());
        request.tool_choice = Some(ToolChoice::Auto);
        request.settings.parallel_tool_calls = Some(true);
        request.settings.max_output_tokens = Some(3);
        request.hints.extend(hint.map(|name| (name.to_owned(), 1.into())));
        assert_eq!(
            written(request, OpenAi),
            json!({"model": "m", "messages": [], "max_completion_tokens": 3})
        );
    }
}

#[test]
fn a_long_identifier_of_the_user_is_for_anthropic_alone() {
    for (length, dialect, is_sent) in [
        (MAX_USER, OpenAi, true),
        (MAX_USER + 1, OpenAi, false),
        (MAX_USER + 1, WithAnthropicMembers, true),
    ] {
        let mut request = conversation(Wire::Messages, Vec::new());
        request.settings.user = Some("u".repeat(length));
        assert_eq!(
            written(request, dialect).get("user").is_some(),
            is_sent,
            "{length} {dialect:?}"
        );
    }
}

#[test]
fn a_tool_without_a_type_and_a_document_for_anthropics_models_alone_are_refused_with_the_reason() {
    let native = |wire, value| NativeItem::new(wire, object(value));
    let mut tool = conversation(Wire::Responses, Vec::new());
    let search = native(Wire::Responses, json!({"google_search": {}}));
    tool.tools = vec![ToolDefinition::Native(search)];
    let refused = write_request(tool, OpenAi).expect_err("refused");
    assert_eq!((refused.code, &*refused.param), ("missing_required_parameter", "tools[0].type"));
    let document = native(Wire::Messages, json!({"type": "document", "context": "c"}));
    let part = Part::new(Content::Native(document));
    let message = Item::Message(Message::new(Role::User, vec![part]));
    let request = conversation(Wire::Messages, vec![message]);
    let refused = write_request(request, OpenAi).expect_err("refused");
    assert_eq!(refused.param, "messages");
    assert!(refused.message.contains("citations"), "{}", refused.message);
}

#[test]
fn members_of_the_messages_api_are_written_or_refused() {
    let with = |members: Value| Conversation {
        extra: object(members),
        ..conversation(Wire::Messages, Vec::new())
    };
    let members = json!({"inference_geo": "eu", "unknown": 1});
    let found = written(with(members), WithAnthropicMembers);
    assert_eq!((&found["inference_geo"], &found["unknown"]), (&json!("eu"), &json!(1)));
    for name in ["inference_geo", "web_search_options", "max_completion_tokens", "n", "unknown"] {
        let mut request = with(json!({}));
        request.extra.insert(name.to_owned(), 1.into());
        let refused = write_request(request, OpenAi).expect_err("refused");
        assert_eq!((refused.code, &*refused.param), ("unsupported_parameter", name));
    }
}

#[test]
fn items_tools_and_choices_of_another_api_are_refused_by_name() {
    let native = |wire| NativeItem::new(wire, object(json!({"type": "web_search_20250305"})));
    let mut tool = conversation(Wire::Messages, Vec::new());
    tool.tools = vec![ToolDefinition::Native(native(Wire::Messages))];
    let mut choice = conversation(Wire::Responses, Vec::new());
    choice.tool_choice = Some(ToolChoice::Native(native(Wire::Responses)));
    let item = conversation(Wire::Responses, vec![Item::Native(native(Wire::Responses))]);
    let block = conversation(Wire::Messages, vec![Item::Native(native(Wire::Messages))]);
    for (request, param) in [
        (tool, "tools[0].type"),
        (choice, "tool_choice.type"),
        (item, "input"),
        (block, "messages"),
    ] {
        let refused = write_request(request, WithAnthropicMembers).expect_err("refused");
        assert_eq!(refused.param, param);
        assert!(refused.message.contains("web_search_20250305"), "{refused}");
    }
}

#[test]
fn hints_of_the_messages_api_are_for_anthropics_models_alone() {
    let thinking = json!({"type": "enabled", "budget_tokens": 2_000, "display": "omitted"});
    for (dialect, expected) in [
        (OpenAi, json!({"reasoning_effort": "low"})),
        (WithAnthropicMembers, json!({"thinking": thinking, "betas": ["a"]})),
    ] {
        let mut request = conversation(Wire::Messages, Vec::new());
        request.settings.reasoning_tokens = Some(2_000);
        request.hints = object(json!({"thinking": thinking, "betas": ["a"]}));
        let mut written = object(written(request, dialect));
        written.retain(|name, _| name != "model" && name != "messages");
        assert_eq!(Value::from(written), expected);
    }
}
