//! The stored part of a run. Each function is one transaction: it returns the journal after it, or
//! the reason that it is not made. They are those of the store: `steps`, `claim`, `decide`, `cancel`.

use super::{
    APPROVAL_MS, LEASE_MS,
    record::{Grant, Record},
};
use crate::run::{Call, Called, Cancelled, Lease, Phase, Refused, Stage};

/// The tables of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Journal {
    /// `None` before the run is stored.
    pub(super) lease: Option<Lease>,
    pub(super) outcome: Option<Outcome>,
    pub(super) rows: Vec<Row>,
}

/// A call, by its line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Row {
    pub(super) call: Option<Call>,
    pub(super) answer: Option<Answer>,
    pub(super) record: Record,
}

/// Source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Answer {
    /// A call without an intent.
    Repeatable,
    Attempt(u32),
    Person,
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Outcome {
    Completed,
    Failed,
    Cancelled,
}

/// A step of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    Begin,
    Ask(usize, Called),
    Intend(usize, Called),
    Answer(usize, u32),
    Record(usize, Called),
    Renew,
    Suspend,
    End(Outcome),
}

/// A decision of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Decision {
    Approve,
    Deny,
    Retry,
    RetryApproved,
    Skip,
}

impl Decision {
    pub(super) const ALL: [Self; 5] =
        [Self::Approve, Self::Deny, Self::Retry, Self::RetryApproved, Self::Skip];
}

impl Journal {
    pub(super) fn new(lines: usize) -> Self {
        Self { lease: None, outcome: None, rows: vec![Row::default(); lines] }
    }

    pub(super) fn is_stored(&self) -> bool {
        self.lease.is_some()
    }

    pub(super) fn epoch(&self) -> i64 {
        self.lease.map_or(0, |lease| lease.epoch)
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.lease.is_some_and(|lease| lease.is_cancelled)
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lease.is_some_and(|lease| lease.phase == Phase::Ended)
    }

    pub(super) fn has_completed(&self) -> bool {
        self.has_ended() && self.outcome == Some(Outcome::Completed)
    }

    /// Returns the first time from `now_ms` at which no gateway has a lease that has not expired.
    pub(super) fn free_at(&self, now_ms: i64) -> i64 {
        match self.lease.map(|lease| lease.phase) {
            Some(Phase::Running { until_ms }) => until_ms.max(now_ms),
            _ => now_ms,
        }
    }

    pub(super) fn steps(
        &self,
        epoch: i64,
        steps: impl IntoIterator<Item = Step>,
        now_ms: i64,
    ) -> Result<Self, Refused> {
        let mut next = self.clone();
        for step in steps {
            next.step(epoch, step, now_ms)?;
        }
        next.lease = next.lease.map(|lease| lease.touched(epoch, now_ms, LEASE_MS));
        Ok(next)
    }

    fn step(&mut self, epoch: i64, step: Step, now_ms: i64) -> Result<(), Refused> {
        if step == Step::Begin {
            self.lease = Some(Lease::begin(now_ms, LEASE_MS));
            return Ok(());
        }
        let lease = self.found()?;
        match step {
            Step::Begin => {}
            Step::Ask(line, called) => {
                lease.check(epoch)?;
                let row = &mut self.rows[line];
                row.call = Some(Call::ask(row.call.as_ref(), called, now_ms)?);
                row.record.is_asked();
            }
            Step::Intend(line, called) => {
                lease.check(epoch)?;
                let row = &mut self.rows[line];
                let sent = Call::intend(row.call.as_ref(), called, now_ms)?;
                row.record.is_intended(row.call.as_ref(), &sent, now_ms);
                row.call = Some(sent);
            }
            Step::Answer(line, attempt) => {
                let row = &mut self.rows[line];
                let call = row.call.as_ref().ok_or(Refused::Stale)?;
                row.call = Some(call.answer(attempt)?);
                row.answer = Some(Answer::Attempt(attempt));
            }
            Step::Record(line, called) => {
                lease.check_held(epoch)?;
                let row = &mut self.rows[line];
                row.call = Some(Call::record(row.call.as_ref(), called)?);
                row.answer = Some(Answer::Repeatable);
            }
            Step::Renew => self.lease = Some(lease.renew(epoch, now_ms, LEASE_MS)?),
            Step::Suspend => self.lease = Some(lease.suspend(epoch)?),
            Step::End(outcome) => {
                self.lease = Some(lease.end(epoch)?);
                self.outcome = Some(outcome);
            }
        }
        Ok(())
    }

    pub(super) fn claim(&self, now_ms: i64) -> Result<Self, Refused> {
        let mut next = self.clone();
        next.lease = Some(self.found()?.claim(now_ms, LEASE_MS, 0)?);
        for row in &mut next.rows {
            row.call = row.call.as_ref().map(Call::claimed);
        }
        Ok(next)
    }

    pub(super) fn decide(
        &self,
        line: usize,
        decision: Decision,
        now_ms: i64,
    ) -> Result<Self, Refused> {
        self.found()?.can_go_on(now_ms)?;
        let mut next = self.clone();
        let row = &mut next.rows[line];
        let call = row.call.as_ref().ok_or(Refused::NotPending)?.claimed();
        let until_ms = now_ms.saturating_add(APPROVAL_MS);
        let grant = Grant { until_ms, definition: call.called.definition.clone() };
        row.call = Some(match decision {
            Decision::Approve => call.approve(until_ms),
            Decision::Deny => call.deny(),
            Decision::Retry => call.retry(until_ms),
            Decision::RetryApproved => call.retry_approved(until_ms),
            Decision::Skip => call.skip(),
        }?);
        match decision {
            Decision::Approve => row.record.is_granted(grant, false),
            Decision::Retry | Decision::RetryApproved => row.record.is_granted(grant, true),
            Decision::Skip => row.answer = Some(Answer::Person),
            Decision::Deny => row.record.is_asked(),
        }
        Ok(next)
    }

    pub(super) fn cancel(&self, now_ms: i64) -> Result<Self, Refused> {
        let (lease, cancelled) = self.found()?.cancel(now_ms)?;
        let outcome = (cancelled == Cancelled::Ended).then_some(Outcome::Cancelled);
        Ok(Self { lease: Some(lease), outcome, rows: self.rows.clone() })
    }

    fn found(&self) -> Result<Lease, Refused> {
        // A run that is not stored is unknown; its process learns that it no longer has it.
        self.lease.ok_or(Refused::Ended)
    }
}

impl Row {
    pub(super) fn stage(&self) -> Option<Stage> {
        self.call.as_ref().map(|call| call.stage)
    }
}
