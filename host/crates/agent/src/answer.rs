//! A response of the model, and its form if calls are pending: with the results of others as text in some
//! cases, and with a note if it has no text.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
};

use serde_json::Value;

use super::{
    names::CallableNames,
    round::{PendingCall, PendingReason},
};
use crate::recall::note::{self, CallerInterface};
use airlock_conversation::{
    Choice, Content, Delta, FinishReason, Item, Message, Object, Part, Reply, Role, chat,
};
use airlock_core::memory::Charge;
use airlock_json::{self as json, weight::object_weight};
use airlock_model::{ChatForm, Document, ReplyChunk};

/// Bytes of an item in a conversation, beside its texts.
const ITEM_BYTES: usize = 64;

/// A response of the model.
#[derive(Debug, Default)]
pub struct Answer {
    /// The reply. Empty if the exact form was not read.
    pub reply: Reply,
    /// The chat completion that says the same, as it came; `None` if there is none.
    exact: Option<Document>,
    /// Output items of the Responses API, as they came, by their place.
    items: BTreeMap<u64, Object>,
    /// The memory of the reply, unless the exact form has it.
    held: Option<Charge>,
}

impl Answer {
    /// Creates the answer of a response that was not streamed.
    pub(super) fn new(whole: ReplyChunk) -> Self {
        let (deltas, exact, held) = whole.into_parts();
        let mut this = Self { exact, held, ..Self::default() };
        for delta in deltas {
            this.add(delta);
        }
        this
    }

    /// Adds a piece.
    pub(super) fn add(&mut self, delta: Delta) {
        match delta {
            Delta::ItemEnd { index, item, .. } => drop(self.items.insert(index, item)),
            delta => self.reply.add(delta),
        }
    }

    /// Returns the tokens in the form of chat completions; `None` if they were not counted.
    pub(super) fn usage(&self) -> Option<Value> {
        match &self.exact {
            Some(exact) if self.reply.choices.is_empty() => exact.usage().map(Cow::into_owned),
            _ => self.reply.usage.clone().map(|usage| chat::write_usage(usage).into()),
        }
    }

    /// Removes the exact form, because the reply is changed. Its memory stays held.
    pub(super) fn drop_exact(&mut self) {
        if let Some(exact) = self.exact.take() {
            self.held = self.held.take().or(exact.into_charge());
        }
    }

    /// Removes unknown members that repeat calls of the gateway's tools, because the caller may take these for
    /// its own.
    pub(super) fn remove_repeated_calls(&mut self, names: &CallableNames) {
        let mut is_changed = names.remove_calls(&mut self.reply.begin.extra);
        for choice in self.reply.choices.values_mut() {
            is_changed |= names.remove_calls(&mut choice.extra);
            let before = choice.members.len();
            choice.members.retain(|(_, name, value)| {
                matches!(name.as_str(), "tool_calls" | "logprobs")
                    || !names.is_call_member(name, value)
            });
            is_changed |= choice.members.len() < before;
        }
        if is_changed {
            self.drop_exact();
        }
    }

    /// Returns the chat completion: as it came, or with the description of the calls.
    pub fn into_chat(self, airlock: Option<Object>) -> Document {
        let Self { reply, exact, .. } = self;
        exact.unwrap_or_else(|| ChatForm::whole(reply, airlock).into())
    }

    /// Takes the output items of the Responses API, in their order.
    pub(super) fn take_items(&mut self) -> Vec<Object> {
        std::mem::take(&mut self.items).into_values().collect()
    }

    /// Takes the reply.
    pub(super) fn take_reply(&mut self) -> Reply {
        std::mem::take(&mut self.reply)
    }

    /// Returns the memory that the response takes as items of a conversation, in bytes.
    pub(super) fn item_bytes(&self) -> usize {
        let items = self.reply.choices.values().flat_map(|choice| &choice.items).map(Item::bytes);
        let native = self.items.values().map(object_weight);
        items.chain(native).fold(0, usize::saturating_add)
    }

