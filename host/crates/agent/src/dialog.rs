//! The exchange with the model in one request: its responses, whole or streamed, and the rounds
//! between them.

use std::collections::BTreeSet;

use super::{
    Event, Failure, Request, ResultsAsText, Settings,
    allowance::Allowance,
    answer::{approval_note, set_text},
    calls::{self, ToolCall},
    conversation::Conversation,
    names::CallOwner,
    relay::Relay,
    round::{CallOutcome, Listener, PendingCall, PendingReason},
};
use crate::recall::{self, Keeper, chat::Rounds};
use airlock_core::door::Caller;
use airlock_json::raw;
use airlock_model::{Document, Object, Response, Route, Terms};

/// The exchange with the model.
pub(super) struct Dialog {
    pub(super) conversation: Conversation,
    /// Ids of all calls so far.
    ids: BTreeSet<String>,
    /// The stream to the caller; `None` if only the last response is returned.
    relay: Option<Relay>,
    /// True if the model is asked for a stream.
    is_streamed: bool,
    includes_usage: bool,
    /// Keeps rounds that the caller does not see; `None` if nothing is kept.
    keeper: Option<Keeper>,
}

/// End of the loop: the model's last response, and its calls that were not run, in their order.
/// `is_in_text` is true if the results of the others are part of the text.
pub(super) enum LoopEnd {
    /// A response that is returned whole.
    Whole { answer: Document, pending: Vec<PendingCall>, is_in_text: bool },
    /// A response whose chunks were sent.
    Streamed { relay: Box<Relay>, answer: Object, pending: Vec<PendingCall>, is_in_text: bool },
}

impl Dialog {
    pub(super) async fn begin(request: Request, caller: &Caller, settings: &Settings) -> Self {
        let options = request.body.get("stream_options");
        let includes_usage =
            options.is_some_and(|options| raw::member(options, "include_usage") == Some("true"));
        let is_streamed = request.is_streamed;
        let shows_rounds = request.shows_rounds;
        let keeper = request.keeper.clone();
        let has_notes = !request.notes.is_empty();
        let is_native = request.native.is_some();
        let conversation = Conversation::begin(request, caller, settings).await;
        let offers = conversation.offers();
        let relay = if shows_rounds {
            Some(Relay::by_round(!is_native))
        } else {
            is_streamed.then(|| Relay::new(offers || has_notes))
        };
        let holds_text = offers && conversation.wants_json();
        let relay = relay.map(|relay| if holds_text { relay.holding_text() } else { relay });
        Self { conversation, ids: BTreeSet::new(), relay, is_streamed, includes_usage, keeper }
    }

    /// Asks the model and returns its next response. If the caller receives chunks, they are sent
    /// meanwhile. After the last round (`is_last`) no call is run here, so none is held back. Fails
    /// if the providers fail, at the deadline, or beyond a bound.
    pub(super) async fn ask(
        &mut self,
        route: &mut Route<'_>,
        allowance: &Allowance,
        rounds: u32,
        is_last: bool,
        listener: &Listener,
    ) -> Result<Document, Failure> {
        let terms = Terms {
            is_streamed: self.is_streamed,
            in_chunks: self.relay.is_some(),
            deadline: allowance.deadline,
            held: &allowance.held,
        };
        // Boxed: this future is the largest, and a stream would keep its room until its end.
        self.conversation.names.is_last = is_last;
        let asking = Box::pin(route.respond(&mut self.conversation.prompt, terms));
        let response = allowance.within(rounds, asking).await??;
        listener.emitter.answers(route.provider());
        let names = &self.conversation.names;
        let emitter = &listener.emitter;
        match (&mut self.relay, response) {
            (None, Response::Whole(answer)) => Ok(answer),
            (None, Response::Chunks(_)) => unreachable!("no stream was asked for"),
            (Some(relay), Response::Whole(answer)) => {
                let mut answer = answer;
                calls::check_count(answer.object())?;
                // The calls are repaired first, because they are shown with their ids.
                calls::read(answer.object_mut(), &mut self.ids, names);
                let held = &allowance.held;
                relay.whole(answer.object(), self.includes_usage, names, held, emitter).await?;
                Ok(answer)
            }
            (Some(relay), Response::Chunks(chunks)) => {
                relay.response(chunks, names, &mut self.ids, allowance, emitter).await
            }
        }
    }

