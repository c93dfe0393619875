//! The request to the model, extended in every round.

use std::{
    collections::BTreeSet,
    sync::{Arc, OnceLock},
};

use serde_json::Value;

use super::{
    Request, Settings,
    answer::Answer,
    names::CallableNames,
    round::{CallOutcome, PendingCall},
};
use crate::{read_sources::read_sources, recall::chat::Rounds};
use airlock_conversation::{
    Choice, Item, NativeItem, Object, Part, Reply, ToolCall, ToolResult, Wire, chat,
};
use airlock_core::{
    door::{Caller, Placeholders},
    tenant::Tenant,
    threads,
};
use airlock_json::raw;
use airlock_model::{Prompt, Unforced};

/// A request to the model, with the names that the model can call.
pub(super) struct Conversation {
    pub(super) prompt: Prompt,
    pub(super) names: CallableNames,
    /// True if the rounds may have to be kept.
    keeps: bool,
    /// The rounds to keep, if those of the prompt are native items.
    hidden: Vec<Item>,
    /// The choice of tools after the first round.
    unforced: Unforced,
    /// The part about which guards have decided.
    pub(super) seen: SeenItems,
    /// The placeholders that the model gets in the places of parts that guards hide. Made for the first guard.
    pub(super) placeholders: OnceLock<Arc<Placeholders>>,
    /// The request as the caller sent it, if guards have replaced texts of it.
    sent: Option<Box<Prompt>>,
}

/// The part of a conversation about which guards have decided.
#[derive(Default)]
pub(super) struct SeenItems {
    /// True for the members of the caller.
    pub(super) has_members: bool,
    /// Number of items of rounds.
    pub(super) rounds: usize,
}

impl Conversation {
    /// Adds the gateway's tools after those of the request. Names of the request's own tools take
    /// precedence: a call of such a name is for the caller. A long request is read on a blocking
    /// thread.
    pub(super) async fn begin(request: Request, caller: &Caller, settings: &Settings) -> Self {
        let prompt = request.prompt;
        let keeps = request.keeper.is_some();
        let offers = !settings.disable_auto_tool_inject || request.names_tools;
        let read = if caller.view().follows_sources() { prompt.body.text_len() } else { 0 };
        let bytes = prompt.tool_bytes() + read;
        if bytes <= threads::INLINE_BYTES {
            return Self::with_tools(prompt, caller, offers, keeps);
        }
        let tenant = caller.view().tenant().clone();
        let caller = caller.clone();
        let reading =
            threads::run(&tenant, move || Self::with_tools(prompt, &caller, offers, keeps));
        // Boxed: the tools of most requests are few.
        Box::pin(reading).await
    }

    fn with_tools(prompt: Prompt, caller: &Caller, offers: bool, keeps: bool) -> Self {
        if caller.view().follows_sources() {
            caller.has_read(&read_sources(&prompt, caller.view()));
        }
        let unforced = prompt.unforced();
        let names = CallableNames::default();
        let seen = SeenItems::default();
        let mut this = Self {
            prompt,
            names,
            keeps,
            hidden: Vec::new(),
            unforced,
            seen,
            placeholders: OnceLock::new(),
            sent: None,
        };
        if offers && this.prompt.takes_tools() {
            this.offer(caller);
        }
        this
    }

    /// Returns whether a guard has hidden parts of the request.
    pub(super) fn has_placeholders(&self) -> bool {
        self.placeholders.get().is_some_and(|placeholders| !placeholders.is_empty())
    }

    /// Returns whether the gateway offers tools.
    pub(super) fn offers(&self) -> bool {
        !self.names.offered.is_empty()
    }

    fn offer(&mut self, caller: &Caller) {
        let mut listed = caller.list().map(|entry| &entry.tool).peekable();
        if listed.peek().is_none() {
            return;
        }
        let own: BTreeSet<String> = self.prompt.own_names().collect();
        let tools = listed.filter(|tool| !own.contains(tool.name.as_str()));
        let tools: Vec<_> = tools.cloned().collect();
        let mut offered: BTreeSet<_> =
            tools.iter().map(|tool| tool.name.as_str().to_owned()).collect();
        // The caller's own restriction holds whatever the model calls.
        if let Some(allowed) = self.prompt.allowed_names() {
            offered.retain(|name| allowed.contains(name));
        }
        let has_unnamed = self.prompt.has_unnamed_tools();
        self.names = CallableNames { offered, own, has_unnamed, ..CallableNames::default() };
        self.prompt.tools = tools;
    }

