use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Document,
    document::{choices, finish_reason, index_of},
    work::counted,
};
use airlock_conversation::{MAX_CHOICES, Object, chat};
use airlock_core::{
    memory::MemoryBudget,
    model_calls::EXTENSION,
    model_control::{ServiceTier, TokenUsage},
};
use airlock_json::{self as json, Caps};

/// Returns the outline of a chunk, whose text is JSON.
pub(super) fn of_chunk(text: &str) -> Option<Outline> {
    reader(text).into_chunk()
}

/// Returns the outline of a whole reply, whose text is JSON.
fn of_whole(text: &str) -> Option<Outline> {
    reader(text).into_whole()
}

fn reader(text: &str) -> OutlineReader {
    let mut reader = OutlineReader::default();
    json::check_with(text.as_bytes(), &Caps::memory(1 << 20), &mut reader).expect("it is JSON");
    reader
}

fn chunk(choice: &Value) -> String {
    json!({"id": "a", "object": "chat.completion.chunk", "choices": [choice]}).to_string()
}

#[test]
fn an_escape_hides_no_member() {
    for text in [
        r#"{"choices":[],"airlock":null}"#,
        r#"{"choices":[],"\u0061irlock":{"calls":[]}}"#,
        r#"{"choices":[],"error":"x"}"#,
        r#"{"choices":[],"err\u006fr":{"message":"x"}}"#,
        r#"{"object":"err\u006fr","message":"x"}"#,
        r#"{"choices":[{"delta":{},"m\u0065ssage":{}}]}"#,
    ] {
        assert!(of_chunk(text).is_none(), "{text}");
    }
    let hidden =
        r#"{"choices":[{"d\u0065lta":{"tool\u005fcalls":[{}]},"finish_re\u0061son":"\u0073top"}]}"#;
    let outline = of_chunk(hidden).expect("an outline");
    assert!(outline.has_calls() && outline.has_end());
}

#[test]
fn a_member_that_is_repeated_or_of_another_type_needs_a_tree() {
    for choice in [
        json!({"index": -1}),
        json!({"index": "0"}),
        json!({"finish_reason": 1}),
        json!({"delta": []}),
        json!({"delta": {"tool_calls": {}}}),
        json!([]),
    ] {
        assert!(of_chunk(&chunk(&choice)).is_none(), "{choice}");
    }
    assert!(of_chunk(r#"{"choices":[],"choices":[{}]}"#).is_none());
    assert!(of_chunk(r#"{"choices":7}"#).is_none());
    assert!(of_whole(r#"{"id":"a"}"#).is_none(), "there are no choices");
}

#[test]
fn more_choices_than_are_accepted_need_a_tree_which_is_charged() {
    for (choices, has_outline) in [(MAX_CHOICES, true), (MAX_CHOICES + 1, false)] {
        let text = json!({"choices": vec![json!({}); choices]}).to_string();
        assert_eq!(of_chunk(&text).is_some(), has_outline, "{choices}");
        assert_eq!(of_whole(&text).is_some(), has_outline, "{choices}");
    }
}

#[test]
fn a_member_that_is_null_or_empty_says_nothing() {
    let choice =
        json!({"index": null, "finish_reason": "", "delta": {"tool_calls": []}, "message": null});
    let outline = of_chunk(&chunk(&choice)).expect("an outline");
    assert!(!outline.has_calls() && !outline.has_end());
    assert_eq!(outline.choices[0].index, 0);
}

#[test]
fn a_call_in_a_whole_reply_is_found() {
    for (calls, has_calls) in [(json!([]), false), (json!([1]), true), (Value::Null, false)] {
        let text = chunk(&json!({"message": {"content": "airlock", "tool_calls": calls}}));
        assert_eq!(of_whole(&text).map(|outline| outline.has_calls()), Some(has_calls));
    }
}

#[test]
fn members_count_at_their_places_alone() {
    let outline = of_whole(
        r#"{"x": {"choices": [{"error": 1}], "airlock": 1}, "choices": [
            {"x": [{"finish_reason": "stop"}], "message": {"content": [{"tool_calls": [1]}], "tool_calls": []}, "index": 3},
            {"message": {"tool_calls": [[], {"index": 7}]}, "logprobs": {"index": 8}, "finish_reason": "tool_calls"},
            {}
        ], "usage": {"prompt_tokens_details": {"a": {"cached_tokens": 1}, "cached_tokens": 2}, "prompt_tokens": 7}}"#,
    );
    let Outline { choices, usage, .. } = outline.expect("an outline");
    let read: Vec<_> =
        choices.iter().map(|choice| (choice.index, choice.has_ended, choice.has_calls)).collect();
    assert_eq!(read, [(3, false, false), (1, true, true), (2, false, false)]);
    let tokens = TokenUsage { input: 7, cached_input: 2, output: 0, reasoning: 0 };
    assert_eq!(usage, UsageMember::Present(Some(tokens)));
}

#[test]
fn the_tier_of_a_reply_is_that_of_its_own_member() {
    for (text, tier) in [
        (r#"{"choices":[]}"#, None),
        (r#"{"choices":[],"service_tier":null}"#, None),
        (r#"{"choices":[],"service_tier":["flex"]}"#, None),
        (r#"{"choices":[{"service_tier":"flex"}]}"#, None),
        (r#"{"choices":[],"service_tier":"priority"}"#, Some(ServiceTier::Priority)),
        (r#"{"service\u005ftier":"fl\u0065x","choices":[]}"#, Some(ServiceTier::Flex)),
        (
            r#"{"choices":[],"service_tier":"flex","service_tier":"default"}"#,
            Some(ServiceTier::Standard),
        ),
    ] {
        assert_eq!(of_chunk(text).expect("an outline").tier, tier, "{text}");
        let caps = Caps::memory(1 << 20);
        let held = MemoryBudget::unlimited().charge();
        let read = Document::read(text.to_owned(), &caps, &held).expect("an object");
        assert_eq!(read.tier(), tier, "the tree of {text}");
    }
}

#[test]
fn of_two_details_the_last_one_counts() {
    for (details, cached_input) in
        [(r#"{"cached_tokens":3}"#, 3), ("{}", 0), ("null", 0), ("[2]", 0), ("2", 0)]
    {
        let tokens = TokenUsage { input: 7, cached_input, output: 0, reasoning: 0 };
        let first = r#""prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":2}"#;
        let text =
            format!(r#"{{"choices":[],"usage":{{{first},"prompt_tokens_details":{details}}}}}"#);
        let usage = of_chunk(&text).expect("an outline").usage;
        assert_eq!(usage, UsageMember::Present(Some(tokens)), "{details}");
    }
}

/// JSON whose members are likely those of the API.
fn json_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        Just(json!("")),
        Just(json!("error")),
        Just(json!("stop")),
        (0..3_u64).prop_map(Value::from),
    ];
    let name = prop::sample::select(vec![
        "choices",
        "index",
        "delta",
        "message",
        "tool_calls",
        "finish_reason",
        "error",
        "object",
        "airlock",
        "content",
    ]);
    leaf.prop_recursive(5, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec((name.clone(), inner), 0..4).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect::<Object>()
                    .into()
            }),
        ]
    })
}

/// JSON text of an object whose names are likely those of the API, with escapes, and may be repeated.
fn object_texts() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec![
        "null",
        r#""""#,
        r#""err\u006fr""#,
        r#""\u0073top""#,
        r#""\\\"}]""#,
        "true",
        "0",
        "-0",
        "7",
        "7.0",
        "7e0",
        "-7",
        "18446744073709551615",
        "18446744073709551616",
        "[]",
        "{}",
    ]);
    let value = leaf.prop_map(str::to_owned).prop_recursive(5, 48, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            list.prop_map(|values| format!("[ {} ]", values.join(" ,"))),
            members(inner.clone(), 0..5),
            choice_texts(inner),
        ]
    });
    members(value, 0..6)
}

/// JSON text of an object with members of these values.
fn members(
    value: impl Strategy<Value = String>,
    count: std::ops::Range<usize>,
) -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "choices",
        "ch\\u006fices",
        "Choices",
        "index",
        "delta",
        "message",
        "tool_calls",
        "tool\\u005fcalls",
        "finish_reason",
        "error",
        "object",
        "airlock",
        "\\u0061irlock",
        "usage",
        "prompt_tokens",
        "completion_tokens",
        "prompt_tokens_details",
        "cached_tokens",
        "content",
        "",
    ]);
    prop::collection::vec((name, value), count).prop_map(|members| {
        let members = members.iter().map(|(name, value)| format!("\"{name}\" :{value}"));
        format!("{{ {}\n}}", members.collect::<Vec<_>>().join(", "))
    })
}

