//! Chunks of a chat completion: what they hold, their parts, and those of a whole response.

use serde_json::{Value, json};

use airlock_model::{
    Document, Object, Part,
    document::{choices, choices_mut, finish_reason, index_of},
};

/// Members of a delta that are text of the answer.
const TEXT: [&str; 3] = ["content", "refusal", "annotations"];

/// Iterates over the indices of the choices of a chunk.
pub(super) fn indices(chunk: &Object) -> impl Iterator<Item = u64> {
    choices(chunk).enumerate().map(|(position, choice)| index_of(choice, position))
}

/// Returns a call with its place in the stream.
pub(super) fn placed(call: &Object, place: u64) -> Value {
    let mut call = call.clone();
    call.insert("index".to_owned(), place.into());
    call.into()
}

pub(super) fn set_end(choice: &mut Object, reason: &str) {
    choice.insert("finish_reason".to_owned(), reason.into());
}

/// Splits a chunk that ends a choice: returns its deltas, and leaves the ends.
pub(super) fn take_text(chunk: &mut Document) -> Document {
    let mut text = chunk.object().clone();
    text.shift_remove("usage");
    choices_mut(&mut text).for_each(|choice| {
        choice.insert("finish_reason".to_owned(), Value::Null);
    });
    for choice in choices_mut(chunk.object_mut()) {
        choice.insert("delta".to_owned(), json!({}));
        choice.shift_remove("logprobs");
    }
    text.into()
}

/// Splits a chunk: returns its text, and leaves the rest.
pub(super) fn split_text(chunk: &mut Document) -> Document {
    let mut text = chunk.object().clone();
    text.shift_remove("usage");
    for choice in choices_mut(&mut text) {
        choice.insert("finish_reason".to_owned(), Value::Null);
        if let Some(Value::Object(delta)) = choice.get_mut("delta") {
            delta.retain(|name, _| TEXT.contains(&name.as_str()));
        }
    }
    for choice in choices_mut(chunk.object_mut()) {
        choice.shift_remove("logprobs");
        if let Some(Value::Object(delta)) = choice.get_mut("delta") {
            delta.retain(|name, _| !TEXT.contains(&name.as_str()));
        }
    }
    text.into()
}

/// Returns whether a chunk has text of the answer, or ends a message with it.
pub(super) fn has_text(chunk: &Document) -> bool {
    let is_message = matches!(chunk.part(), Some(Part::Item { item, .. }) if item.get("type").is_some_and(|kind| kind == "message"));
    is_message
        || choices(chunk.object()).any(|choice| {
            let delta = choice.get("delta").and_then(Value::as_object);
            delta.is_some_and(|delta| {
                TEXT.iter().filter_map(|name| delta.get(*name)).any(|text| !is_empty(text))
            })
        })
}

fn is_empty(value: &Value) -> bool {
    value.is_null() || value == ""
}

/// Returns whether a chunk has a piece of a call.
pub(super) fn has_calls(chunk: &Object) -> bool {
    choices(chunk)
        .any(|choice| choice.get("delta").is_some_and(|delta| delta.get("tool_calls").is_some()))
}

/// Returns whether a chunk ends a choice.
pub(super) fn is_end(chunk: &Object) -> bool {
    choices(chunk).any(|choice| finish_reason(choice).is_some())
}

/// Returns whether a chunk has the usage and no choice.
pub(super) fn is_usage(chunk: &Object) -> bool {
    choices(chunk).next().is_none() && chunk.get("usage").is_some_and(|usage| !usage.is_null())
}

/// Returns whether a chunk has something for the caller: a delta that is not empty, or members that
/// the gateway does not know.
pub(super) fn has_content(chunk: &Object) -> bool {
    let mut choices = choices(chunk).peekable();
    choices.peek().is_none()
        || choices.any(|choice| {
            let delta = choice.get("delta").and_then(Value::as_object);
            delta.is_some_and(|delta| delta.values().any(|value| !is_empty(value)))
                || choice.get("logprobs").is_some_and(|logprobs| !logprobs.is_null())
        })
}

/// Converts a whole response into chunks: one with the messages, one with the ends, and one with
/// the usage if it was asked for.
pub(super) fn from_whole(answer: &Object, includes_usage: bool) -> Vec<Object> {
    let head = answer.iter().filter(|(name, _)| !matches!(name.as_str(), "choices" | "usage"));
    let mut head: Object = head.map(|(name, value)| (name.clone(), value.clone())).collect();
    head.insert("object".to_owned(), "chat.completion.chunk".into());
    let messages = choices(answer).map(|choice| message_of(choice).into()).collect();
    let ends = choices(answer).map(|choice| end_of(choice).into()).collect();
    let mut chunks = vec![with_choices(&head, messages), with_choices(&head, ends)];
    if includes_usage && let Some(usage) = answer.get("usage") {
        let mut last = with_choices(&head, Vec::new());
        last.insert("usage".to_owned(), usage.clone());
        chunks.push(last);
    }
    chunks
}

fn with_choices(head: &Object, choices: Vec<Value>) -> Object {
    let mut chunk = head.clone();
    chunk.insert("choices".to_owned(), choices.into());
    chunk
}

/// Converts a choice of a whole response into one with the message and without the end.
fn message_of(choice: &Object) -> Object {
    choice
        .iter()
        .map(|(name, value)| match name.as_str() {
            "message" => ("delta".to_owned(), with_places(value)),
            "finish_reason" => (name.clone(), Value::Null),
            _ => (name.clone(), value.clone()),
        })
        .collect()
}

/// Converts a choice of a whole response into one with the end and without the message.
fn end_of(choice: &Object) -> Object {
    let rest = choice.iter().filter(|(name, _)| !matches!(name.as_str(), "message" | "logprobs"));
    let delta = ("delta".to_owned(), json!({}));
    rest.map(|(name, value)| (name.clone(), value.clone())).chain([delta]).collect()
}

/// Returns a message whose calls have their places.
fn with_places(message: &Value) -> Value {
    let mut delta = message.clone();
    let calls = delta.get_mut("tool_calls").and_then(Value::as_array_mut);
    for (index, call) in calls.into_iter().flatten().enumerate() {
        if let Some(object) = call.as_object() {
            *call = placed(object, index as u64);
        }
    }
    delta
}
