//! State of reasoning.
//!
//! Some providers send members that must be returned unchanged in the next request: Anthropic's signed
//! `thinking_blocks`, and `OpenRouter`'s `reasoning_details`. They become `encrypted_content`, the member
//! for state that clients return without reading it.

use serde_json::Value;

use airlock_conversation::Object;

/// Members of a message, each a list, that the model needs back unchanged.
const STATE: [&str; 2] = ["thinking_blocks", "reasoning_details"];

/// Returns whether a member is state that the model needs back.
pub(super) fn is_state(name: &str) -> bool {
    STATE.contains(&name)
}

/// State that the model needs back, collected from deltas.
#[derive(Debug, Default)]
pub(super) struct ReasoningState(Object);

impl ReasoningState {
    /// Appends a piece of a member.
    pub(super) fn add(&mut self, name: &str, mut more: Vec<Value>) {
        let list = self.0.entry(name).or_insert_with(|| Value::Array(Vec::new()));
        if let Value::Array(list) = list {
            list.append(&mut more);
        }
    }

    /// Returns the state as `encrypted_content`.
    pub(super) fn into_encrypted_content(self) -> Value {
        if self.0.is_empty() { Value::Null } else { Value::Object(self.0).to_string().into() }
    }
}
