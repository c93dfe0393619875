//! The stored part of a run. Each function is one transaction: it returns the journal after it, or
//! the reason that it is not made. They are those of the store: `steps`, `claim`, `decide`, `cancel`.

use super::record::{CallHistory, Grant};
use crate::run::{Call, Called, Cancelled, Lease, Phase, Refused, Stage};

/// Time for which a gateway has a lease.
const LEASE_MS: i64 = 1;
/// Time for which an approval is valid.
const APPROVAL_MS: i64 = 2;

/// The tables of one run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Journal {
    /// `None` before the run is stored.
    pub(super) lease: Option<Lease>,
    pub(super) outcome: Option<RunEnd>,
    pub(super) rows: Vec<JournalRow>,
}

/// A call, by its line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct JournalRow {
    pub(super) call: Option<Call>,
    pub(super) answer: Option<AnswerSource>,
    pub(super) record: CallHistory,
}

/// Source of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum AnswerSource {
    /// A call without an intent.
    Repeatable,
    Attempt(u32),
    Person,
}

/// End of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum RunEnd {
    Completed,
    Failed,
    Cancelled,
}

/// A step of a gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JournalStep {
    Begin,
    Ask(usize, Called),
    Intend(usize, Called),
    Answer(usize, u32),
    Record(usize, Called),
    Renew,
    Suspend,
    End(RunEnd),
}

/// A decision of the person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PersonDecision {
    Approve,
    Deny,
    Retry,
    RetryApproved,
    Skip,
}

impl PersonDecision {
    pub(super) const ALL: [Self; 5] =
        [Self::Approve, Self::Deny, Self::Retry, Self::RetryApproved, Self::Skip];
}

impl Journal {
    pub(super) fn new(lines: usize) -> Self {
        Self { lease: None, outcome: None, rows: vec![JournalRow::default(); lines] }
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
        self.has_ended() && self.outcome == Some(RunEnd::Completed)
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
        steps: impl IntoIterator<Item = JournalStep>,
        now_ms: i64,
    ) -> Result<Self, Refused> {
        let mut next = self.clone();
        for step in steps {
            next.step(epoch, step, now_ms)?;
        }
        next.lease = next.lease.map(|lease| lease.touched(epoch, now_ms, LEASE_MS));
        Ok(next)
    }

    fn step(&mut self, epoch: i64, step: JournalStep, now_ms: i64) -> Result<(), Refused> {
        if step == JournalStep::Begin {
            self.lease = Some(Lease::begin(now_ms, LEASE_MS));
            return Ok(());
        }
        let lease = self.found()?;
        match step {
            JournalStep::Begin => {}
            JournalStep::Ask(line, called) => {
                lease.check(epoch)?;
                let row = &mut self.rows[line];
                row.call = Some(Call::ask(row.call.as_ref(), called, now_ms)?);
                row.record.is_asked();
            }
            JournalStep::Intend(line, called) => {
                lease.check(epoch)?;
                let row = &mut self.rows[line];
                let sent = Call::intend(row.call.as_ref(), called, now_ms)?;
                row.record.is_intended(row.call.as_ref(), &sent, now_ms);
                row.call = Some(sent);
            }
            JournalStep::Answer(line, attempt) => {
                let row = &mut self.rows[line];
                let call = row.call.as_ref().ok_or(Refused::Stale)?;
                row.call = Some(call.answer(attempt)?);
                row.answer = Some(AnswerSource::Attempt(attempt));
            }
            JournalStep::Record(line, called) => {
                lease.check_held(epoch)?;
                let row = &mut self.rows[line];
                row.call = Some(Call::record(row.call.as_ref(), called)?);
                row.answer = Some(AnswerSource::Repeatable);
            }
            JournalStep::Renew => self.lease = Some(lease.renew(epoch, now_ms, LEASE_MS)?),
            JournalStep::Suspend => self.lease = Some(lease.suspend(epoch)?),
            JournalStep::End(outcome) => {
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
        decision: PersonDecision,
        now_ms: i64,
    ) -> Result<Self, Refused> {
        self.found()?.can_go_on(now_ms)?;
        let mut next = self.clone();
        let row = &mut next.rows[line];
        let call = row.call.as_ref().ok_or(Refused::NotPending)?.claimed();
        let until_ms = now_ms.saturating_add(APPROVAL_MS);
        let grant = Grant { until_ms, definition: call.called.definition.clone() };
        row.call = Some(match decision {
            PersonDecision::Approve => call.approve(until_ms),
            PersonDecision::Deny => call.deny(),
            PersonDecision::Retry => call.retry(until_ms),
            PersonDecision::RetryApproved => call.retry_approved(until_ms),
            PersonDecision::Skip => call.skip(),
        }?);
        match decision {
            PersonDecision::Approve => row.record.is_granted(grant, false),
            PersonDecision::Retry | PersonDecision::RetryApproved => {
                row.record.is_granted(grant, true);
            }
            PersonDecision::Skip => row.answer = Some(AnswerSource::Person),
            PersonDecision::Deny => row.record.is_asked(),
        }
        Ok(next)
    }

    pub(super) fn cancel(&self, now_ms: i64) -> Result<Self, Refused> {
        let (lease, cancelled) = self.found()?.cancel(now_ms)?;
        let outcome = (cancelled == Cancelled::Ended).then_some(RunEnd::Cancelled);
        Ok(Self { lease: Some(lease), outcome, rows: self.rows.clone() })
    }

    fn found(&self) -> Result<Lease, Refused> {
        // A run that is not stored is unknown; its process learns that it no longer has it.
        self.lease.ok_or(Refused::Ended)
    }
}

impl JournalRow {
    pub(super) fn stage(&self) -> Option<Stage> {
        self.call.as_ref().map(|call| call.stage)
    }
}
