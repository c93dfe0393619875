//! Merges the chunks of a streamed response into the response that the same request gets without
//! streaming.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    Object,
    document::{choices, index_of},
};
use airlock_json::weight::{ITEM_BYTES, LIST_BYTES, MEMBER_BYTES, OBJECT_BYTES, weight};

/// Texts that are not joined, because servers send them once or repeat them. The first value that
/// is not empty stays.
const SENT_ONCE: [&str; 3] = ["role", "id", "type"];
/// Member of a chunk that the response does not have: padding that hides the length of the text.
const PADDING: &str = "obfuscation";
/// Types of content parts whose pieces are joined. Mistral streams them.
const JOINED_PARTS: [&str; 2] = ["text", "thinking"];

/// Memory of a choice without its parts, in bytes: the members that every choice and every message
/// has, or the first node of the map of choices.
const CHOICE_BYTES: usize = 2_048;
/// Memory of a response without its parts, in bytes.
const RESPONSE_BYTES: usize = 1_024;

/// A response that is being merged.
#[derive(Debug, Default)]
pub struct Merged {
    top: Object,
    choices: BTreeMap<u64, Choice>,
    /// Estimate of the memory of all parts.
    bytes: usize,
}

#[derive(Debug, Default)]
struct Choice {
    message: Object,
    /// Members beside the message, such as `finish_reason`.
    rest: Object,
}

impl Merged {
    /// Adds a chunk. Its calls must have an `index`, which counts from 0 without gaps.
    pub fn add(&mut self, chunk: &Object) {
        let top = chunk.iter().filter(|(name, _)| *name != "choices" && *name != PADDING);
        for (name, value) in top.filter(|(_, value)| !is_empty(value)) {
            if name == "usage" || !self.top.contains_key(name) {
                self.bytes += set(&mut self.top, name, value);
            }
        }
        for (position, sent) in choices(chunk).enumerate() {
            let choice = self.choices.entry(index_of(sent, position)).or_insert_with(|| {
                self.bytes += CHOICE_BYTES;
                Choice::default()
            });
            self.bytes += choice.add(sent);
        }
    }

    /// Returns an upper estimate of the memory that the response takes, in bytes.
    pub fn bytes(&self) -> usize {
        RESPONSE_BYTES + self.bytes
    }

    /// Returns the response.
    pub fn finish(mut self) -> Object {
        self.top.insert("object".to_owned(), "chat.completion".into());
        let choices = self.choices.into_iter().map(|(index, choice)| choice.finish(index));
        let choices: Vec<Value> = choices.map(Value::Object).collect();
        // `choices` come before `usage`, as in a response that was not streamed.
        let usage = self.top.shift_remove("usage");
        self.top.insert("choices".to_owned(), choices.into());
        self.top.extend(usage.map(|usage| ("usage".to_owned(), usage)));
        self.top
    }
}

impl Choice {
    /// Adds the choice of a chunk. Returns the memory that it takes.
    fn add(&mut self, sent: &Object) -> usize {
        let added = sent.iter().map(|(name, value)| match (name.as_str(), value) {
            ("delta", Value::Object(delta)) => merge(&mut self.message, delta),
            // A `message` beside the deltas repeats them (Perplexity).
            ("index" | "delta" | "message", _) | (_, Value::Null) => 0,
            ("logprobs", _) => merge_member(&mut self.rest, name, value),
            ("finish_reason", _) if is_empty(value) => 0,
            _ => set(&mut self.rest, name, value),
        });
        added.sum()
    }

    fn finish(mut self, index: u64) -> Object {
        self.message.entry("role").or_insert_with(|| "assistant".into());
        for name in ["content", "refusal"] {
            self.message.entry(name).or_insert(Value::Null);
        }
        for name in ["logprobs", "finish_reason"] {
            self.rest.entry(name).or_insert(Value::Null);
        }
        if let Some(Value::Array(calls)) = self.message.get_mut("tool_calls") {
            for call in calls.iter_mut().filter_map(Value::as_object_mut) {
                call.shift_remove("index");
            }
        }
        let mut out = Object::from_iter([
            ("index".to_owned(), index.into()),
            ("message".to_owned(), self.message.into()),
        ]);
        out.extend(self.rest);
        out
    }
}

