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

pub(crate) use self::calls::Call;
pub(super) use self::item::Round;
use self::{
    calls::{ClientCall, ExecutedCall},
    ending::Ending,
    events::Events,
    item::{Items, Status},
    message::{Kind, Message},
    reasoning::Reasoning,
};
use super::{builtin::Groups, echo::Echo, reasoning as state};
use airlock_model::{Object, object};

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
    message: Option<Message>,
    reasoning: Option<Reasoning>,
    /// Open calls of the client's tools, by their index in the deltas.
    calls: BTreeMap<u64, ClientCall>,
    /// Open calls that the gateway runs, by their identifiers.
    executed: BTreeMap<String, ExecutedCall>,
    /// Names of the functions of groups.
    groups: Groups,
    /// Last `finish_reason` of the round.
    finish_reason: Option<String>,
    ending: Option<Ending>,
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

    /// Adds a `chat.completion.chunk`, or a whole `chat.completion`. Tool calls in it are those
    /// that the client runs; each has its `id` and name in the first delta, and its `index` in
    /// every one.
    pub(crate) fn chunk(&mut self, chunk: &Object, out: &mut Vec<Object>) {
        if self.ending.is_some() {
            return;
        }
        self.read_source(chunk);
        let choices = chunk.get("choices").and_then(Value::as_array).into_iter().flatten();
        // One for each chunk: a server that repeats a choice would open items without end.
        if let Some(choice) = choices.filter_map(Value::as_object).find(|choice| is_first(choice)) {
            let delta = choice.get("delta").or_else(|| choice.get("message"));
            if let Some(Value::Object(delta)) = delta {
                self.delta(delta, choice.get("logprobs"), out);
            }
            if let Some(Value::String(reason)) = choice.get("finish_reason") {
                self.finish_reason = Some(reason.clone());
            }
        }
    }

    /// Adds a call that the gateway runs, before it is run.
    pub(crate) fn call_started(&mut self, call: Call<'_>, out: &mut Vec<Object>) {
        if self.ending.is_some() || self.executed.contains_key(call.tool_call_id) {
            return;
        }
        self.close_text(Status::Completed, out);
        let id = call.tool_call_id.to_owned();
        let mut events = Events::new(out, &mut self.sequence);
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
            call.close(result, &mut self.items, &mut Events::new(out, &mut self.sequence));
        }
    }

    /// Ends a call that was begun here and that the client has to continue: it follows as a call of
    /// a client's tool. A call that was not started is ignored.
    pub(crate) fn call_suspended(&mut self, tool_call_id: &str, out: &mut Vec<Object>) {
        if let Some(call) = self.executed.remove(tool_call_id) {
            call.suspend(&mut self.items, &mut Events::new(out, &mut self.sequence));
        }
    }

    /// Ends a round: the model is asked again.
    pub(crate) fn round_ended(&mut self, out: &mut Vec<Object>) {
        self.close_text(Status::Completed, out);
        self.close_calls(Status::Completed, out);
        self.items.begin_round();
        self.finish_reason = None;
    }

    /// Ends the Response. It is incomplete if the last response of the model is.
    pub(crate) fn finish(
        &mut self,
        usage: Option<&Value>,
        airlock: Option<Object>,
        out: &mut Vec<Object>,
    ) {
        self.end(Ending::of_answer(self.finish_reason.as_deref(), usage, airlock), out);
    }

    /// Ends the Response with an error object of chat completions. Open items are incomplete.
    pub(crate) fn fail(
        &mut self,
        error: &Object,
        usage: Option<&Value>,
        airlock: Option<Object>,
        out: &mut Vec<Object>,
    ) {
        self.end(Ending::of_failure(error, usage, airlock), out);
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
        response.extend(Ending::members(self.ending.as_ref()));
        response
    }

    /// Reads the model and the service tier that a provider reports. They may differ from those of
    /// the request.
    fn read_source(&mut self, chunk: &Object) {
        for name in ["model", "service_tier"] {
            let reported =
                chunk.get(name).filter(|value| value.as_str().is_some_and(|v| !v.is_empty()));
            if let Some(value) = reported
                && self.echo.members().get(name) != Some(value)
            {
                self.echo.set(name, value.clone());
            }
        }
    }

    fn delta(&mut self, delta: &Object, logprobs: Option<&Value>, out: &mut Vec<Object>) {
        let text = state::text(delta);
        if text.is_some() || state::State::is_in(delta) {
            self.close_message(Status::Completed, out);
            let mut events = Events::new(out, &mut self.sequence);
            let reasoning =
                self.reasoning.get_or_insert_with(|| Reasoning::open(&mut self.items, &mut events));
            reasoning.add(text.unwrap_or_default(), delta, &mut events);
        }
        let logprobs = message::logprobs(logprobs);
        for (name, kind) in [("content", Kind::Text), ("refusal", Kind::Refusal)] {
            let text = delta.get(name).and_then(Value::as_str).unwrap_or_default();
            let logprobs = if kind == Kind::Text { logprobs.as_slice() } else { &[] };
            if !text.is_empty() || !logprobs.is_empty() {
                let (message, mut events) = self.open_message(out);
                message.add(kind, text, logprobs, &mut events);
            }
        }
        for annotation in message::annotations(delta) {
            let (message, mut events) = self.open_message(out);
            message.annotate(annotation, &mut events);
        }
        let calls = delta.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        for (position, call) in calls.filter_map(Value::as_object).enumerate() {
            self.call_delta(position as u64, call, out);
        }
    }

    fn call_delta(&mut self, position: u64, delta: &Object, out: &mut Vec<Object>) {
        let index = delta.get("index").and_then(Value::as_u64).unwrap_or(position);
        if !self.calls.contains_key(&index) {
            self.close_text(Status::Completed, out);
        }
        let mut events = Events::new(out, &mut self.sequence);
        let call = self
            .calls
            .entry(index)
            .or_insert_with(|| ClientCall::open(delta, &self.groups, &mut self.items, &mut events));
        call.add(delta, &mut events);
    }

    /// Returns the open message. Opens it, after the reasoning is done, if there is none.
    fn open_message<'a>(&'a mut self, out: &'a mut Vec<Object>) -> (&'a mut Message, Events<'a>) {
        self.close_reasoning(Status::Completed, out);
        let mut events = Events::new(out, &mut self.sequence);
        let message =
            self.message.get_or_insert_with(|| Message::open(&mut self.items, &mut events));
        (message, events)
    }

    fn close_reasoning(&mut self, status: Status, out: &mut Vec<Object>) {
        if let Some(reasoning) = self.reasoning.take() {
            reasoning.close(status, &mut self.items, &mut Events::new(out, &mut self.sequence));
        }
    }

    fn close_message(&mut self, status: Status, out: &mut Vec<Object>) {
        if let Some(message) = self.message.take() {
            message.close(status, &mut self.items, &mut Events::new(out, &mut self.sequence));
        }
    }

    fn close_text(&mut self, status: Status, out: &mut Vec<Object>) {
        self.close_reasoning(status, out);
        self.close_message(status, out);
    }

    fn close_calls(&mut self, status: Status, out: &mut Vec<Object>) {
        let mut events = Events::new(out, &mut self.sequence);
        for call in std::mem::take(&mut self.calls).into_values() {
            call.close(status, &mut self.items, &mut events);
        }
    }

    /// Closes every item and writes the last event.
    fn end(&mut self, ending: Ending, out: &mut Vec<Object>) {
        if self.ending.is_some() {
            return;
        }
        let status = ending.item_status();
        let event = ending.event();
        self.close_text(status, out);
        self.close_calls(status, out);
        let mut events = Events::new(out, &mut self.sequence);
        for call in std::mem::take(&mut self.executed).into_values() {
            call.close(Err("The call was cancelled."), &mut self.items, &mut events);
        }
        self.ending = Some(ending);
        self.write_response(event, out);
    }

    fn write_response(&mut self, kind: &'static str, out: &mut Vec<Object>) {
        let response = self.response();
        Events::new(out, &mut self.sequence).write(kind, [("response", response.into())]);
    }
}

/// Returns whether a choice is the first; a Response has only one.
fn is_first(choice: &Object) -> bool {
    matches!(choice.get("index").map(Value::as_u64), None | Some(None | Some(0)))
}