    /// Adds a round: each message of the model, followed by the results of its calls, as OpenAI's
    /// API requires. `results` are in the order of the calls. Messages without calls are left out.
    pub(super) fn add_round(&mut self, mut answer: Answer, results: &[CallOutcome]) {
        // If a choice stayed forced after its call, the model could never end with text.
        self.prompt.stop_forcing(std::mem::take(&mut self.unforced));
        let items = answer.take_items();
        if items.is_empty() {
            self.prompt.add_round(turns(answer.take_reply(), results));
            return;
        }
        // The provider gets all later rounds, so the chat form of them is never sent.
        self.add_native_turn(items, &answer.reply, results);
        if self.keeps {
            self.hidden.extend(turns(answer.take_reply(), results));
        }
    }

    /// Replaces a member of the caller's.
    pub(super) fn rewrite_member(&mut self, name: &str, json: String) {
        self.sent.get_or_insert_with(|| Box::new(self.prompt.clone()));
        self.prompt.replace_member(name, json);
    }

    /// Returns the request as the caller sent it. Its members are those that the caller sends again.
    pub(super) fn as_sent(&self) -> &Prompt {
        self.sent.as_deref().unwrap_or(&self.prompt)
    }

    /// Returns whether the caller asked for JSON.
    pub(super) fn wants_json(&self) -> bool {
        wants_json(&self.prompt)
    }

    /// Returns the items of the rounds so far, as they are kept.
    pub(super) fn kept_items(&self) -> Vec<Item> {
        let shown = self.prompt.rounds.as_slice();
        if self.hidden.is_empty() { shown.to_vec() } else { self.hidden.clone() }
    }

    /// Adds a round of a provider that has the Responses API: the items of the model as they came, and the
    /// results of its calls.
    fn add_native_turn(&mut self, items: Vec<Object>, reply: &Reply, results: &[CallOutcome]) {
        let made = reply.choices.get(&0).into_iter().flat_map(|choice| &choice.items);
        let mut calls = made.filter_map(|item| match item {
            Item::ToolCall(call) => Some(call),
            _ => None,
        });
        let items = items.into_iter().map(|item| {
            let item = NativeItem::new(Wire::Responses, item);
            Item::Native(as_in_message(item, &mut calls))
        });
        self.prompt.add_round(items.chain(results.iter().map(result)));
    }
}

/// Returns whether the caller of a request asked for JSON. A long format is not read: only a schema is long.
fn wants_json(prompt: &Prompt) -> bool {
    let members: &[&str] = match prompt.wire {
        Wire::Responses => &["text"],
        Wire::Messages => &["output_config", "output_format"],
        Wire::Chat | Wire::Gemini => &["response_format"],
    };
    let members = members.iter().filter_map(|name| Some((*name, prompt.body.get(name)?)));
    let mut formats = members.filter_map(|(name, text)| match name {
        _ if text.len() > threads::INLINE_BYTES => Some(text),
        "text" | "output_config" => raw::member(text, "format"),
        _ => Some(text),
    });
    let format = formats.next();
    format.is_some_and(|text| text.len() > threads::INLINE_BYTES || is_structured(text))
}

/// Returns whether a format is another one than text.
fn is_structured(format: &str) -> bool {
    let kind = raw::member(format, "type").and_then(raw::string);
    kind.is_some_and(|kind| kind != "text")
}

/// Returns items as the JSON texts of messages: of long ones, written on a blocking thread.
pub(super) async fn texts(items: Vec<Item>, tenant: &Tenant) -> Vec<String> {
    let bytes = items.iter().map(Item::bytes).fold(0, usize::saturating_add);
    threads::read(tenant, bytes, move || to_texts(items)).await
}

/// Returns the rounds so far, which have these messages, with the last message of a choice and the results of its calls that
/// ran; `None` if the choice has no pending calls.
pub(super) fn rounds(
    before: &[String],
    choice: u64,
    reply: &Reply,
    pending: &[PendingCall],
    ended: &[CallOutcome],
) -> Option<Rounds> {
    pending.iter().find(|pending| pending.call.choice == choice)?;
    let message = chat::write_message(reply.choices.get(&choice)?.clone());
    let message = Value::from(message).to_string();
    let ran = ended.iter().filter(|ended| ended.call.choice == choice && !ended.is_waiting());
    let results = to_texts(ran.map(result).collect());
    Some(Rounds { before: before.to_vec(), message, results })
}

