use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    Document, MemoryBudget, Object,
    document::{choices, finish_reason, index_of},
};
use airlock_json::Caps;

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
        assert!(Outline::of_chunk(text).is_none(), "{text}");
    }
    let hidden =
        r#"{"choices":[{"d\u0065lta":{"tool\u005fcalls":[{}]},"finish_re\u0061son":"\u0073top"}]}"#;
    let outline = Outline::of_chunk(hidden).expect("an outline");
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
        assert!(Outline::of_chunk(&chunk(&choice)).is_none(), "{choice}");
    }
    assert!(Outline::of_chunk(r#"{"choices":[],"choices":[{}]}"#).is_none());
    assert!(Outline::of_chunk(r#"{"choices":7}"#).is_none());
    assert!(Outline::of_whole(r#"{"id":"a"}"#).is_none(), "there are no choices");
}

#[test]
fn more_choices_than_are_accepted_need_a_tree_which_is_charged() {
    for (choices, has_outline) in [(MAX_CHOICES, true), (MAX_CHOICES + 1, false)] {
        let text = json!({"choices": vec![json!({}); choices]}).to_string();
        assert_eq!(Outline::of_chunk(&text).is_some(), has_outline, "{choices}");
        assert_eq!(Outline::of_whole(&text).is_some(), has_outline, "{choices}");
    }
}

#[test]
fn a_member_that_is_null_or_empty_says_nothing() {
    let choice =
        json!({"index": null, "finish_reason": "", "delta": {"tool_calls": []}, "message": null});
    let outline = Outline::of_chunk(&chunk(&choice)).expect("an outline");
    assert!(!outline.has_calls() && !outline.has_end());
    assert_eq!(outline.choices[0].index, 0);
}

#[test]
fn a_call_in_a_whole_reply_is_found() {
    for (calls, has_calls) in [(json!([]), false), (json!([1]), true), (Value::Null, false)] {
        let text = chunk(&json!({"message": {"content": "airlock", "tool_calls": calls}}));
        assert_eq!(Outline::of_whole(&text).map(|outline| outline.has_calls()), Some(has_calls));
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

proptest! {
    #[test]
    fn an_outline_agrees_with_the_tree(list in prop::collection::vec(json_values(), 0..3), other in json_values()) {
        let text = json!({"choices": list, "x": other}).to_string();
        let held = MemoryBudget::unlimited().charge();
        let document = Document::read(text.clone(), &Caps::memory(1 << 20), &held).expect("an object");
        for outline in [Outline::of_chunk(&text), Outline::of_whole(&text)].into_iter().flatten() {
            let tree: Vec<&Object> = choices(document.object()).collect();
            prop_assert_eq!(tree.len(), outline.choices.len());
            for (position, (tree, outline)) in tree.into_iter().zip(&outline.choices).enumerate() {
                prop_assert_eq!(index_of(tree, position), outline.index);
                prop_assert_eq!(finish_reason(tree).is_some(), outline.has_ended);
                let calls = ["delta", "message"].into_iter().filter_map(|name| tree.get(name)?.get("tool_calls")?.as_array());
                prop_assert_eq!(calls.into_iter().any(|calls| !calls.is_empty()), outline.has_calls);
            }
        }
    }
}
