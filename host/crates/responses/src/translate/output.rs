//! The loop's events → stream events and the Response.
//!
//! One state machine makes both, so that they cannot disagree. Stream events have the order of
//! OpenAI's API: an item is added, its parts are, its text comes in deltas, and then its parts and
//! the item itself are done. Message and reasoning items come one after another. The calls of one
//! round may be open at the same time, because servers may send their pieces interleaved.

mod calls;
mod ending;
mod events;
mod item;
mod message;
mod native;
mod reasoning;

use std::collections::BTreeMap;

use serde_json::{Value, json};

pub(crate) use self::calls::GatewayCall;
pub(super) use self::item::Round;
use self::{
    calls::{CallBegin, ClientCall, ExecutedCall},
    ending::ResponseEnd,
    events::ResponseEvents,
    item::{ItemStatus, Items},
    message::{MessageItem, PartKind},
    reasoning::Reasoning,
};
use super::{builtin::Groups, echo::Echo, reasoning as state};
use airlock_conversation::{Delta, FinishReason, Object, Wire, chat};
use airlock_json::object;

/// Member of a reply with the tier of service that was used.
const SERVICE_TIER: &str = "service_tier";
/// Member of a choice with the log probabilities of its text.
const LOGPROBS: &str = "logprobs";

/// Writes one Response and its stream events.
///
/// Call [`begin`](Self::begin) first, then the methods for the loop's events in their order, and
/// [`finish`](Self::finish) or [`fail`](Self::fail) last; later events are ignored. Each method
/// appends the stream events that it causes to `out`.
#[derive(Debug)]
pub(crate) struct Writer {
    head: Object,
    echo: Echo,
    sequence: u64,
    items: Items,
    message: Option<MessageItem>,
    reasoning: Option<Reasoning>,
    /// Open calls of the client's tools, by their index in the deltas.
    calls: BTreeMap<u64, ClientCall>,
    /// Open calls that the gateway runs, by their identifiers.
    executed: BTreeMap<String, ExecutedCall>,
    /// Names of the functions of groups.
    groups: Groups,
    /// Part of the reasoning that is read, with a provider that has the Responses API.
    part: Option<ReasoningPart>,
    /// End of the round.
    finish_reason: Option<FinishReason>,
    ending: Option<ResponseEnd>,
}

/// A part of the reasoning of a provider that has the Responses API.
#[derive(Debug)]
struct ReasoningPart {
    item_id: String,
    /// Number of the summary; `None` for the model's own text.
    summary: Option<u64>,
}

impl Writer {
    /// Creates the writer of a Response. `id` starts with `resp_`; the rest of it becomes part of
    /// the identifiers of the items, which are unique if it is.
    pub(crate) fn new(id: &str, created_at: u64, echo: Echo) -> Self {
        Self {
            head: object(json!({"id": id, "object": "response", "created_at": created_at})),
            echo,
            sequence: 0,
            items: Items::new(id),
            message: None,
            reasoning: None,
            calls: BTreeMap::new(),
            executed: BTreeMap::new(),
            groups: Groups::default(),
            part: None,
            finish_reason: None,
            ending: None,
        }
    }

    /// Shows calls of the functions of these groups with the name of their group.
    pub(crate) fn with_groups(self, groups: Groups) -> Self {
        Self { groups, ..self }
    }

    /// Writes `response.created` and `response.in_progress`.
    pub(crate) fn begin(&mut self, out: &mut Vec<Object>) {
        for kind in ["response.created", "response.in_progress"] {
            self.write_response(kind, out);
        }
    }

    /// Adds deltas of the model's reply. Calls in it are those that the client runs.
    pub(crate) fn deltas(&mut self, deltas: Vec<Delta>, out: &mut Vec<Object>) {
        if self.ending.is_some() {
            return;
        }
        let mut deltas = deltas.into_iter().peekable();
        while let Some(delta) = deltas.next() {
            match delta {
                // The item has the sealed reasoning too.
                Delta::ReasoningEnd { .. }
                    if matches!(deltas.peek(), Some(Delta::ItemEnd { .. })) => {}
                Delta::Member { choice: 0, wire: Wire::Chat, name, value } if name == LOGPROBS => {
                    let text = deltas.next_if(|next| matches!(next, Delta::Text { choice: 0, .. }));
                    self.text_with(text, &message::logprobs(&value), out);
                }
                delta => self.delta(delta, out),
            }
        }
    }

