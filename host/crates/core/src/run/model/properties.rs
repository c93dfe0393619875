//! Properties that hold in every state, and those that hold in some.

use stateright::Property;

use super::{
    gateway::{GatewayCall, ModelGateway},
    journal::{AnswerSource, JournalRow, PersonDecision},
    record::Fault,
    run::{ApprovalNeed, ModelRun},
    state::ModelState,
};
use crate::run::{Phase, Stage};

type Condition = fn(&ModelRun, &ModelState) -> bool;

fn always(name: &'static str, condition: Condition) -> Property<ModelRun> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: Condition) -> Property<ModelRun> {
    Property::sometimes(name, condition)
}

macro_rules! never {
    ($($name:literal: $fault:ident,)*) => {
        [$(always($name, |_, state| !state.faults.contains(&Fault::$fault)),)*]
    };
}

/// Returns the properties of a run: those that every run has, and those that show that the steps of
/// this one are really reached.
pub(super) fn all(run: &ModelRun) -> Vec<Property<ModelRun>> {
    let mut all = in_every_state();
    all.extend(in_some_state());
    if run.script.iter().any(|line| !line.is_repeatable) {
        all.extend(in_some_state_with_write());
    }
    if run.script.iter().any(|line| line.approval != ApprovalNeed::No) {
        all.extend(in_some_state_with_approval());
    }
    if run.redefines {
        all.push(sometimes("an approval for an old definition is asked for again", |_, s| {
            s.journal.rows.iter().any(|row| is_asked_again(row) && row.has_definition("new"))
        }));
    }
    all
}

fn in_every_state() -> Vec<Property<ModelRun>> {
    let mut all = Vec::from(never! {
        "each attempt has a number of its own": AttemptReused,
        "no message is sent twice": SentTwice,
        "no call is sent before its intent is stored": SentWithoutIntent,
        "an approval is used at most once": NotGranted,
        "no approval is used after its expiry": UsedAfterExpiry,
        "no approval is used for another definition": UsedForOtherDefinition,
        "no attempt begins at a call that was answered or denied, or after the end": BegunTooLate,
        "an answered call keeps its answer": AnswerLost,
        "a denied call stays denied": DenialLost,
        "an answer is that of the last attempt": AnswerOfOther,
        "an answer that the journal waits for is never refused": AnswerRefused,
        "the gateway that has the run can end it, even if it is cancelled": EndRefused,
        "a run that has ended stays so": Revived,
        "a gateway that has lost the run changes answers alone": ChangedByOther,
    });
    all.push(always("a write is sent once, and once more for each retry", |run, s| {
        let lines = run.script.iter().zip(&s.journal.rows);
        lines
            .into_iter()
            .all(|(line, row)| line.is_repeatable || row.record.sends() <= 1 + row.record.retries)
    }));
    all.push(always("a call that needs approvals is sent once for each", |run, s| {
        let lines = run.script.iter().zip(&s.journal.rows);
        lines.into_iter().all(|(line, row)| {
            line.approval == ApprovalNeed::No || row.record.sends() <= row.record.grants
        })
    }));
    all.push(always("a call that was denied before any attempt is never sent", |_, s| {
        let mut denied = s.journal.rows.iter().filter(|row| row.stage() == Some(Stage::Denied));
        denied.all(|row| row.record.intended != 0 || row.record.sent == 0)
    }));
    all.push(always("no two gateways have the same epoch", |_, s| match &s.gateways {
        [ModelGateway::Runs(one), ModelGateway::Runs(other)] => one.epoch != other.epoch,
        _ => true,
    }));
    all.push(always("a run that has ended has an outcome", |_, s| {
        s.journal.has_ended() == s.journal.outcome.is_some()
    }));
    all.push(always("the run can end", ModelRun::can_end));
    all
}

fn in_some_state() -> Vec<Property<ModelRun>> {
    vec![
        sometimes("the script completes, each call sent at most once", |run, s| {
            let lines = run.script.iter().zip(&s.journal.rows);
            s.journal.has_completed()
                && lines.into_iter().all(|(line, row)| {
                    row.stage() == Some(Stage::Answered)
                        && match row.answer {
                            Some(AnswerSource::Repeatable) => line.is_repeatable,
                            Some(AnswerSource::Attempt(_)) => row.record.sends() == 1,
                            _ => false,
                        }
                })
        }),
        sometimes("a gateway takes over from one that has stalled", |_, s| {
            s.gateways.iter().all(|gateway| matches!(gateway, ModelGateway::Runs(_)))
        }),
        sometimes("a gateway ends a run whose cancellation was requested", |_, s| {
            s.journal.has_ended() && s.journal.is_cancelled()
        }),
        sometimes("a run is suspended", |_, s| {
            s.journal.lease.is_some_and(|lease| lease.phase == Phase::Suspended)
        }),
    ]
}