    /// Returns the bytes that the response takes in a conversation.
    pub fn bytes(&self) -> usize {
        let items = self.reply.choices.values().flat_map(|choice| &choice.items).map(text_bytes);
        let native = self.items.values().map(json::text_len);
        items.chain(native).fold(0, usize::saturating_add)
    }
}

fn text_bytes(item: &Item) -> usize {
    let texts = match item {
        Item::Message(message) => message.parts.iter().map(part_bytes).sum(),
        Item::Reasoning(reasoning) => reasoning.bytes(),
        Item::ToolCall(call) => {
            call.id.len() + call.name.len() + call.input.text().len() + json::text_len(&call.extra)
        }
        Item::ToolResult(_) | Item::Native(_) => 0,
    };
    ITEM_BYTES + texts
}

fn part_bytes(part: &Part) -> usize {
    match &part.content {
        Content::Text(text) | Content::Refusal(text) => text.len(),
        _ => 0,
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, ..Self::default() }
    }
}

/// Result of a call that was run.
pub(super) struct ToolResult<'r> {
    pub(super) tool: &'r str,
    pub(super) tool_call_id: &'r str,
    pub(super) text: &'r str,
}

/// Replaces the choices by one choice with the [`summary`] of the results and the pending calls. Its end is
/// that of calls, because agents depend on it.
pub(super) fn mix(reply: &mut Reply, summary: String, pending: &[PendingCall]) {
    let text = Message::new(Role::Assistant, vec![Part::text(summary)]);
    let calls = pending.iter().map(|pending| Item::ToolCall(pending.call.item.clone()));
    let mut choice = Choice::default();
    choice.items = [Item::Message(text)].into_iter().chain(calls).collect();
    choice.finish = Some(FinishReason::ToolCalls);
    choice.extra = reply.choices.remove(&0).map(|first| first.extra).unwrap_or_default();
    reply.choices = BTreeMap::from([(0, choice)]);
}

/// Removes the calls that were run from the choices, whose texts stay as they are. A choice ends for calls if
/// some are left.
pub(super) fn remove_ended(reply: &mut Reply, pending: &[PendingCall]) {
    let left: BTreeSet<&str> = pending.iter().map(|pending| pending.call.id.as_str()).collect();
    for choice in reply.choices.values_mut() {
        let before = calls_of(choice);
        choice.items.retain(|item| match item {
            Item::ToolCall(call) => left.contains(call.id.as_str()),
            _ => true,
        });
        if before > 0 {
            let has_calls = calls_of(choice) > 0;
            let reason = if has_calls { FinishReason::ToolCalls } else { FinishReason::Stop };
            choice.finish = Some(reason);
        }
    }
}

fn calls_of(choice: &Choice) -> usize {
    choice.items.iter().filter(|item| matches!(item, Item::ToolCall(_))).count()
}

/// Returns a text for an answer that has none, because all of its calls wait for an approval, or its
/// one call is a script that does: a chat program that knows no tools would show nothing. `None` for
/// any other answer.
pub(super) fn approval_note(
    reply: &Reply,
    pending: &[PendingCall],
    interface: CallerInterface,
) -> Option<String> {
    if pending.is_empty() || has_text(reply.choices.get(&0)?) {
        return None;
    }
    if let [PendingCall { reason: PendingReason::Suspended(suspension), .. }] = pending {
        return Some(note::suspension(suspension, interface));
    }
    if !pending.iter().all(waits) {
        return None;
    }
    let names: BTreeSet<_> = pending.iter().map(|pending| pending.call.name.as_str()).collect();
    Some(note::approval(names.into_iter(), interface))
}

/// Returns whether a choice has text. Content that is not known may be text.
fn has_text(choice: &Choice) -> bool {
    let messages = choice.items.iter().filter_map(|item| match item {
        Item::Message(message) => Some(message),
        _ => None,
    });
    let mut parts = messages.flat_map(|message| &message.parts);
    parts.any(|part| !matches!(&part.content, Content::Text(text) if text.trim().is_empty()))
        || choice.members.iter().any(|(_, name, value)| name == "content" && !value.is_string())
}

fn waits(pending: &PendingCall) -> bool {
    matches!(pending.reason, PendingReason::NeedsApproval) && pending.call.choice == 0
}

