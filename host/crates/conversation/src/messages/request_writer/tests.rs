mod round_trip;

use airlock_json::object;
use proptest::prelude::*;
use serde_json::json;

use super::{settings::DEFAULT_MAX_TOKENS, *};
use crate::chat;

/// Translates a chat request with these members beside a model and a message.
pub(super) fn translate(members: Value) -> Result<Value, Untranslatable> {
    let mut chat = object(json!({
        "model": "claude-opus-4-6", "messages": [{"role": "user", "content": "hi"}]
    }));
    chat.extend(object(members));
    chat::read_request(chat).and_then(write_request).map(Value::from)
}

/// Returns the members of a translated request beside those that every request has.
fn members(members: Value) -> Value {
    let mut body = object(translate(members).expect("a good request"));
    for name in ["model", "messages"] {
        body.shift_remove(name).expect("every request has it");
    }
    if body.get("max_tokens").is_some_and(|tokens| *tokens == DEFAULT_MAX_TOKENS) {
        body.shift_remove("max_tokens");
    }
    body.into()
}

#[test]
fn a_request_becomes_the_body_of_a_message() {
    let tool =
        json!({"type": "function", "function": {"name": "get", "parameters": {"type": "object"}}});
    let body = translate(json!({
        "stream": true, "stream_options": {"include_usage": true}, "top_p": 0.5, "tools": [tool],
        "tool_choice": "required", "parallel_tool_calls": false,
        "messages": [
            {"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}
        ]
    }));
    assert_eq!(
        body.expect("a good request"),
        json!({
            "model": "claude-opus-4-6", "max_tokens": DEFAULT_MAX_TOKENS, "stream": true, "top_p": 0.5,
            "system": [{"type": "text", "text": "Be kind."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
            "tools": [{"name": "get", "input_schema": {"type": "object"}}],
            "tool_choice": {"type": "any", "disable_parallel_tool_use": true}
        })
    );
}

#[test]
fn each_member_with_a_counterpart_is_translated() {
    let schema = json!({"type": "object", "properties": {}});
    let format = json!({"type": "json_schema", "json_schema": {
        "name": "n", "strict": true, "description": "An answer.", "schema": schema
    }});
    for (chat, body) in [
        (json!({"max_completion_tokens": 5}), json!({"max_tokens": 5})),
        (json!({"max_tokens": 5}), json!({"max_tokens": 5})),
        (json!({"max_tokens": 5, "max_completion_tokens": 5}), json!({"max_tokens": 5})),
        (json!({"stop": "a"}), json!({"stop_sequences": ["a"]})),
        (json!({"stop": ["a", "b"]}), json!({"stop_sequences": ["a", "b"]})),
        (json!({"stream": false}), json!({})),
        (json!({"temperature": 1.0, "top_p": 0.1}), json!({"temperature": 1.0, "top_p": 0.1})),
        (json!({"reasoning_effort": "minimal"}), json!({"output_config": {"effort": "low"}})),
        (json!({"reasoning_effort": "xhigh"}), json!({"output_config": {"effort": "xhigh"}})),
        (json!({"reasoning_effort": "none"}), json!({"thinking": {"type": "disabled"}})),
        (json!({"response_format": {"type": "text"}}), json!({})),
        (
            json!({"response_format": format, "reasoning_effort": "high"}),
            json!({"output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {
                "type": "object", "properties": {}, "description": "An answer."
            }}}}),
        ),
        (json!({"user": "u"}), json!({"metadata": {"user_id": "u"}})),
        (json!({"user": "u", "safety_identifier": "s"}), json!({"metadata": {"user_id": "s"}})),
        (
            json!({"user": "u", "metadata": {"user_id": "own"}}),
            json!({"metadata": {"user_id": "own"}}),
        ),
        (json!({"service_tier": "auto"}), json!({"service_tier": "auto"})),
        (json!({"service_tier": "default"}), json!({"service_tier": "standard_only"})),
    ] {
        assert_eq!(members(chat.clone()), body, "{chat}");
    }
}