/// Returns the turns of the model that have calls, each followed by the results of its calls.
fn turns(mut reply: Reply, results: &[CallOutcome]) -> Vec<Item> {
    let mut items = Vec::new();
    for round in results.chunk_by(|one, other| one.call.choice == other.call.choice) {
        let choice = reply.choices.remove(&round[0].call.choice);
        items.extend(choice.map(turn).into_iter().flatten());
        items.extend(round.iter().map(result));
    }
    items
}

/// Returns the items of a turn of the model. A message that cannot be read is sent back as it is written, and so
/// is one whose form its items would not keep.
fn turn(mut choice: Choice) -> Vec<Item> {
    if choice.members.is_empty() {
        return std::mem::take(&mut choice.items);
    }
    let mut message = chat::write_message(choice);
    message.retain(|name, value| name != "refusal" || !value.is_null());
    if !has_own_form(&message)
        && let Ok(items) = chat::read_message(message.clone().into())
    {
        return items;
    }
    let kind = "assistant".to_owned();
    vec![Item::Native(NativeItem { wire: Wire::Chat, kind, object: message })]
}

/// Returns whether a message has `reasoning` or an empty text: its server may refuse the more common name, or
/// a message without the text.
fn has_own_form(message: &Object) -> bool {
    let mut texts = ["content", "reasoning_content"].iter().filter_map(|name| message.get(*name));
    message.contains_key("reasoning") || texts.any(|text| text == "")
}

/// Returns the result of a call.
fn result(ended: &CallOutcome) -> Item {
    let parts = ended.parts.clone().unwrap_or_else(|| vec![Part::text(&*ended.text)]);
    Item::ToolResult(ToolResult::new(&*ended.call.id, parts))
}

/// Returns items as the JSON texts of messages.
fn to_texts(items: Vec<Item>) -> Vec<String> {
    let messages = chat::write_messages(items).unwrap_or_default();
    messages.iter().map(Value::to_string).collect()
}

/// Returns an item with the identifier and the name that its call has in the conversation: the gateway
/// replaces an identifier that was used before, and repairs the name of an unknown tool. `calls` are
/// those of the message, in the order of the items.
fn as_in_message<'a>(
    mut item: NativeItem,
    calls: &mut impl Iterator<Item = &'a ToolCall>,
) -> NativeItem {
    let is_call = matches!(item.kind.as_str(), "function_call" | "custom_tool_call");
    if let Some(call) = is_call.then(|| calls.next()).flatten() {
        item.object.insert("call_id".to_owned(), call.id.as_str().into());
        item.object.insert("name".to_owned(), call.name.as_str().into());
    }
    item
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_json::{RawObject, object};

    #[test]
    fn json_is_asked_for_in_each_api_and_a_long_format_is_a_schema() {
        let long = "x".repeat(threads::INLINE_BYTES);
        let schema = json!({"type": "json_schema"});
        let text = json!({"type": "text"});
        for (wire, body, expected) in [
            (Wire::Chat, json!({}), false),
            (Wire::Chat, json!({"response_format": null}), false),
            (Wire::Chat, json!({"response_format": text}), false),
            (Wire::Chat, json!({"response_format": schema}), true),
            (Wire::Chat, json!({"response_format": {"schema": long, "type": "json_schema"}}), true),
            (Wire::Chat, json!({"text": {"format": schema}}), false),
            (Wire::Responses, json!({"text": {"format": schema}}), true),
            (Wire::Responses, json!({"text": {"verbosity": "low"}}), false),
            (Wire::Responses, json!({"text": {"format": {"schema": long}}}), true),
            (Wire::Messages, json!({"output_format": schema}), true),
            (Wire::Messages, json!({"output_config": {}, "output_format": schema}), true),
            (Wire::Messages, json!({"output_config": {"format": text}}), false),
        ] {
            let mut prompt = Prompt::new(RawObject::from(&object(body.clone())));
            prompt.wire = wire;
            let body = body.to_string();
            assert_eq!(wants_json(&prompt), expected, "{wire:?}, {}", &body[..body.len().min(99)]);
        }
    }
}
