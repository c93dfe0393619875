//! The steps of the model: a gateway stores, sends and receives; the person decides; time passes.

use super::{
    action::ModelAction,
    gateway::{GatewayCall, LastTransaction, ModelGateway, RunningScript},
    journal::{JournalStep, RunEnd},
    record::Fault,
    run::{ApprovalNeed, ModelRun},
    state::ModelState,
};
use crate::run::{Phase, Refused, Stage};

impl ModelState {
    /// Takes a step. A step that is refused leaves the journal as it was.
    pub(super) fn take(&mut self, run: &ModelRun, action: ModelAction) {
        // A decision that is refused changes nothing. A gateway notes its own refusals.
        let _: Result<(), Refused> = match action {
            ModelAction::Tick => {
                self.now_ms += 1;
                Ok(())
            }
            ModelAction::Redefine => {
                self.definition = 1;
                Ok(())
            }
            ModelAction::Decide(line, decision) => {
                let decided = self.decide(line, decision);
                self.decisions += u32::from(decided.is_ok());
                decided
            }
            ModelAction::Cancel => self.cancel(),
            ModelAction::Claim(gateway) => self.claim(run, gateway),
            ModelAction::Crash(gateway) => {
                self.gateways[gateway] = ModelGateway::Idle;
                Ok(())
            }
            ModelAction::Intend(gateway, _)
            | ModelAction::Send(gateway, _)
            | ModelAction::Answer(gateway, _)
            | ModelAction::Renew(gateway)
            | ModelAction::Stop(gateway)
            | ModelAction::Abandon(gateway) => {
                step(self, run, gateway, action);
                Ok(())
            }
        };
    }
}

/// Takes a step of gateway `own`.
fn step(state: &mut ModelState, run: &ModelRun, own: usize, action: ModelAction) {
    let ModelGateway::Runs(mut script) = state.gateways[own].clone() else { return };
    let stopped = match action {
        ModelAction::Intend(_, line) => script.intend(state, run, line),
        ModelAction::Send(_, line) => {
            script.send(state, run, line);
            Ok(false)
        }
        ModelAction::Answer(_, line) => script.answer(state, run, line),
        ModelAction::Renew(_) => script.store(state, run, vec![JournalStep::Renew]).map(|()| false),
        ModelAction::Stop(_) => script.finish(state, run),
        ModelAction::Abandon(_) => {
            script.end(state, run, RunEnd::Cancelled);
            Ok(true)
        }
        _ => return,
    };
    state.gateways[own] = match stopped {
        // Its end would be refused too, once another gateway has the run.
        Ok(true) | Err(Refused::Superseded | Refused::Ended) => ModelGateway::Idle,
        Ok(false) => {
            script.advance(run, state.definition);
            ModelGateway::Runs(script)
        }
        Err(refused) => {
            script.refused(refused);
            ModelGateway::Runs(script)
        }
    };
}

/// Result of a step: whether the script is done.
type Stopped = Result<bool, Refused>;

impl RunningScript {
    /// Stores `steps`, after those that are not stored yet. All of them are lost if they are
    /// refused.
    fn store(
        &mut self,
        state: &mut ModelState,
        run: &ModelRun,
        steps: Vec<JournalStep>,
    ) -> Result<(), Refused> {
        let is_answer = matches!(steps[..], [JournalStep::Answer(..)]) && self.unstored.is_empty();
        let all = self.unstored(run).into_iter().chain(steps);
        let stored = state.journal.steps(self.epoch, all, state.now_ms)?;
        if !is_answer && stored.epoch() != self.epoch {
            state.faults.push(Fault::ChangedByOther);
        }
        state.commit(stored);
        Ok(())
    }

    fn intend(&mut self, state: &mut ModelState, run: &ModelRun, line: usize) -> Stopped {
        let GatewayCall::Due { attempts, definition, is_approved } = self.calls[line] else {
            return Ok(false);
        };
        let called = run.called[line][definition].clone();
        let stored = self.store(state, run, vec![JournalStep::Intend(line, called)]);
        self.calls[line] = match stored {
            Ok(()) => GatewayCall::Intended { attempt: attempts + 1, definition, is_approved },
            // It is asked for again.
            Err(Refused::Expired | Refused::Redefined) => GatewayCall::Waits { definition },
            Err(refused) => return Err(refused),
        };
        Ok(false)
    }

    fn send(&mut self, state: &mut ModelState, run: &ModelRun, line: usize) {
        let GatewayCall::Intended { attempt, definition, is_approved } = self.calls[line] else {
            return;
        };
        if run.script[line].approval == ApprovalNeed::Within && !is_approved {
            self.calls[line] = GatewayCall::Waits { definition };
        } else {
            state.faults.extend(state.journal.rows[line].record.is_sent(attempt));
            self.calls[line] = GatewayCall::Sent { attempt };
        }
    }

    fn answer(&mut self, state: &mut ModelState, run: &ModelRun, line: usize) -> Stopped {
        let GatewayCall::Sent { attempt } = self.calls[line] else { return Ok(false) };
        // What waits to be stored before it needs the lease, and is refused with it.
        let is_due = self.unstored.is_empty() || self.has_run(state);
        let stored = self.store(state, run, vec![JournalStep::Answer(line, attempt)]);
        let waiting = [Stage::Sent { attempt }, Stage::InDoubt { attempt }].map(Some);
        if stored.is_err() && is_due && waiting.contains(&state.journal.rows[line].stage()) {
            state.faults.push(Fault::AnswerRefused);
        }
        stored?;
        self.calls[line] = GatewayCall::Answered;
        Ok(false)
    }

    /// Suspends or ends the run. A suspension that is refused is followed by the end.
    fn finish(&mut self, state: &mut ModelState, run: &ModelRun) -> Stopped {
        match self.stop {
            None => Ok(false),
            Some(LastTransaction::Suspends) => {
                let asks = self.asks(run).chain([JournalStep::Suspend]).collect();
                self.store(state, run, asks).map(|()| true)
            }
            Some(LastTransaction::Ends(outcome)) => {
                self.end(state, run, outcome);
                Ok(true)
            }
        }
    }

    fn end(&mut self, state: &mut ModelState, run: &ModelRun, outcome: RunEnd) {
        // Before the run is stored, it is this gateway's.
        let has_run = self.begins || self.has_run(state);
        if self.store(state, run, vec![JournalStep::End(outcome)]).is_err() && has_run {
            state.faults.push(Fault::EndRefused);
        }
    }

    /// Returns whether no other gateway has taken the run over, and it has not ended.
    fn has_run(&self, state: &ModelState) -> bool {
        state.journal.lease.is_some_and(|lease| {
            lease.epoch == self.epoch && matches!(lease.phase, Phase::Running { .. })
        })
    }
}