    /// Adds a call that the gateway runs, before it is run.
    pub(crate) fn call_started(&mut self, call: GatewayCall<'_>, out: &mut Vec<Object>) {
        if self.ending.is_some() || self.executed.contains_key(call.tool_call_id) {
            return;
        }
        self.close_text(ItemStatus::Completed, out);
        let id = call.tool_call_id.to_owned();
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        self.executed.insert(id, ExecutedCall::open(call, &mut self.items, &mut events));
    }

    /// Adds the result of a call that the gateway ran: the text that the model receives, as an
    /// error if the call failed. A call that was not started is ignored.
    pub(crate) fn call_ended(
        &mut self,
        tool_call_id: &str,
        result: Result<&str, &str>,
        out: &mut Vec<Object>,
    ) {
        if let Some(call) = self.executed.remove(tool_call_id) {
            call.close(result, &mut self.items, &mut ResponseEvents::new(out, &mut self.sequence));
        }
    }

    /// Ends a call that was begun here and that the client has to continue: it follows as a call of
    /// a client's tool. A call that was not started is ignored.
    pub(crate) fn call_suspended(&mut self, tool_call_id: &str, out: &mut Vec<Object>) {
        if let Some(call) = self.executed.remove(tool_call_id) {
            call.suspend(&mut self.items, &mut ResponseEvents::new(out, &mut self.sequence));
        }
    }

    /// Ends a round: the model is asked again.
    pub(crate) fn round_ended(&mut self, out: &mut Vec<Object>) {
        self.close_text(ItemStatus::Completed, out);
        self.close_calls(ItemStatus::Completed, out);
        self.items.begin_round();
        self.finish_reason = None;
        self.part = None;
    }

    /// Ends the Response. It is incomplete if the last response of the model is.
    pub(crate) fn finish(
        &mut self,
        usage: Option<&Value>,
        airlock: Option<Object>,
        out: &mut Vec<Object>,
    ) {
        self.end(ResponseEnd::of_answer(self.finish_reason.as_ref(), usage, airlock), out);
    }

    /// Ends the Response with an error object of chat completions. Open items are incomplete.
    pub(crate) fn fail(
        &mut self,
        error: &Object,
        usage: Option<&Value>,
        airlock: Option<Object>,
        out: &mut Vec<Object>,
    ) {
        self.end(ResponseEnd::of_failure(error, usage, airlock), out);
    }

    /// Returns whether an item is open. Its content is copied when it ends.
    pub(crate) fn has_open_items(&self) -> bool {
        let is_text = self.message.is_some() || self.reasoning.is_some();
        is_text || !self.calls.is_empty() || !self.executed.is_empty()
    }

    /// Returns whether a delta surely ends no item and no part of one.
    pub(crate) fn continues(&self, delta: &Delta) -> bool {
        match delta {
            Delta::Text { .. } | Delta::Citation { .. } => self.continues_message(PartKind::Text),
            Delta::Refusal { .. } => self.continues_message(PartKind::Refusal),
            Delta::Member { name, .. } if name == LOGPROBS => {
                self.continues_message(PartKind::Text)
            }
            Delta::Member { name, .. } => !state::is_state(name),
            Delta::Reasoning { .. } => self.message.is_none() && self.part.is_none(),
            Delta::Begin(_)
            | Delta::Arguments { .. }
            | Delta::ChunkMember { .. }
            | Delta::ServiceTier(_)
            | Delta::End { .. }
            | Delta::Usage(_) => true,
            Delta::ReasoningPart { .. }
            | Delta::ReasoningEnd { .. }
            | Delta::Call { .. }
            | Delta::ItemEnd { .. } => false,
        }
    }