/// JSON text of choices, as a reply has them, with this value in some places.
fn choice_texts(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let form = prop::sample::select(vec![
        r#"[{"delta":{"tool_calls":VALUE}}]"#,
        r#"[{"d\u0065lta":{"content":VALUE},"finish_reason":"stop"}]"#,
        r#"[{},{"index":3,"message":VALUE}]"#,
        r#"[{"finish_reason":VALUE,"delta":{"tool_calls":[]}}]"#,
    ]);
    (form, value).prop_map(|(form, value)| form.replace("VALUE", &value))
}

/// Checks that an outline has what a tree has that is acted on.
fn check_agrees(outline: &Outline, tree: &Object) {
    assert!(tree.get("error").is_none_or(Value::is_null), "it would be relayed");
    assert!(!tree.contains_key(EXTENSION), "it would be relayed");
    assert_ne!(tree.get("object"), Some(&json!("error")), "it would be relayed");
    let expected = match tree.get("usage") {
        None => UsageMember::Absent,
        Some(Value::Null) => UsageMember::Null,
        Some(usage) => {
            let usage = usage.as_object().cloned().map(chat::read_usage);
            UsageMember::Present(usage.and_then(|usage| counted(&usage)))
        }
    };
    assert_eq!(outline.usage, expected);
    let found: Vec<&Object> = choices(tree).collect();
    assert_eq!(found.len(), outline.choices.len());
    for (position, (tree, outline)) in found.into_iter().zip(&outline.choices).enumerate() {
        assert_eq!(index_of(tree, position), outline.index);
        assert_eq!(finish_reason(tree).is_some(), outline.has_ended);
        let messages = ["delta", "message"].into_iter().filter_map(|name| tree.get(name));
        let mut calls = messages.filter_map(|message| message.get("tool_calls")?.as_array());
        assert_eq!(calls.any(|calls| !calls.is_empty()), outline.has_calls);
    }
}

proptest! {
    #[test]
    fn an_outline_agrees_with_the_tree(list in prop::collection::vec(json_values(), 0..3), other in json_values()) {
        let text = json!({"choices": list, "x": other}).to_string();
        let tree: Object = serde_json::from_str(&text).expect("an object");
        for outline in [of_chunk(&text), of_whole(&text)].into_iter().flatten() {
            check_agrees(&outline, &tree);
        }
    }

    #[test]
    fn an_outline_of_text_with_escapes_and_repeated_names_agrees_with_the_tree(text in object_texts()) {
        let tree: Object = serde_json::from_str(&text).expect("an object");
        for outline in [of_chunk(&text), of_whole(&text)].into_iter().flatten() {
            check_agrees(&outline, &tree);
        }
    }
}
