//! Settings and members of a request.

use serde_json::Number;

use super::*;
use crate::ReplyFormat;

#[test]
fn settings_become_the_generation_config() {
    let settings = Settings {
        stream: true,
        max_output_tokens: Some(5),
        temperature: Number::from_f64(0.5),
        top_p: Number::from_f64(0.9),
        top_k: Some(40),
        stop: vec!["a".to_owned()],
        parallel_tool_calls: Some(true),
        user: Some("u".to_owned()),
        service_tier: Some("default".to_owned()),
        ..Settings::default()
    };
    let extra = json!({
        "n": 2, "presence_penalty": 0.5, "frequency_penalty": -1, "logprobs": true, "top_logprobs": 3
    });
    let conversation = Conversation {
        settings,
        extra: object(extra),
        hints: object(json!({"seed": 7, "stream_options": {}, "user": "u"})),
        ..with_items(NEW, vec![user("hi")])
    };
    let mut body = write_request(conversation).expect("a good request");
    body.shift_remove("contents");
    assert_eq!(
        Value::from(body),
        json!({
            "generationConfig": {
                "candidateCount": 2, "seed": 7, "presencePenalty": 0.5, "frequencyPenalty": -1,
                "logprobs": 3, "responseLogprobs": true, "maxOutputTokens": 5, "temperature": 0.5,
                "topP": 0.9, "topK": 40, "stopSequences": ["a"]
            },
            "serviceTier": "standard"
        })
    );
}

fn thinking(model: &str, effort: &str, reasoning_tokens: Option<u64>) -> Value {
    let effort = Some(effort.to_owned());
    let settings = Settings { effort, reasoning_tokens, ..Settings::default() };
    let body = members_for(model, settings, json!({})).expect("a good request");
    body["generationConfig"]["thinkingConfig"].clone()
}

#[test]
fn an_effort_is_a_level_for_gemini_3_and_a_budget_for_older_models() {
    for (effort, level, budget) in [
        ("minimal", "MINIMAL", 1_024),
        ("low", "LOW", 1_024),
        ("medium", "MEDIUM", 8_192),
        ("high", "HIGH", 24_576),
        ("xhigh", "HIGH", 24_576),
    ] {
        let new = json!({"thinkingLevel": level, "includeThoughts": true});
        assert_eq!(thinking(NEW, effort, None), new, "{effort}");
        let old = json!({"thinkingBudget": budget, "includeThoughts": true});
        assert_eq!(thinking(OLD, effort, None), old, "{effort}");
    }
    for model in [NEW, OLD] {
        assert_eq!(thinking(model, "none", None), json!({"thinkingBudget": 0}));
        assert_eq!(
            thinking(model, "high", Some(500)),
            json!({"thinkingBudget": 500, "includeThoughts": true})
        );
    }
}

fn with_format(format: ReplyFormat) -> Settings {
    Settings { format: Some(format), ..Settings::default() }
}

fn with_schema(schema: Option<Value>) -> Settings {
    with_format(ReplyFormat::Schema {
        name: "n".to_owned(),
        description: Some("An answer.".to_owned()),
        schema,
        strict: Some(true),
    })
}

#[test]
fn a_format_is_a_media_type_and_a_json_schema() {
    assert_eq!(members(with_format(ReplyFormat::Text), json!({})), Ok(json!({})));
    assert_eq!(
        members(with_format(ReplyFormat::Json), json!({})),
        Ok(json!({"generationConfig": {"responseMimeType": "application/json"}}))
    );
    assert_eq!(
        members(with_schema(Some(json!({"type": "object"}))), json!({})),
        Ok(json!({"generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": {"type": "object", "description": "An answer."}
        }}))
    );
    let error = members(with_schema(None), json!({})).expect_err("no schema");
    assert_eq!(error.param, "response_format.json_schema.schema");
}