    fn continues_message(&self, kind: PartKind) -> bool {
        self.reasoning.is_none()
            && self.message.as_ref().is_none_or(|message| message.continues(kind))
    }

    /// Returns the number of items so far.
    pub(crate) fn items(&self) -> usize {
        self.items.values().len()
    }

    /// Returns the items so far. Items that are not done are as they were added.
    pub(crate) fn output_items(&self) -> &[Value] {
        self.items.values()
    }

    /// Returns the Response in its current state.
    pub(crate) fn response(&self) -> Object {
        let mut response = self.head.clone();
        response.extend(self.echo.members().clone());
        response.insert("output".to_owned(), self.items.values().into());
        response.extend(ResponseEnd::members(self.ending.as_ref()));
        response
    }

    /// Sets the model or the service tier that a provider reports. They may differ from those of the
    /// request.
    fn set_source(&mut self, name: &str, reported: &str) {
        let known = self.echo.members().get(name).and_then(Value::as_str);
        if !reported.is_empty() && known != Some(reported) {
            self.echo.set(name, reported.into());
        }
    }

    fn delta(&mut self, delta: Delta, out: &mut Vec<Object>) {
        match delta {
            Delta::Begin(begin) => {
                self.set_source("model", &begin.model);
                let tier = begin.extra.get(SERVICE_TIER).and_then(Value::as_str);
                self.set_source(SERVICE_TIER, tier.unwrap_or_default());
            }
            Delta::ServiceTier(tier) => self.set_source(SERVICE_TIER, &tier),
            Delta::End { choice: 0, reason } => self.finish_reason = Some(reason),
            Delta::Text { choice: 0, text } => self.text(PartKind::Text, &text, &[], out),
            Delta::Refusal { choice: 0, text } => self.text(PartKind::Refusal, &text, &[], out),
            Delta::ReasoningPart { choice: 0, item_id, is_summary, index } => {
                let summary = is_summary.then_some(index);
                self.part = Some(ReasoningPart { item_id, summary });
            }
            Delta::Reasoning { choice: 0, text } => self.thought(&text, out),
            Delta::ReasoningEnd { choice: 0, reasoning } => {
                if let Some((name, list)) = chat::sealed_reasoning(reasoning) {
                    self.add_state(name, list, out);
                }
            }
            Delta::Citation { choice: 0, wire, citation } => {
                if let Some(annotation) = message::annotation(wire, citation) {
                    let (message, mut events) = self.open_message(out);
                    message.annotate(annotation, &mut events);
                }
            }
            Delta::Call { choice: 0, index, id, name, is_custom, extra } => {
                self.close_text(ItemStatus::Completed, out);
                let call = CallBegin { id, name, is_custom, extra };
                let mut events = ResponseEvents::new(out, &mut self.sequence);
                let call = ClientCall::open(call, &self.groups, &mut self.items, &mut events);
                self.calls.insert(index, call);
            }
            Delta::Arguments { choice: 0, index, text } => {
                if let Some(call) = self.calls.get_mut(&index) {
                    call.add(&text, &mut ResponseEvents::new(out, &mut self.sequence));
                }
            }
            Delta::Member { choice: 0, wire: Wire::Chat, name, value } => {
                self.member(&name, value, out);
            }
            Delta::ItemEnd { choice: 0, item, .. } => self.item(&item, out),
            // A Response has one choice, and the usage of all rounds.
            _ => {}
        }
    }

    /// Adds a piece of a member that chat completions do not define: state of the reasoning, or members of
    /// calls that have begun.
    fn member(&mut self, name: &str, value: Value, out: &mut Vec<Object>) {
        let Value::Array(list) = value else { return };
        match name {
            "tool_calls" => {
                for piece in list.iter().filter_map(Value::as_object) {
                    let index = piece.get("index").and_then(Value::as_u64).unwrap_or_default();
                    if let Some(call) = self.calls.get_mut(&index) {
                        call.add_members(piece);
                    }
                }
            }
            name if !list.is_empty() && state::is_state(name) => self.add_state(name, list, out),
            _ => {}
        }
    }