#[test]
fn hints_nulls_and_defaults_are_dropped() {
    let hints = json!({
        "stream_options": {"include_usage": true}, "seed": 7, "prediction": {"type": "content"},
        "prompt_cache_key": "k", "prompt_cache_options": {"mode": "implicit"},
        "prompt_cache_retention": "24h"
    });
    assert_eq!(members(hints), json!({}));
    let defaults = json!({
        "n": 1, "logprobs": false, "top_logprobs": 0, "logit_bias": {}, "frequency_penalty": 0,
        "presence_penalty": 0.0, "modalities": ["text"], "audio": null, "store": false,
        "verbosity": "medium", "moderation": null, "functions": [], "function_call": null,
        "web_search_options": null, "mcp_servers": null, "tools": null, "tool_choice": null,
        "stop": null, "temperature": null, "max_tokens": null, "response_format": null,
        "reasoning_effort": null, "stream": null, "user": null, "service_tier": null
    });
    assert_eq!(members(defaults), json!({}));
}

#[test]
fn members_of_anthropics_own_and_unknown_ones_pass_through() {
    let own = json!({
        "thinking": {"type": "adaptive", "display": "summarized"}, "top_k": 5,
        "stop_sequences": ["x"], "container": "c", "metadata": {"user_id": "u", "other": 1},
        "system": [{"type": "text", "text": "s"}], "cache_control": {"type": "ephemeral"},
        "output_config": {"effort": "max"}, "betas": ["b"], "speed": "fast", "unknown": {"a": [1]}
    });
    assert_eq!(members(own.clone()), own);
}

#[test]
fn a_member_that_cannot_be_expressed_is_refused_by_name() {
    for (chat, param) in [
        (json!({"messages": null}), "messages"),
        (json!({"n": 2}), "n"),
        (json!({"n": "1"}), "n"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"top_logprobs": 2}), "top_logprobs"),
        (json!({"logit_bias": {"50256": -100}}), "logit_bias"),
        (json!({"frequency_penalty": 0.5}), "frequency_penalty"),
        (json!({"presence_penalty": -1}), "presence_penalty"),
        (json!({"modalities": ["text", "audio"]}), "modalities"),
        (json!({"audio": {"voice": "alloy", "format": "wav"}}), "audio"),
        (json!({"store": true}), "store"),
        (json!({"verbosity": "low"}), "verbosity"),
        (json!({"moderation": {"model": "m"}}), "moderation"),
        (json!({"functions": [{"name": "f"}]}), "functions"),
        (json!({"function_call": "auto"}), "function_call"),
        (json!({"web_search_options": {}}), "web_search_options"),
        (json!({"mcp_servers": []}), "mcp_servers"),
        (json!({"max_tokens": 1, "max_completion_tokens": 2}), "max_tokens"),
        (json!({"max_completion_tokens": -1}), "max_completion_tokens"),
        (json!({"max_tokens": "5"}), "max_tokens"),
        (json!({"stop": 1}), "stop"),
        (json!({"stop": ["a", 1]}), "stop[1]"),
        (json!({"stop": "a", "stop_sequences": ["b"]}), "stop"),
        (json!({"user": 1}), "user"),
        (json!({"user": "u", "metadata": "m"}), "metadata"),
        (json!({"reasoning_effort": "extreme"}), "reasoning_effort"),
        (json!({"reasoning_effort": "none", "thinking": {"type": "adaptive"}}), "reasoning_effort"),
        (
            json!({"reasoning_effort": "low", "output_config": {"effort": "max"}}),
            "reasoning_effort",
        ),
        (json!({"reasoning_effort": "low", "output_config": 1}), "output_config"),
        (json!({"response_format": {"type": "json_object"}}), "response_format.type"),
        (json!({"response_format": "text"}), "response_format.type"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema"),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}}),
            "response_format.json_schema.schema",
        ),
        (
            json!({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
                   "output_config": {"format": {}}}),
            "response_format",
        ),
        (json!({"service_tier": "flex"}), "service_tier"),
        (json!({"temperature": 1.5}), "temperature"),
        (json!({"temperature": "hot"}), "temperature"),
        (json!({"stream": "yes"}), "stream"),
        (json!({"tools": {}}), "tools"),
        (
            json!({"system": 1, "messages": [{"role": "system", "content": "s"},
                {"role": "user", "content": "hi"}]}),
            "system",
        ),
    ] {
        assert_eq!(translate(chat.clone()).expect_err("refused").param, param, "{chat}");
    }
}

