//! The end of the loop: the last response, with its pending calls and the record of the others.

use std::collections::BTreeSet;

use super::{AgentLoop, CallOutcome, Completion, Document, PendingCall, PendingReason};
use crate::{
    EXTENSION, ResultsAsText, answer,
    recall::{self, chat::Rounds},
    relay::StreamEnd,
};
use airlock_model::Object;

impl AgentLoop<'_> {
    /// Ends the loop, and keeps the rounds that the caller does not see. The last response is the
    /// model's own, or a mixed one if calls were run and others are pending. At the depth limit it is
    /// the model's own, whose calls were not run. The `airlock` object is added if there were calls,
    /// and the sum of the usage if there were rounds; a response without either keeps its text.
    pub(super) async fn end(
        self,
        mut answer: Document,
        mut pending: Vec<PendingCall>,
        ended: &[CallOutcome],
    ) -> Completion {
        pending.sort_by_key(|pending| pending.call.position);
        let is_in_text = self.has_results_in_text(&pending);
        if !is_in_text && !pending.is_empty() {
            self.keep(answer.object(), &pending, ended).await;
        }
        let is_mixed = self.trace.has_results()
            && !pending.is_empty()
            && !PendingReason::is_depth_limit(&pending);
        let own_text = match (is_mixed, is_in_text) {
            (_, false) => None,
            (true, true) => Some(answer::summary(self.trace.results())),
            (false, true) if pending.is_empty() => None,
            (false, true) => self.approval_note(answer.object(), &pending),
        };
        let Self { relay, trace, usage, allowance, conversation, listener, .. } = self;
        let rounds = allowance.rounds;
        // A caller that reads slowly does not hold them.
        drop((allowance, conversation));
        let airlock = trace.extension(rounds, &pending);
        let usage = usage.into_value();
        // The first response has its own usage, and a chunk that stays as it is keeps its text.
        let earlier_rounds = rounds - u32::from(!ended.is_empty());
        let sum = usage.as_ref().filter(|_| earlier_rounds > 0);
        if let Some(relay) = relay {
            let answer = answer.into_object();
            let end = StreamEnd {
                answer: &answer,
                pending: &pending,
                is_mixed,
                own_text,
                usage: sum,
                airlock: airlock.clone(),
            };
            relay.finish(end, &listener.emitter).await;
            return Completion { answer: None, usage, airlock };
        }
        match (is_mixed, own_text) {
            (true, Some(summary)) => answer::mix(answer.object_mut(), &summary, &pending),
            (true, None) => answer::remove_ended(answer.object_mut(), &pending),
            (false, Some(note)) => answer::set_text(answer.object_mut(), note),
            (false, None) => {}
        }
        if let Some(airlock) = airlock.clone() {
            answer.object_mut().insert(EXTENSION.to_owned(), airlock.into());
        }
        if let Some(sum) = sum {
            answer.object_mut().insert("usage".to_owned(), sum.clone());
        }
        Completion { answer: Some(answer), usage, airlock }
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
    fn approval_note(&self, answer: &Object, pending: &[PendingCall]) -> Option<String> {
        let takes_note =
            !self.conversation.prompt.has_own_tools() && !self.conversation.wants_json();
        takes_note.then(|| answer::approval_note(answer, pending)).flatten()
    }

    /// Keeps the calls that ran, for the request that answers the pending ones.
    async fn keep(&self, answer: &Object, pending: &[PendingCall], ended: &[CallOutcome]) {
        let Some(keeper) = &self.keeper else { return };
        let choices: BTreeSet<usize> = pending.iter().map(|pending| pending.call.choice).collect();
        let trail = keeper.trail_of(self.conversation.sent()).await;
        // A provider may send more than were asked for, and each has a record with all rounds.
        let asked = self.conversation.choices();
        for choice in choices.into_iter().filter(|choice| *choice < asked) {
            let rounds = self.conversation.rounds(choice, answer, pending, ended);
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