/// Adds the members of `more`: texts and lists are appended, objects are merged, and other values
/// replace the earlier one. Null changes nothing. Returns the memory that is added.
fn merge(sum: &mut Map<String, Value>, more: &Map<String, Value>) -> usize {
    more.iter().map(|(name, value)| merge_member(sum, name, value)).sum()
}

fn merge_member(sum: &mut Map<String, Value>, name: &str, value: &Value) -> usize {
    match (sum.get_mut(name), value) {
        (_, Value::Null) => 0,
        (Some(Value::String(sum)), Value::String(more)) => {
            // A piece of a name that equals the name so far repeats it (NIM); another continues it
            // (Gemini).
            let is_repeated = SENT_ONCE.contains(&name) || (name == "name" && sum == more);
            if is_repeated && !sum.is_empty() {
                return 0;
            }
            sum.push_str(more);
            more.len() * 2
        }
        (Some(Value::Object(sum)), Value::Object(more)) => merge(sum, more),
        (Some(Value::Array(sum)), Value::Array(more)) => merge_list(sum, name, more),
        (Some(old @ Value::String(_)), Value::Array(more)) if name == "content" => {
            let text = old.take();
            let mut items = Vec::new();
            let bytes = if is_empty(&text) { 0 } else { push(&mut items, &text_part(&text)) };
            let bytes = bytes + merge_list(&mut items, name, more);
            *old = items.into();
            bytes + LIST_BYTES
        }
        (Some(Value::Array(sum)), Value::String(text)) if name == "content" => {
            if text.is_empty() {
                0
            } else {
                merge_list(sum, name, &[text_part(value)])
            }
        }
        (None, Value::Object(more)) => {
            let mut new = Object::new();
            let bytes = merge(&mut new, more);
            sum.insert(name.to_owned(), new.into());
            bytes + OBJECT_BYTES + MEMBER_BYTES + name.len()
        }
        (None, Value::Array(more)) => {
            let mut items = Vec::new();
            let bytes = merge_list(&mut items, name, more);
            sum.insert(name.to_owned(), items.into());
            bytes + LIST_BYTES + MEMBER_BYTES + name.len()
        }
        // Calls may have been shown to the caller already, so another type does not replace them.
        (Some(Value::Array(_)), _) if name == "tool_calls" => 0,
        (_, value) => set(sum, name, value),
    }
}

/// Adds the items of a list. Calls are merged by index, pieces of a content's last part are joined,
/// and all other items are appended.
fn merge_list(items: &mut Vec<Value>, name: &str, more: &[Value]) -> usize {
    let added = more.iter().map(|item| {
        let old = match name {
            "tool_calls" => call_at(items, item),
            "content" => items.last_mut().filter(|old| is_continued(old, item)),
            _ => None,
        };
        match (old, item) {
            (Some(Value::Object(old)), Value::Object(more)) if name == "content" => {
                more.iter().map(|(name, value)| merge_part_member(old, name, value)).sum()
            }
            (Some(Value::Object(old)), Value::Object(more)) => merge(old, more),
            _ => push(items, item),
        }
    });
    added.sum()
}

/// Finds the call that a delta continues. The index of a call is its place.
fn call_at<'a>(items: &'a mut [Value], delta: &Value) -> Option<&'a mut Value> {
    let index = usize::try_from(delta.get("index")?.as_u64()?).ok()?;
    items.get_mut(index)
}

/// Returns whether a part of a content continues the last one.
fn is_continued(last: &Value, part: &Value) -> bool {
    let found = kind(part);
    found.is_some_and(|found| JOINED_PARTS.contains(&found) && kind(last) == Some(found))
}

