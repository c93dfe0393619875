//! Steps and decisions. Each is made within one transaction.

pub(super) mod call;
pub(super) mod read;
mod removal;
mod room;
mod row;
mod tx;

use std::{collections::BTreeMap, sync::Arc};

use airlock_core::run::{Call, Called, Cancelled, Lease, Phase, Position, Refused};
use uuid::Uuid;

pub(super) use self::tx::{ChangeFailure, Tx};
use self::{
    call::AnsweredCall,
    row::FoundRun,
    tx::{Done, about},
};
use super::stored::{NewRun, RunDecision, RunError, RunStep, StoredRun};
use airlock_database::{columns::milliseconds, revision::ChangeKind};

impl Tx<'_> {
    /// Makes steps of the process of `epoch`. If the run stops with them, room is made; beyond the
    /// bound of all owners only if it `sweeps`.
    pub(super) fn steps(
        &self,
        id: &str,
        epoch: i64,
        mut steps: Vec<RunStep>,
        sweeps: bool,
    ) -> Done<()> {
        let begins = matches!(steps.first(), Some(RunStep::Begin(_))).then(|| steps.remove(0));
        let found = match begins {
            Some(RunStep::Begin(new)) if is_rest_of_whole(&steps) => {
                self.whole(id, epoch, &new, steps)?
            }
            Some(RunStep::Begin(new)) => {
                let lease = Lease::begin(self.now, self.lease_ms());
                let begun = self.begin(id, &new, lease, None, 0)?;
                self.rest(begun, epoch, steps)?
            }
            _ => self.rest(self.find(id)?, epoch, steps)?,
        };
        match found.lease.phase {
            Phase::Running { .. } => Ok(()),
            Phase::Suspended => {
                self.make_room(found.number, sweeps)?;
                // Operators see its calls in the list of those that wait.
                Ok(self.sql.announce(ChangeKind::Approvals)?)
            }
            Phase::Ended => Ok(self.make_room(found.number, sweeps)?),
        }
    }

    /// Writes a run that has ended, at once: one that has only read. `rest` is as
    /// [`is_rest_of_whole`] has it.
    fn whole(&self, id: &str, epoch: i64, new: &NewRun, mut rest: Vec<RunStep>) -> Done<FoundRun> {
        let outcome = match rest.pop() {
            Some(RunStep::End(outcome)) => outcome,
            _ => String::new(),
        };
        let lease = Lease::begin(self.now, self.lease_ms()).end(epoch)?;
        let mut records: BTreeMap<Position, (Call, Arc<str>)> = BTreeMap::new();
        for step in rest {
            if let RunStep::Record(position, called, answer) = step {
                let present = records.get(&position).map(|(call, _)| call);
                let call = Call::record(present, called).map_err(about(position))?;
                records.insert(position, (call, answer));
            }
        }
        let bytes = records.values().map(|(call, answer)| call::bytes(&call.called, Some(answer)));
        let ended = self.begin(id, new, lease, Some(&outcome), bytes.sum())?;
        self.insert_records(ended.number, &records)?;
        Ok(ended)
    }

    /// Makes the steps after the first one, if that begins the run.
    fn rest(&self, mut found: FoundRun, epoch: i64, steps: Vec<RunStep>) -> Done<FoundRun> {
        let mut records = Vec::new();
        for step in steps {
            if !matches!(step, RunStep::Record(..)) {
                self.record(found.number, std::mem::take(&mut records))?;
            }
            found.lease = self.step(found, epoch, step, &mut records)?;
        }
        self.record(found.number, records)?;
        found.lease = found.lease.touched(epoch, self.now, self.lease_ms());
        self.set_lease(&found)?;
        Ok(found)
    }

    /// Makes a step. Returns the lease after it. A record is added to `records`, which the caller
    /// writes: those that follow each other at once.
    fn step(
        &self,
        FoundRun { number, lease }: FoundRun,
        epoch: i64,
        step: RunStep,
        records: &mut Vec<AnsweredCall>,
    ) -> Done<Lease> {
        match step {
            RunStep::Begin(_) => return Err(Refused::Running.into()),
            // An answer is a fact and needs no lease.
            RunStep::Answer(position, attempt, answer) => {
                self.answer(number, position, attempt, &answer)?;
            }
            RunStep::Ask(position, called) => {
                lease.check(epoch)?;
                let present = self.call(number, position)?;
                let asked = Call::ask(present.as_ref(), called, self.now);
                self.put(number, position, &asked.map_err(about(position))?, present.as_ref())?;
            }
            RunStep::Intend(position, called) => {
                lease.check(epoch)?;
                let present = self.call(number, position)?;
                let sent = Call::intend(present.as_ref(), called, self.now);
                self.put(number, position, &sent.map_err(about(position))?, present.as_ref())?;
            }
            RunStep::Record(position, called, answer) => {
                lease.check_held(epoch)?;
                self.grow(call::bytes(&called, Some(&answer)));
                records.push(AnsweredCall { position, called, answer });
            }
            RunStep::Renew => return Ok(lease.renew(epoch, self.now, self.lease_ms())?),
            RunStep::Suspend => return Ok(lease.suspend(epoch)?),
            RunStep::End(outcome) => {
                let ended = lease.end(epoch)?;
                self.set_outcome(number, &outcome)?;
                return Ok(ended);
            }
        }
        Ok(lease)
    }

    /// Takes a run over, in an epoch that cannot be guessed.
    pub(super) fn claim(&self, id: &str) -> Done<StoredRun> {
        let mut found = self.find(id)?;
        let skipped = Uuid::new_v4().as_fields().0;
        found.lease = found.lease.claim(self.now, self.lease_ms(), skipped)?;
        self.set_lease(&found)?;
        self.doubt(found.number)?;
        let run = read::get(self.sql, Some(self.scope), id)?;
        Ok(run.ok_or(RunError::Unknown)?)
    }

    /// Makes decisions of a person. Returns the names of the tools of the calls.
    pub(super) fn decide(
        &self,
        id: &str,
        shown: Option<i64>,
        decisions: Vec<(Position, RunDecision)>,
    ) -> Done<Vec<Called>> {
        let found = self.find(id)?;
        found.lease.can_go_on(self.now)?;
        if shown.is_some_and(|epoch| epoch != found.lease.epoch) {
            return Err(Refused::Changed.into());
        }
        let until = self.now.saturating_add(milliseconds(self.bounds.approval));
        let mut decided_calls = Vec::with_capacity(decisions.len());
        for (position, decision) in decisions {
            let call = self.call(found.number, position)?;
            // The calls of a run whose process has ended are as the next process finds them.
            let call = call.ok_or(RunError::NoCall(position))?.claimed();
            let (decided, answer) = match decision {
                RunDecision::Approve => (call.approve(until), None),
                RunDecision::Deny(answer) => (call.deny(), answer),
                RunDecision::Retry => (call.retry(until), None),
                RunDecision::RetryApproved => (call.retry_approved(until), None),
                RunDecision::Skip(answer) => (call.skip(), Some(answer)),
            };
            let stage = decided.map_err(about(position))?.stage;
            self.set_decision(found.number, position, stage, answer.as_deref())?;
            decided_calls.push(call.called);
        }
        self.set_lease(&found)?;
        self.sql.announce(ChangeKind::Approvals)?;
        Ok(decided_calls)
    }

    /// Ends a run, or requests it.
    pub(super) fn cancel(&self, id: &str, outcome: &str) -> Done<Cancelled> {
        let mut found = self.find(id)?;
        let (lease, cancelled) = found.lease.cancel(self.now)?;
        found.lease = lease;
        if cancelled == Cancelled::Ended {
            self.set_outcome(found.number, outcome)?;
        }
        self.set_lease(&found)?;
        Ok(cancelled)
    }
}

/// Returns whether the steps after the begin of a run are all that it has: answered calls and its end.
fn is_rest_of_whole(steps: &[RunStep]) -> bool {
    let Some((RunStep::End(_), records)) = steps.split_last() else { return false };
    records.iter().all(|step| matches!(step, RunStep::Record(..)))
}
