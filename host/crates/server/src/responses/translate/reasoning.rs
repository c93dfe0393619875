//! Reasoning of a delta.
//!
//! Chat completions have no standard for reasoning. Common servers send its text as
//! `reasoning_content` or `reasoning`, which becomes the `reasoning_text` of a reasoning item. Some
//! also send members that must be returned unchanged in the next request: Anthropic's signed
//! `thinking_blocks`, and `OpenRouter`'s `reasoning_details`. They become `encrypted_content`, the
//! member for state that clients return without reading it.

use serde_json::Value;

use airlock_model::Object;

/// Members of a delta with the text of the reasoning, the most common one first.
const TEXT: [&str; 2] = ["reasoning_content", "reasoning"];
/// Members of a delta, each a list, that the model needs back unchanged.
const STATE: [&str; 2] = ["thinking_blocks", "reasoning_details"];

/// Returns the reasoning text of a delta. A server that sends both members sends the same text
/// twice.
pub(super) fn text(delta: &Object) -> Option<&str> {
    TEXT.iter().find_map(|name| delta.get(*name)?.as_str().filter(|text| !text.is_empty()))
}

/// State that the model needs back, collected from deltas.
#[derive(Debug, Default)]
pub(super) struct State(Object);

impl State {
    /// Returns whether a delta has any state.
    pub(super) fn is_in(delta: &Object) -> bool {
        STATE.iter().any(|name| {
            delta.get(*name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
        })
    }

    /// Appends the state of a delta.
    pub(super) fn add(&mut self, delta: &Object) {
        for name in STATE {
            if let Some(Value::Array(more)) = delta.get(name) {
                let list = self.0.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.extend(more.iter().cloned());
                }
            }
        }
    }

    /// Returns the state as `encrypted_content`.
    pub(super) fn into_encrypted_content(self) -> Value {
        if self.0.is_empty() { Value::Null } else { Value::Object(self.0).to_string().into() }
    }
}