/// Sets the text of the first choice.
pub(super) fn set_text(reply: &mut Reply, text: String) {
    if let Some(choice) = reply.choices.get_mut(&0) {
        choice.items.retain(|item| !matches!(item, Item::Message(_)));
        let message = Message::new(Role::Assistant, vec![Part::text(text)]);
        let calls = choice.items.iter().position(|item| matches!(item, Item::ToolCall(_)));
        let place = calls.unwrap_or(choice.items.len());
        choice.items.insert(place, Item::Message(message));
    }
}

/// Returns the text about the calls that were run, in the format of Bifrost: a JSON object of tool
/// names and results. Further results of the same tool have the key `name#tool_call_id`; in Bifrost
/// they replace the first one.
pub(super) fn summary<'r>(results: impl Iterator<Item = ToolResult<'r>>) -> String {
    let results = Value::from_iter(keyed(results));
    format!(
        "The Output from allowed tools calls is - {results}\n\nNow I shall call these tools next..."
    )
}

fn keyed<'r>(results: impl Iterator<Item = ToolResult<'r>>) -> BTreeMap<String, &'r str> {
    let mut keyed = BTreeMap::new();
    for result in results {
        match keyed.entry(result.tool.to_owned()) {
            Entry::Vacant(first) => first.insert(result.text),
            Entry::Occupied(_) => keyed
                .entry(format!("{}#{}", result.tool, result.tool_call_id))
                .or_insert(result.text),
        };
    }
    keyed
}

#[cfg(test)]
mod tests {
    use super::{
        super::{calls::ToolCall, names::CallOwner},
        *,
    };
    use airlock_conversation::{self as conversation, Wire};
    use airlock_core::tool::Suspension;

    fn reply(delta: Delta) -> Reply {
        let mut reply = Reply::default();
        reply.add(delta);
        reply
    }

    #[test]
    fn an_answer_whose_calls_need_an_approval_has_a_note_unless_it_has_text() {
        let pending = [PendingCall::new(call(), PendingReason::NeedsApproval)];
        let name = "content".to_owned();
        let value = serde_json::json!([{"type": "other"}]);
        for (delta, has_note) in [
            (text(""), true),
            (text(" "), true),
            (text("text"), false),
            (Delta::Refusal { choice: 0, text: "no".to_owned() }, false),
            (Delta::Reasoning { choice: 0, text: "hm".to_owned() }, true),
            (Delta::Member { choice: 0, wire: Wire::Chat, name: name.clone(), value }, false),
            (Delta::Member { choice: 0, wire: Wire::Chat, name, value: "".into() }, true),
        ] {
            let reply = reply(delta);
            let note = approval_note(&reply, &pending, CallerInterface::Http);
            assert_eq!(note.is_some(), has_note, "{reply:?}");
        }
    }

    #[test]
    fn an_answer_whose_script_has_stopped_has_a_note_that_names_the_run() {
        let suspension = Suspension {
            run: "run_1".to_owned(),
            token: String::new(),
            completed: Vec::new(),
            pending: Vec::new(),
            in_doubt: Vec::new(),
        };
        let pending =
            || PendingCall::new(call(), PendingReason::Suspended(suspension.clone().into()));
        let reply = reply(Delta::Text { choice: 0, text: String::new() });
        for interface in [CallerInterface::Http, CallerInterface::Library] {
            let note = approval_note(&reply, &[pending()], interface).expect("a note");
            assert!(note.contains("`airlock runs show run_1`"), "{note}");
            assert_eq!(note.contains("POST"), interface == CallerInterface::Http, "{note}");
            assert_eq!(approval_note(&reply, &[pending(), pending()], interface), None);
        }
    }

    fn text(text: &str) -> Delta {
        Delta::Text { choice: 0, text: text.to_owned() }
    }

    fn call() -> ToolCall {
        ToolCall {
            position: 0,
            choice: 0,
            id: "c1".to_owned(),
            name: "web-post".to_owned(),
            arguments: Some("{}".to_owned()),
            owner: CallOwner::Gateway,
            item: conversation::ToolCall::function("c1", "web-post", "{}"),
        }
    }
}
