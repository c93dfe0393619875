mod input;
mod refusals;
mod settings;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{Item, chat::ChatDialect};
use airlock_json::object;

/// Reads a request, and writes it as one of chat completions.
fn translated(request: Value, places: &[ItemPlace]) -> Result<Object, Untranslatable> {
    let conversation = read_request(object(request), places)?;
    crate::chat::write_request(conversation, ChatDialect::OpenAi)
}

/// Translates a request.
fn chat(request: Value) -> Object {
    translated(request, &[]).expect("the request can be translated")
}

/// Reads a request that must be refused.
fn refusal(request: Value) -> Untranslatable {
    translated(request, &[]).expect_err("the request cannot be translated")
}

/// Translates input items into messages.
fn messages(input: Value) -> Value {
    let request =
        Object::from_iter([("model".to_owned(), "m".into()), ("input".to_owned(), input)]);
    chat(request.into())["messages"].take()
}

/// A request with members beside the required ones.
fn request(members: Value) -> Value {
    let mut request = object(json!({"model": "m", "input": "hi"}));
    request.extend(object(members));
    request.into()
}

#[test]
fn an_error_names_the_place_in_the_list_of_the_caller() {
    let item = |index: usize| match index {
        2 => json!({"type": "compaction", "encrypted_content": "x"}),
        _ => json!({"role": "user", "content": "x"}),
    };
    let input: Vec<Value> = (0..3).map(item).collect();
    for (place, param) in
        [(ItemPlace::listed(7), "input[7].type"), (ItemPlace::Stored, "previous_response_id")]
    {
        let places = [ItemPlace::Stored, ItemPlace::listed(0), place];
        let error = translated(json!({"model": "m", "input": input}), &places);
        let error = error.expect_err("the item has no counterpart");
        assert_eq!((error.param.as_str(), error.code), (param, "invalid_value"));
        assert!(error.message.contains("'compaction'"), "{error}");
    }
}

#[test]
fn items_have_the_places_in_which_they_were_read() {
    let input = json!([
        {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
        {"role": "assistant", "content": "x"},
        {"type": "function_call_output", "call_id": "a", "output": "A"},
    ]);
    let request = json!({"model": "m", "instructions": "i", "input": input});
    let read = read_request(object(request), &[]).expect("a good request");
    let listed = [0, 1, 2].map(ItemPlace::listed);
    assert_eq!(read.places[0], ItemPlace::Instructions);
    assert_eq!(read.places[1..], listed);
    assert!(matches!(read.items[3], Item::ToolResult(_)));
}

/// Any JSON, with names and types that the reader knows.
fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z{\"é😀]{0,4}".prop_map(Value::from),
        proptest::sample::select(WORDS).prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let member = (proptest::sample::select(NAMES), inner.clone());
        prop_oneof![
            prop::collection::vec(inner, 0..6).prop_map(Value::from),
            prop::collection::vec(member, 0..6).prop_map(|members| {
                members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }),
        ]
    })
}

const WORDS: &[&str] = &[
    "message",
    "reasoning",
    "function_call",
    "function_call_output",
    "custom_tool_call",
    "function",
    "custom",
    "allowed_tools",
    "user",
    "assistant",
    "input_text",
    "input_image",
    "output_text",
];

const NAMES: &[&str] = &[
    "input",
    "tools",
    "tool_choice",
    "text",
    "format",
    "reasoning",
    "include",
    "metadata",
    "type",
    "role",
    "content",
    "id",
    "call_id",
    "name",
    "arguments",
    "output",
    "summary",
    "encrypted_content",
    "store",
    "truncation",
    "stream_options",
    "max_output_tokens",
    "\u{e9}",
];

proptest! {
    #[test]
    fn every_request_is_translated_or_refused_with_the_name_of_a_member(
        members in prop::collection::vec((proptest::sample::select(NAMES), json_value()), 0..8),
        items in prop::collection::vec(json_value(), 0..4),
    ) {
        let mut request = object(json!({"model": "m", "input": items}));
        request.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
        match translated(request.into(), &[ItemPlace::Stored]) {
            Ok(chat) => prop_assert!(chat["messages"].is_array()),
            Err(error) => prop_assert!(!error.param.is_empty() && !error.message.is_empty()),
        }
    }
}