fn kind(part: &Value) -> Option<&str> {
    part.get("type").and_then(Value::as_str)
}

/// Merges a member of a part: the text is joined, `thinking` is a list of parts, and of the others
/// the last value stays.
fn merge_part_member(part: &mut Object, name: &str, value: &Value) -> usize {
    match (name, part.get_mut(name), value) {
        ("text", _, Value::String(_)) => merge_member(part, name, value),
        ("thinking", Some(Value::Array(sum)), Value::Array(more)) => {
            merge_list(sum, "content", more)
        }
        _ => set(part, name, value),
    }
}

/// Sets a member. Returns the memory that is added.
fn set(object: &mut Object, name: &str, value: &Value) -> usize {
    let bytes = weight(value);
    if let Some(old) = object.get_mut(name) {
        let added = bytes.saturating_sub(weight(old));
        *old = value.clone();
        return added;
    }
    object.insert(name.to_owned(), value.clone());
    bytes + MEMBER_BYTES + name.len()
}

/// Appends an item. Returns the memory that is added.
fn push(items: &mut Vec<Value>, item: &Value) -> usize {
    items.push(item.clone());
    weight(item) + ITEM_BYTES
}

fn text_part(text: &Value) -> Value {
    json!({"type": "text", "text": text})
}

/// Returns whether a value is null, an empty text or 0. Azure's first chunk has an empty id and the
/// time 0.
fn is_empty(value: &Value) -> bool {
    value.is_null() || value == "" || value == 0
}

#[cfg(test)]
mod tests {
    use std::iter;

    use super::*;
    use crate::object;

    fn merged(chunks: &[Value]) -> Value {
        let mut merged = Merged::default();
        for chunk in chunks {
            merged.add(&object(chunk.clone()));
        }
        merged.finish().into()
    }

