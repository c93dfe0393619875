//! Properties that hold in every state, and those that hold in some.

use stateright::Property;

use super::{
    Approval, Run, State,
    gateway::{Gateway, Known},
    journal::{Answer, Row},
    record::Fault,
};
use crate::run::{Phase, Stage};

type Condition = fn(&Run, &State) -> bool;

fn always(name: &'static str, condition: Condition) -> Property<Run> {
    Property::always(name, condition)
}

fn sometimes(name: &'static str, condition: Condition) -> Property<Run> {
    Property::sometimes(name, condition)
}

macro_rules! never {
    ($($name:literal: $fault:ident,)*) => {
        [$(always($name, |_, state| !state.faults.contains(&Fault::$fault)),)*]
    };
}

/// Returns the properties of a run: those that every run has, and those that show that the steps of
/// this one are really reached.
pub(super) fn of(run: &Run) -> Vec<Property<Run>> {
    let mut all = in_every_state();
    all.extend(in_some_state());
    if run.script.iter().any(|line| !line.is_repeatable) {
        all.extend(in_some_state_with_write());
    }
    if run.script.iter().any(|line| line.approval != Approval::No) {
        all.extend(in_some_state_with_approval());
    }
    if run.redefines {
        all.push(sometimes("an approval for an old definition is asked for again", |_, s| {
            s.journal.rows.iter().any(|row| is_asked_again(row) && row.has_definition("new"))
        }));
    }
    all
}

fn in_every_state() -> Vec<Property<Run>> {
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
            line.approval == Approval::No || row.record.sends() <= row.record.grants
        })
    }));
    all.push(always("a call that was denied before any attempt is never sent", |_, s| {
        let mut denied = s.journal.rows.iter().filter(|row| row.stage() == Some(Stage::Denied));
        denied.all(|row| row.record.intended != 0 || row.record.sent == 0)
    }));
    all.push(always("no two gateways have the same epoch", |_, s| match &s.gateways {
        [Gateway::Runs(one), Gateway::Runs(other)] => one.epoch != other.epoch,
        _ => true,
    }));
    all.push(always("a run that has ended has an outcome", |_, s| {
        s.journal.has_ended() == s.journal.outcome.is_some()
    }));
    all.push(always("the run can end", Run::can_end));
    all
}

fn in_some_state() -> Vec<Property<Run>> {
    vec![
        sometimes("the script completes, each call sent at most once", |run, s| {
            let lines = run.script.iter().zip(&s.journal.rows);
            s.journal.has_completed()
                && lines.into_iter().all(|(line, row)| {
                    row.stage() == Some(Stage::Answered)
                        && match row.answer {
                            Some(Answer::Repeatable) => line.is_repeatable,
                            Some(Answer::Attempt(_)) => row.record.sends() == 1,
                            _ => false,
                        }
                })
        }),
        sometimes("a gateway takes over from one that has stalled", |_, s| {
            s.gateways.iter().all(|gateway| matches!(gateway, Gateway::Runs(_)))
        }),
        sometimes("a gateway ends a run whose cancellation was requested", |_, s| {
            s.journal.has_ended() && s.journal.is_cancelled()
        }),
        sometimes("a run is suspended", |_, s| {
            s.journal.lease.is_some_and(|lease| lease.phase == Phase::Suspended)
        }),
    ]
}

fn in_some_state_with_write() -> Vec<Property<Run>> {
    vec![
        sometimes("a call is in doubt", |_, s| {
            s.journal.rows.iter().any(|row| matches!(row.stage(), Some(Stage::InDoubt { .. })))
        }),
        sometimes("a stalled gateway stores an answer after another has the run", |_, s| {
            s.gateways.iter().any(|gateway| {
                let Gateway::Runs(script) = gateway else { return false };
                script.calls.iter().zip(&s.journal.rows).any(|(known, row)| {
                    *known == Known::InDoubt && matches!(row.answer, Some(Answer::Attempt(_)))
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
            s.journal.has_completed() && rows.any(|row| row.answer == Some(Answer::Person))
        }),
    ]
}

fn in_some_state_with_approval() -> Vec<Property<Run>> {
    vec![
        sometimes("a call is denied, and the script completes", |_, s| {
            let mut rows = s.journal.rows.iter();
            s.journal.has_completed() && rows.any(|row| row.stage() == Some(Stage::Denied))
        }),
        sometimes("a gateway crashes after an approval was used", |_, s| {
            s.gateways == [Gateway::Idle, Gateway::Idle]
                && s.journal.rows.iter().any(|row| {
                    let is_used = row.record.grants == 1 && row.record.grant.is_none();
                    is_used && row.record.intended != 0
                })
        }),
    ]
}

/// Returns whether an approval was given, became void, and the call waits again.
fn is_asked_again(row: &Row) -> bool {
    let is_pending = matches!(row.stage(), Some(Stage::Pending { .. }));
    is_pending && row.record.grants > 0 && row.record.retries == 0
}

impl Row {
    fn has_definition(&self, definition: &str) -> bool {
        self.call.as_ref().is_some_and(|call| *call.called.definition == *definition)
    }
}
