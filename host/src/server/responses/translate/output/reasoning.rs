//! Reasoning items.

use serde_json::{Value, json};

use super::{
    super::reasoning::State,
    events::Events,
    item::{Items, Slot, Status},
};
use crate::model::{Object, object};

/// A reasoning item that is being written. It has one part with the model's own text, and no
/// summary.
#[derive(Debug)]
pub(super) struct Reasoning {
    slot: Slot,
    text: String,
    state: State,
}

impl Reasoning {
    pub(super) fn open(items: &mut Items, events: &mut Events<'_>) -> Self {
        let members = members("in_progress", Vec::new(), &Value::Null);
        let slot = items.open("rs", members, events);
        Self { slot, text: String::new(), state: State::default() }
    }

    /// Adds a delta, with its text and its state.
    pub(super) fn add(&mut self, text: &str, delta: &Object, events: &mut Events<'_>) {
        self.state.add(delta);
        if text.is_empty() {
            return;
        }
        if self.text.is_empty() {
            let added = [("content_index", 0.into()), ("part", part(""))];
            events.write_item("response.content_part.added", &self.slot, added);
        }
        self.text.push_str(text);
        let delta = [("content_index", 0.into()), ("delta", text.into())];
        events.write_item("response.reasoning_text.delta", &self.slot, delta);
    }

    /// Ends the item.
    pub(super) fn close(self, status: Status, items: &mut Items, events: &mut Events<'_>) {
        let mut content = Vec::new();
        if !self.text.is_empty() {
            let part = part(&self.text);
            let done = [("content_index", 0.into()), ("text", self.text.into())];
            events.write_item("response.reasoning_text.done", &self.slot, done);
            let done = [("content_index", 0.into()), ("part", part.clone())];
            events.write_item("response.content_part.done", &self.slot, done);
            content.push(part);
        }
        let state = self.state.into_encrypted_content();
        items.close(&self.slot, members(status.as_str(), content, &state), events);
    }
}

fn part(text: &str) -> Value {
    json!({"type": "reasoning_text", "text": text})
}

fn members(status: &str, content: Vec<Value>, state: &Value) -> Object {
    let mut members = object(json!({"type": "reasoning", "status": status, "summary": []}));
    members.insert("content".to_owned(), content.into());
    members.insert("encrypted_content".to_owned(), state.clone());
    members
}