    /// Adds log probabilities with their text.
    fn text_with(&mut self, delta: Option<Delta>, logprobs: &[Value], out: &mut Vec<Object>) {
        let text = match delta {
            Some(Delta::Text { text, .. }) => text,
            _ => String::new(),
        };
        self.text(PartKind::Text, &text, logprobs, out);
    }

    fn text(&mut self, kind: PartKind, text: &str, logprobs: &[Value], out: &mut Vec<Object>) {
        if !text.is_empty() || !logprobs.is_empty() {
            let (message, mut events) = self.open_message(out);
            message.add(kind, text, logprobs, &mut events);
        }
    }

    /// Adds a piece of readable reasoning.
    fn thought(&mut self, text: &str, out: &mut Vec<Object>) {
        if let Some(ReasoningPart { item_id, summary }) = self.part.take() {
            let (reasoning, mut events) = self.open_native(&item_id, out);
            match summary {
                Some(number) => reasoning.add_summary(number, text, &mut events),
                None => reasoning.add_text(text, &mut events),
            }
            self.part = Some(ReasoningPart { item_id, summary });
            return;
        }
        let (reasoning, mut events) = self.open_reasoning(out);
        reasoning.add_text(text, &mut events);
    }

    /// Adds state of the reasoning that the model needs back.
    fn add_state(&mut self, name: &str, list: Vec<Value>, out: &mut Vec<Object>) {
        self.open_reasoning(out).0.add_state(name, list);
    }

    /// Returns the open reasoning. Opens it, after the message is done, if there is none.
    fn open_reasoning<'a>(
        &'a mut self,
        out: &'a mut Vec<Object>,
    ) -> (&'a mut Reasoning, ResponseEvents<'a>) {
        self.close_message(ItemStatus::Completed, out);
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        let reasoning =
            self.reasoning.get_or_insert_with(|| Reasoning::open(&mut self.items, &mut events));
        (reasoning, events)
    }

    /// Returns the open message. Opens it, after the reasoning is done, if there is none.
    fn open_message<'a>(
        &'a mut self,
        out: &'a mut Vec<Object>,
    ) -> (&'a mut MessageItem, ResponseEvents<'a>) {
        self.close_reasoning(ItemStatus::Completed, out);
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        let message =
            self.message.get_or_insert_with(|| MessageItem::open(&mut self.items, &mut events));
        (message, events)
    }

    fn close_reasoning(&mut self, status: ItemStatus, out: &mut Vec<Object>) {
        if let Some(reasoning) = self.reasoning.take() {
            reasoning.close(
                status,
                &mut self.items,
                &mut ResponseEvents::new(out, &mut self.sequence),
            );
        }
    }

    fn close_message(&mut self, status: ItemStatus, out: &mut Vec<Object>) {
        if let Some(message) = self.message.take() {
            message.close(
                status,
                &mut self.items,
                &mut ResponseEvents::new(out, &mut self.sequence),
            );
        }
    }

    fn close_text(&mut self, status: ItemStatus, out: &mut Vec<Object>) {
        self.close_reasoning(status, out);
        self.close_message(status, out);
    }

    fn close_calls(&mut self, status: ItemStatus, out: &mut Vec<Object>) {
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        for call in std::mem::take(&mut self.calls).into_values() {
            call.close(status, &mut self.items, &mut events);
        }
    }

    /// Closes every item and writes the last event.
    fn end(&mut self, ending: ResponseEnd, out: &mut Vec<Object>) {
        if self.ending.is_some() {
            return;
        }
        let status = ending.item_status();
        let event = ending.event();
        self.close_text(status, out);
        self.close_calls(status, out);
        let mut events = ResponseEvents::new(out, &mut self.sequence);
        for call in std::mem::take(&mut self.executed).into_values() {
            call.close(Err("The call was cancelled."), &mut self.items, &mut events);
        }
        self.ending = Some(ending);
        self.write_response(event, out);
    }

    fn write_response(&mut self, kind: &'static str, out: &mut Vec<Object>) {
        let response = self.response();
        ResponseEvents::new(out, &mut self.sequence).write(kind, [("response", response.into())]);
    }
}
