//! Reasoning items.

use serde_json::{Value, json};

use super::{
    super::reasoning::ReasoningState,
    events::ResponseEvents,
    item::{ItemSlot, ItemStatus, Items},
};
use airlock_conversation::Object;
use airlock_json::object;

/// A reasoning item that is being written. One of a chat completion has one part with the model's
/// own text, and no summary. One of the Responses API has the parts that its provider sends.
#[derive(Debug)]
pub(super) struct Reasoning {
    slot: ItemSlot,
    /// Identifier that the provider gave the item.
    native_id: Option<String>,
    text: String,
    summaries: Vec<String>,
    /// The provider's number of the summary that is being written.
    summary: Option<u64>,
    state: ReasoningState,
}

impl Reasoning {
    pub(super) fn open(items: &mut Items, events: &mut ResponseEvents<'_>) -> Self {
        let members = members("in_progress", Vec::new(), &Value::Null);
        Self::new(items.open("rs", members, events), None)
    }

    /// Opens an item of a provider that has the Responses API.
    pub(super) fn open_native(
        id: &str,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) -> Self {
        let members = members("in_progress", Vec::new(), &Value::Null);
        Self::new(items.open_native(id, "rs", members, events), Some(id.to_owned()))
    }

    fn new(slot: ItemSlot, native_id: Option<String>) -> Self {
        let text = String::new();
        let summaries = Vec::new();
        Self { slot, native_id, text, summaries, summary: None, state: ReasoningState::default() }
    }

    /// Returns whether this is the provider's item with this identifier.
    pub(super) fn is_native(&self, id: &str) -> bool {
        self.native_id.as_deref() == Some(id)
    }

    /// Adds state that the model needs back.
    pub(super) fn add_state(&mut self, name: &str, list: Vec<Value>) {
        self.state.add(name, list);
    }

    /// Adds text of the model's own reasoning.
    pub(super) fn add_text(&mut self, text: &str, events: &mut ResponseEvents<'_>) {
        if text.is_empty() {
            return;
        }
        if self.text.is_empty() {
            let added = [("content_index", 0.into()), ("part", part("reasoning_text", ""))];
            events.write_item("response.content_part.added", &self.slot, added);
        }
        self.text.push_str(text);
        let delta = [("content_index", 0.into()), ("delta", text.into())];
        events.write_item("response.reasoning_text.delta", &self.slot, delta);
    }

    /// Adds a piece of a summary. `number` is the provider's; here they count from 0.
    pub(super) fn add_summary(&mut self, number: u64, text: &str, events: &mut ResponseEvents<'_>) {
        if self.summary != Some(number) {
            self.close_summary(events);
            self.summary = Some(number);
            self.summaries.push(String::new());
            let added = [self.summary_index(), ("part", part("summary_text", ""))];
            events.write_item("response.reasoning_summary_part.added", &self.slot, added);
        }
        if let Some(summary) = self.summaries.last_mut() {
            summary.push_str(text);
        }
        let delta = [self.summary_index(), ("delta", text.into())];
        events.write_item("response.reasoning_summary_text.delta", &self.slot, delta);
    }

    /// Ends the item.
    pub(super) fn close(
        mut self,
        status: ItemStatus,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        self.close_parts(events);
        let content = (!self.text.is_empty()).then(|| part("reasoning_text", &self.text));
        let state = self.state.into_encrypted_content();
        let mut members = members(status.as_str(), content.into_iter().collect(), &state);
        let summaries = self.summaries.iter().map(|text| part("summary_text", text));
        members.insert("summary".to_owned(), summaries.collect());
        items.close(&self.slot, members, events);
    }

    /// Ends the item with the one that its provider sent.
    pub(super) fn close_with(
        mut self,
        item: &Object,
        items: &mut Items,
        events: &mut ResponseEvents<'_>,
    ) {
        self.close_parts(events);
        let members = item.iter().filter(|(name, _)| *name != "id");
        let members = members.map(|(name, value)| (name.clone(), value.clone()));
        items.close(&self.slot, members, events);
    }

    fn close_parts(&mut self, events: &mut ResponseEvents<'_>) {
        self.close_summary(events);
        if !self.text.is_empty() {
            let done = [("content_index", 0.into()), ("text", self.text.as_str().into())];
            events.write_item("response.reasoning_text.done", &self.slot, done);
            let done = [("content_index", 0.into()), ("part", part("reasoning_text", &self.text))];
            events.write_item("response.content_part.done", &self.slot, done);
        }
    }

    fn close_summary(&mut self, events: &mut ResponseEvents<'_>) {
        if self.summary.take().is_none() {
            return;
        }
        let Some(text) = self.summaries.last() else { return };
        let done = [self.summary_index(), ("text", text.as_str().into())];
        events.write_item("response.reasoning_summary_text.done", &self.slot, done);
        let done = [self.summary_index(), ("part", part("summary_text", text))];
        events.write_item("response.reasoning_summary_part.done", &self.slot, done);
    }

    fn summary_index(&self) -> (&'static str, Value) {
        ("summary_index", self.summaries.len().saturating_sub(1).into())
    }
}

fn part(kind: &str, text: &str) -> Value {
    json!({"type": kind, "text": text})
}

fn members(status: &str, content: Vec<Value>, state: &Value) -> Object {
    let mut members = object(json!({"type": "reasoning", "status": status, "summary": []}));
    members.insert("content".to_owned(), content.into());
    members.insert("encrypted_content".to_owned(), state.clone());
    members
}