fn in_some_state_with_write() -> Vec<Property<ModelRun>> {
    vec![
        sometimes("a call is in doubt", |_, s| {
            s.journal.rows.iter().any(|row| matches!(row.stage(), Some(Stage::InDoubt { .. })))
        }),
        sometimes("a stalled gateway stores an answer after another has the run", |_, s| {
            s.gateways.iter().any(|gateway| {
                let ModelGateway::Runs(script) = gateway else { return false };
                script.calls.iter().zip(&s.journal.rows).any(|(known, row)| {
                    *known == GatewayCall::InDoubt
                        && matches!(row.answer, Some(AnswerSource::Attempt(_)))
                })
            })
        }),
        sometimes("a retry sends a write for the second time, and completes", |_, s| {
            let mut rows = s.journal.rows.iter();
            s.journal.has_completed()
                && rows.any(|row| row.record.retries == 1 && row.record.sends() == 2)
        }),
        sometimes("a person answers a call in doubt, and the script completes", |_, s| {
            let mut rows = s.journal.rows.iter();
            s.journal.has_completed() && rows.any(|row| row.answer == Some(AnswerSource::Person))
        }),
    ]
}

fn in_some_state_with_approval() -> Vec<Property<ModelRun>> {
    vec![
        sometimes("a call is denied, and the script completes", |_, s| {
            let mut rows = s.journal.rows.iter();
            s.journal.has_completed() && rows.any(|row| row.stage() == Some(Stage::Denied))
        }),
        sometimes("a gateway crashes after an approval was used", |_, s| {
            s.gateways == [ModelGateway::Idle, ModelGateway::Idle]
                && s.journal.rows.iter().any(|row| {
                    let is_used = row.record.grants == 1 && row.record.grant.is_none();
                    is_used && row.record.intended != 0
                })
        }),
    ]
}

/// Returns whether an approval was given, became void, and the call waits again.
fn is_asked_again(row: &JournalRow) -> bool {
    let is_pending = matches!(row.stage(), Some(Stage::Pending { .. }));
    is_pending && row.record.grants > 0 && row.record.retries == 0
}

impl JournalRow {
    fn has_definition(&self, definition: &str) -> bool {
        self.call.as_ref().is_some_and(|call| *call.called.definition == *definition)
    }
}

impl ModelRun {
    /// Returns whether some sequence of steps ends the run, and none of them is a crash: to cancel
    /// the run once its lease has expired, and also to continue it then, with a person who decides
    /// about each call that needs it. The second one must complete the script. Only states without
    /// a gateway are examined: any other leads to one of them, because each gateway can crash.
    fn can_end(&self, state: &ModelState) -> bool {
        if state.gateways != [ModelGateway::Idle, ModelGateway::Idle] || !state.journal.is_stored()
        {
            return true;
        }
        let mut state = state.clone();
        state.now_ms = state.journal.free_at(state.now_ms);
        let mut cancelled = state.clone();
        let is_cancelled = cancelled.cancel().is_ok() && cancelled.journal.has_ended();
        state.journal.has_ended()
            || is_cancelled && (state.journal.is_cancelled() || self.completes(state))
    }

    /// Continues a run that no gateway runs. Returns whether its script completes.
    fn completes(&self, mut state: ModelState) -> bool {
        // Each round decides about the calls of at least one block.
        for _ in 0..=2 * self.script.len() {
            for line in 0..self.script.len() {
                for decision in [PersonDecision::Approve, PersonDecision::Skip] {
                    // Refused where there is nothing to decide.
                    let _ = state.decide(line, decision);
                }
            }
            if state.claim(self, 0).is_err() {
                return false;
            }
            while let ModelGateway::Runs(_) = state.gateways[0] {
                let mut steps = Vec::new();
                state.gateways[0].steps(0, &mut steps);
                let Some(step) = steps.first() else { return false };
                state.take(self, *step);
            }
            if state.journal.has_completed() {
                return state.faults.is_empty();
            }
        }
        false
    }
}