    #[test]
    fn texts_are_joined_and_the_last_usage_and_finish_reason_count() {
        let answer = merged(&[
            json!({"id": "a", "object": "chat.completion.chunk", "model": null, "usage": null,
                   "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}),
            json!({"id": "a", "model": "m", "usage": {"total_tokens": 1},
                   "choices": [{"index": 0, "delta": {"content": "He", "reasoning_content": "x"}, "logprobs": {"content": [1]}}]}),
            json!({"id": "a", "x": 7, "choices": [{"delta": {"content": "y", "reasoning_content": null, "role": "assistant"},
                   "logprobs": {"content": [2]}, "finish_reason": "stop"}]}),
            json!({"choices": [], "usage": {"total_tokens": 2}}),
        ]);
        assert_eq!(
            answer,
            json!({"id": "a", "object": "chat.completion", "model": "m", "x": 7,
                   "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hey", "reasoning_content": "x", "refusal": null},
                                "finish_reason": "stop", "logprobs": {"content": [1, 2]}}],
                   "usage": {"total_tokens": 2}})
        );
    }

    fn call(index: u64, name: &str, arguments: &str) -> Value {
        json!({"index": index, "id": format!("c{index}"), "function": {"name": name, "arguments": arguments}})
    }

    #[test]
    fn interleaved_calls_and_choices_are_merged_by_their_index() {
        let answer = merged(&[
            json!({"choices": [{"index": 1, "delta": {"content": "b"}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call(0, "x", "{")]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [call(1, "y", "["), call(0, "x", "}")]}}]}),
            json!({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "function": {"arguments": "]"}}]}}]}),
        ]);
        assert_eq!(
            answer["choices"],
            json!([
                {"index": 0, "message": {"tool_calls": [{"id": "c0", "function": {"name": "x", "arguments": "{}"}},
                                                        {"id": "c1", "function": {"name": "y", "arguments": "[]"}}],
                                         "role": "assistant", "content": null, "refusal": null},
                 "finish_reason": null, "logprobs": null},
                {"index": 1, "message": {"content": "b", "role": "assistant", "refusal": null},
                 "finish_reason": null, "logprobs": null},
            ])
        );
    }

    #[test]
    fn a_message_beside_the_deltas_is_not_merged_and_calls_are_never_replaced() {
        let call = json!({"index": 0, "id": "a", "function": {"name": "x", "arguments": "{}"}});
        let answer = merged(&[
            json!({"choices": [{"delta": {"content": "Hi", "tool_calls": [call]}}]}),
            json!({"choices": [{"delta": {"tool_calls": "x"}, "message": {"content": "Hi", "tool_calls": [call]}}]}),
        ]);
        let message = &answer["choices"][0]["message"];
        assert_eq!(
            (&message["content"], message["tool_calls"].as_array().map(Vec::len)),
            (&json!("Hi"), Some(1))
        );
    }

    #[test]
    fn names_are_charged_and_a_replaced_value_is_charged_once() {
        let mut merged = Merged::default();
        merged.add(&object(json!({"x".repeat(10_000): 1})));
        assert!(merged.bytes() > 10_000);
        let before = merged.bytes();
        for tokens in 0..1_000 {
            merged.add(&object(json!({"usage": {"total_tokens": tokens}})));
        }
        assert!(merged.bytes() < before + 1_000, "{}", merged.bytes());
    }

    /// Memory that a value owns with the least capacity that its collections can have.
    fn owned(value: &Value) -> usize {
        match value {
            Value::String(text) => text.capacity(),
            Value::Array(items) => {
                items.capacity() * size_of::<Value>() + items.iter().map(owned).sum::<usize>()
            }
            Value::Object(members) => {
                // The capacity of a hash table of 4 buckets, or of 8 and its doubles.
                let mut sizes = iter::once(3).chain((0..).map(|doubled| 7 << doubled));
                let entries = sizes.find(|size| *size >= members.len());
                let entries = if members.is_empty() { 0 } else { entries.unwrap_or_default() };
                entries * size_of::<(u64, String, Value)>()
                    + members.iter().map(|(name, value)| name.len() + owned(value)).sum::<usize>()
            }
            _ => 0,
        }
    }

    fn many(count: usize) -> Object {
        (0..count).map(|at| (format!("m{at}"), json!({"a": [{"b": "c"}]}))).collect()
    }

    #[test]
    fn the_estimate_is_at_least_the_memory_of_the_response() {
        for chunks in [
            vec![json!({})],
            vec![json!({"a": [0], "b": {"c": [{}]}, "d": ""}); 3],
            vec![many(50).into(), many(99).into()],
            vec![json!({"choices": [{}, {}, {"index": 9}]})],
            vec![json!({"choices": [{"delta": {"x": [""], "y": {}}, "z": {"a": [0]}}]}); 9],
            vec![json!({"choices": [{"delta": {"content": "a"}}]}); 99],
            vec![
                json!({"choices": [{"delta": {"content": "a", "x": {}, "y": []}}]}),
                json!({"choices": [{"delta": {"content": [{"type": "text", "text": "b"}], "x": many(9), "y": [0]}}]}),
                json!({"choices": [{"delta": {"content": "c", "x": 1, "y": {}}, "logprobs": {"content": [{}]}}]}),
            ],
        ] {
            let mut merged = Merged::default();
            for chunk in &chunks {
                merged.add(&object(chunk.clone()));
            }
            let estimate = merged.bytes();
            let bytes = owned(&merged.finish().into());
            assert!(bytes <= estimate, "{bytes} bytes, {estimate} estimated: {chunks:?}");
        }
    }

    #[test]
    fn a_value_that_is_replaced_by_every_chunk_is_counted_once() {
        let usage = json!({"usage": {"total_tokens": 1}, "choices": [{"x": {"a": [1, 2]}}]});
        let [once, often] = [1, 100].map(|count| {
            let mut merged = Merged::default();
            for _ in 0..count {
                merged.add(&object(usage.clone()));
            }
            merged.bytes()
        });
        assert_eq!(once, often);
    }
}