#[test]
fn the_default_of_max_tokens_leaves_room_for_the_budget_of_thinking() {
    // The provider judges the largest budget.
    for (budget, expected) in [(30_000, DEFAULT_MAX_TOKENS + 30_000), (u64::MAX, u64::MAX)] {
        let request = json!({"thinking": {"type": "enabled", "budget_tokens": budget}});
        let body = translate(request).expect("a good request");
        assert_eq!(body["max_tokens"], expected);
    }
}

#[test]
fn the_callers_own_system_prompt_comes_before_system_messages() {
    for system in [json!("own"), json!([{"type": "text", "text": "own"}])] {
        let body = translate(json!({"system": system, "messages": [
            {"role": "user", "content": "hi"}, {"role": "system", "content": "later"}
        ]}));
        assert_eq!(
            body.expect("a good request")["system"],
            json!([{"type": "text", "text": "own"}, {"type": "text", "text": "later"}])
        );
    }
}

/// A message and the texts in it.
fn message() -> impl Strategy<Value = (Value, Vec<String>)> {
    let text = "[a-z][0-9]{12}";
    let plain = (prop::sample::select(vec!["system", "developer", "user", "assistant"]), text)
        .prop_map(|(role, text)| (json!({"role": role, "content": text}), vec![text]));
    let parts = (prop::sample::select(vec!["system", "user", "assistant"]), text, text).prop_map(
        |(role, one, two)| {
            let content = [&one, &two].map(|text| json!({"type": "text", "text": text}));
            (json!({"role": role, "content": content}), vec![one, two])
        },
    );
    let calls = (text, text, text, text).prop_map(|(text, id, name, argument)| {
        let function = json!({"name": name, "arguments": json!({"a": argument}).to_string()});
        let call = json!({"id": id, "type": "function", "function": function});
        let message = json!({"role": "assistant", "content": text, "tool_calls": [call]});
        (message, vec![text, id, name, argument])
    });
    let broken = (text, text, text).prop_map(|(id, name, arguments)| {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"id": id, "type": "function", "function": function});
        (json!({"role": "assistant", "tool_calls": [call]}), vec![id, name, arguments])
    });
    let thinking = (text, text).prop_map(|(thought, signature)| {
        let block = json!({"type": "thinking", "thinking": thought, "signature": signature});
        let message =
            json!({"role": "assistant", "reasoning_content": thought, "thinking_blocks": [block]});
        (message, vec![thought, signature])
    });
    let result = (text, text).prop_map(|(id, text)| {
        (json!({"role": "tool", "tool_call_id": id, "content": text}), vec![id, text])
    });
    prop_oneof![plain, parts, calls, broken, thinking, result]
}

proptest! {
    #[test]
    fn every_text_of_a_request_is_in_its_translation_exactly_once_and_roles_alternate(
        messages in prop::collection::vec(message(), 1..12)
    ) {
        let (mut messages, texts): (Vec<_>, Vec<_>) = messages.into_iter().unzip();
        messages.push(json!({"role": "user", "content": "last"}));
        let body = translate(json!({"messages": messages})).expect("a good request");
        let translated = body.to_string();
        for text in texts.concat() {
            prop_assert_eq!(translated.matches(&text).count(), 1, "{}", text);
        }
        let turns = body["messages"].as_array().expect("a list");
        prop_assert!(turns.iter().is_sorted_by(|one, next| one["role"] != next["role"]));
    }
}