#[test]
fn hints_nulls_and_defaults_are_dropped() {
    let extra = json!({
        "stream_options": {"include_usage": true}, "metadata": {"a": "b"},
        "prediction": {"type": "content"}, "prompt_cache_key": "k",
        "prompt_cache_options": {}, "prompt_cache_retention": "24h", "logit_bias": {},
        "modalities": ["text"], "audio": null, "store": false, "verbosity": "medium",
        "functions": [], "function_call": null, "web_search_options": null, "unknown": null, "n": 1,
        "logprobs": false, "top_logprobs": 0, "presence_penalty": 0, "frequency_penalty": 0.0
    });
    assert_eq!(members(Settings::default(), extra), Ok(json!({})));
}

#[test]
fn members_of_geminis_own_and_unknown_ones_pass_through() {
    let own = json!({
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
        "labels": {"a": "b"}, "unknown": {"a": [1]},
        "generationConfig": {"mediaResolution": "MEDIA_RESOLUTION_LOW"}
    });
    assert_eq!(members(Settings::default(), own.clone()), Ok(own));
    let settings = Settings { top_k: Some(1), ..Settings::default() };
    assert_eq!(
        members(settings, json!({"generation_config": {"seed": 2}})),
        Ok(json!({"generationConfig": {"seed": 2, "topK": 1}}))
    );
}

fn with_tier(tier: &str) -> Settings {
    Settings { service_tier: Some(tier.to_owned()), ..Settings::default() }
}

#[test]
fn a_member_that_cannot_be_expressed_is_refused_by_name() {
    let default = Settings::default;
    for (settings, extra, param) in [
        (default(), json!({"logit_bias": {"1": 2}}), "logit_bias"),
        (default(), json!({"modalities": ["audio"]}), "modalities"),
        (default(), json!({"audio": {}}), "audio"),
        (default(), json!({"store": true}), "store"),
        (default(), json!({"verbosity": "low"}), "verbosity"),
        (default(), json!({"moderation": {}}), "moderation"),
        (default(), json!({"functions": [{}]}), "functions"),
        (default(), json!({"function_call": "auto"}), "function_call"),
        (default(), json!({"web_search_options": {}}), "web_search_options"),
        (default(), json!({"mcp_servers": []}), "mcp_servers"),
        (default(), json!({"contents": []}), "contents"),
        (default(), json!({"system_instruction": {}}), "system_instruction"),
        (default(), json!({"cachedContent": "cachedContents/c"}), "cachedContent"),
        (default(), json!({"cached_content": "cachedContents/c"}), "cached_content"),
        (default(), json!({"n": 2, "generationConfig": {"candidateCount": 3}}), "n"),
        (default(), json!({"n": 2, "generationConfig": 1}), "generationConfig"),
        (default(), json!({"generationConfig": {}, "generation_config": {}}), "generation_config"),
        (with_tier("scale"), json!({}), "service_tier"),
        (with_tier("flex"), json!({"serviceTier": "standard"}), "service_tier"),
        (
            Settings { effort: Some("extreme".to_owned()), ..default() },
            json!({}),
            "reasoning_effort",
        ),
        (
            Settings { effort: Some("low".to_owned()), ..default() },
            json!({"generationConfig": {"thinkingConfig": {}}}),
            "reasoning_effort",
        ),
    ] {
        let error = members(settings, extra.clone()).expect_err(param);
        assert_eq!(error.param, param, "{extra}: {error}");
    }
    let conversation = Conversation {
        tools: vec![tool("get", None)],
        settings: Settings { parallel_tool_calls: Some(false), ..default() },
        ..with_items(NEW, vec![user("hi")])
    };
    assert_eq!(write_request(conversation).expect_err("refused").param, "parallel_tool_calls");
    let alone = Settings { parallel_tool_calls: Some(false), ..default() };
    assert_eq!(members(alone, json!({})), Ok(json!({})));
    let conversation = Conversation {
        tools: vec![tool("get", None)],
        tool_choice: Some(ToolChoice::Auto),
        extra: object(json!({"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}})),
        ..with_items(NEW, vec![user("hi")])
    };
    assert_eq!(write_request(conversation).expect_err("refused").param, "tool_choice");
}
