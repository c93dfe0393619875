//! The end of the loop: the last response, with its pending calls and the record of the others.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{AgentLoop, Answer, CallOutcome, Completion, PendingCall, PendingReason};
use crate::{
    ResultsAsText, answer, conversation,
    guarded::restore_items,
    recall::{self, chat::Rounds, note::CallerInterface},
    relay::StreamEnd,
};
use airlock_conversation::{MAX_REQUESTED_CHOICES, Reply, chat};

/// Form of the last response.
enum LastForm {
    /// The model's own.
    Own,
    /// The model's own, with a note in place of its text: its calls wait for an approval.
    Note(String),
    /// The pending calls alone; those that ran are kept for the next request.
    Pending,
    /// The pending calls, and the results of those that ran as text.
    Summary(String),
}

impl LastForm {
    /// Returns whether calls ran and others are pending.
    fn is_mixed(&self) -> bool {
        matches!(self, Self::Pending | Self::Summary(_))
    }

    /// Returns the text of the gateway itself.
    fn into_text(self) -> Option<String> {
        match self {
            Self::Note(text) | Self::Summary(text) => Some(text),
            Self::Own | Self::Pending => None,
        }
    }

    /// Gives a response of the model this form.
    fn apply(self, reply: &mut Reply, pending: &[PendingCall]) {
        match self {
            Self::Own => {}
            Self::Note(note) => answer::set_text(reply, note),
            Self::Pending => answer::remove_ended(reply, pending),
            Self::Summary(summary) => answer::mix(reply, summary, pending),
        }
    }
}

impl AgentLoop<'_> {
    /// Ends the loop, and keeps the rounds that the caller does not see. The last response is the
    /// model's own, or a mixed one if calls were run and others are pending. At the depth limit it is
    /// the model's own, whose calls were not run. The `airlock` object is added if there were calls,
    /// and the sum of the usage if there were rounds; a response without either keeps its text.
    pub(super) async fn end(
        self: Box<Self>,
        mut answer: Box<Answer>,
        mut pending: Vec<PendingCall>,
        ended: &[CallOutcome],
    ) -> Completion {
        pending.sort_by_key(|pending| pending.call.position);
        let is_in_text = self.has_results_in_text(&pending);
        if !is_in_text && !pending.is_empty() {
            // Boxed, like the end of a stream: the future of this end is made for each request.
            Box::pin(self.keep(&answer.reply, &pending, ended)).await;
        }
        let form = self.last_form(is_in_text, &answer.reply, &pending);
        let Self { relay, trace, mut usage, allowance, conversation, listener, is_chat, .. } =
            *self;
        let rounds = allowance.rounds;
        // The first response has its own usage, and a chunk that stays as it is keeps its text.
        let earlier_rounds = rounds - u32::from(!ended.is_empty());
        if earlier_rounds > 0 || !is_chat {
            usage.add(answer.usage());
        }
        if relay.is_none() && is_chat {
            answer.remove_repeated_calls(&conversation.names);
        }
        // A caller that reads slowly does not hold them.
        drop((allowance, conversation));
        let airlock = trace.extension(rounds, &pending).await;
        if let Some(cost) = trace.cost() {
            listener.emitter.costs(cost);
        }
        let usage = usage.into_value();
        let sum = usage.as_ref().and_then(Value::as_object).filter(|_| earlier_rounds > 0);
        let sum = sum.cloned().map(chat::read_usage);
        if let Some(relay) = relay {
            drop(answer);
            let is_described = airlock.is_some();
            let is_mixed = form.is_mixed();
            let own_text = form.into_text();
            let end = StreamEnd { pending: &pending, is_mixed, own_text, usage: sum, is_described };
            Box::pin(relay.finish(end, &listener.emitter)).await;
            return Completion { answer: None, usage, airlock };
        }
        let is_own = matches!(form, LastForm::Own);
        if !is_chat || !is_own || airlock.is_some() || sum.is_some() {
            answer.drop_exact();
        }
        form.apply(&mut answer.reply, &pending);
        answer.reply.usage = sum.or(answer.reply.usage.take());
        Completion { answer: Some(*answer), usage, airlock }
    }

    /// Returns the form of the last response. With `is_in_text`, results are part of its text.
    fn last_form(&self, is_in_text: bool, reply: &Reply, pending: &[PendingCall]) -> LastForm {
        if pending.is_empty() {
            return LastForm::Own;
        }
        let is_mixed = self.trace.has_results() && !PendingReason::is_depth_limit(pending);
        match (is_mixed, is_in_text) {
            (true, true) => LastForm::Summary(answer::summary(self.trace.results())),
            (true, false) => LastForm::Pending,
            (false, true) => {
                self.approval_note(reply, pending).map_or(LastForm::Own, LastForm::Note)
            }
            (false, false) => LastForm::Own,
        }
    }

    /// Returns whether results are part of the text, if calls ran and others are pending.
    fn has_results_in_text(&self, pending: &[PendingCall]) -> bool {
        // Where rounds end the loop, the response is the model's own.
        if PendingReason::is_depth_limit(pending) {
            return false;
        }
        match self.settings.results_as_text {
            ResultsAsText::Never => false,
            ResultsAsText::Always => true,
            ResultsAsText::Auto if self.keeper.is_none() || !pending.iter().any(is_found) => true,
            ResultsAsText::Auto => {
                pending.iter().all(|pending| !matches!(pending.reason, PendingReason::NotOffered))
                    && !self.conversation.wants_json()
            }
        }
    }

    /// Returns the note about calls that wait for an approval, for a caller without tools of its own.
    fn approval_note(&self, reply: &Reply, pending: &[PendingCall]) -> Option<String> {
        let takes_note =
            !self.conversation.prompt.has_own_tools() && !self.conversation.wants_json();
        let interface = if self.caller.is_for_program() {
            CallerInterface::Library
        } else {
            CallerInterface::Http
        };
        takes_note.then(|| answer::approval_note(reply, pending, interface)).flatten()
    }

    /// Keeps the calls that ran, for the request that answers the pending ones.
    async fn keep(&self, reply: &Reply, pending: &[PendingCall], ended: &[CallOutcome]) {
        let Some(keeper) = &self.keeper else { return };
        let choices: BTreeSet<u64> = pending.iter().map(|pending| pending.call.choice).collect();
        let Some(sent) = self.conversation.as_sent().as_chat(&self.allowance.held).await else {
            return;
        };
        let trail = keeper.trail_of(sent).await;
        let mut before = self.conversation.kept_items();
        // They become a part of another request, which has placeholders of its own.
        if let Some(placeholders) = self.conversation.placeholders.get() {
            restore_items(&mut before, placeholders);
        }
        // Written once: all choices have them.
        let before = conversation::texts(before, self.caller.view().tenant()).await;
        // A provider may send more than were asked for, and each has a record with all rounds.
        let asked = self.conversation.prompt.choices().min(MAX_REQUESTED_CHOICES);
        for choice in choices.into_iter().filter(|choice| *choice < asked) {
            let rounds = conversation::rounds(&before, choice, reply, pending, ended);
            let Some(rounds) = rounds.filter(Rounds::has_run) else { continue };
            // Once as it is, and once as the text that is kept.
            let has_room = self.allowance.held.grow(rounds.bytes().saturating_mul(2));
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