    /// Reads the calls of a response. Those of a relayed response were repaired before they were
    /// shown. After the last round every call was shown, and none is the caller's for that reason: a
    /// call of a gateway's tool is then pending for the depth limit.
    pub(super) fn calls(&mut self, answer: &mut Document) -> Vec<ToolCall> {
        if calls::count(answer.object()) == 0 {
            return Vec::new();
        }
        let names = &self.conversation.names;
        let Some(relay) = &self.relay else {
            return calls::read(answer.object_mut(), &mut self.ids, names);
        };
        let mut calls = calls::read(answer.object_mut(), &mut BTreeSet::new(), names);
        if !names.is_last {
            for call in calls.iter_mut().filter(|call| relay.has_shown(&call.id)) {
                call.owner = CallOwner::Caller;
            }
        }
        calls
    }

    /// Adds the results of a round to the conversation, for the next request.
    pub(super) async fn add_round(
        &mut self,
        answer: Document,
        results: &[CallOutcome],
        rounds: u32,
        listener: &Listener,
    ) {
        self.conversation.add_round(answer, results);
        if let Some(relay) = &mut self.relay {
            relay.end_round(&listener.emitter).await;
        }
        listener.emitter.emit(Event::Round { rounds }).await;
    }

    /// Ends the exchange. Sorts the pending calls by their position in the response, and keeps the
    /// rounds that the caller does not see. `ended` are the calls of the response that ran.
    pub(super) async fn end(
        self,
        mut answer: Document,
        mut pending: Vec<PendingCall>,
        ended: &[CallOutcome],
        style: ResultsAsText,
        allowance: &Allowance,
    ) -> LoopEnd {
        pending.sort_by_key(|pending| pending.call.position);
        let is_in_text = self.has_results_in_text(&pending, style);
        if !is_in_text && !pending.is_empty() {
            Box::pin(self.keep(answer.object(), &pending, ended, allowance)).await;
        }
        let has_own_tools = self.conversation.prompt.has_own_tools();
        let takes_note = is_in_text && !has_own_tools && !self.conversation.wants_json();
        let note = takes_note.then(|| approval_note(answer.object(), &pending)).flatten();
        match self.relay {
            None => {
                if let Some(note) = note {
                    set_text(answer.object_mut(), note);
                }
                LoopEnd::Whole { answer, pending, is_in_text }
            }
            Some(relay) => {
                let relay = Box::new(relay.with_note(note));
                let answer = answer.into_object();
                LoopEnd::Streamed { relay, answer, pending, is_in_text }
            }
        }
    }

    /// Returns whether results are part of the text, if calls ran and others are pending.
    fn has_results_in_text(&self, pending: &[PendingCall], style: ResultsAsText) -> bool {
        // Where rounds end the loop, the response is the model's own.
        if pending.iter().any(|pending| matches!(pending.reason, PendingReason::DepthLimit)) {
            return false;
        }
        match style {
            ResultsAsText::Never => false,
            ResultsAsText::Always => true,
            ResultsAsText::Auto if self.keeper.is_none() || !pending.iter().any(is_found) => true,
            ResultsAsText::Auto => {
                pending.iter().all(|pending| !matches!(pending.reason, PendingReason::NotOffered))
                    && !self.conversation.wants_json()
            }
        }
    }

    /// Keeps the calls that ran, for the request that answers the pending ones.
    async fn keep(
        &self,
        answer: &Object,
        pending: &[PendingCall],
        ended: &[CallOutcome],
        allowance: &Allowance,
    ) {
        let Some(keeper) = &self.keeper else { return };
        let choices: BTreeSet<usize> = pending.iter().map(|pending| pending.call.choice).collect();
        let trail = keeper.trail_of(self.conversation.sent()).await;
        // A provider may send more than were asked for, and each has a record with all rounds.
        let asked = self.conversation.choices();
        for choice in choices.into_iter().filter(|choice| *choice < asked) {
            let rounds = self.conversation.rounds(choice, answer, pending, ended);
            let Some(rounds) = rounds.filter(Rounds::has_run) else { continue };
            // Once as it is, and once as the text that is kept.
            let has_room = allowance.held.grow(rounds.bytes().saturating_mul(2));
            let of_choice = pending.iter().filter(|pending| pending.call.choice == choice);
            let calls =
                of_choice.map(|waiting| (waiting.call.id.as_str(), waiting.call.name.as_str()));
            keeper.keep_rounds(&trail, calls, has_room.then_some(rounds)).await;
        }
    }
}

fn is_found(pending: &PendingCall) -> bool {
    recall::is_unique(&pending.call.id, &pending.call.name)
}
