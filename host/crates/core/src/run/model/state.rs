//! Everything there is at one moment, and the transactions of the person and of a gateway that
//! claims the run.

use super::{
    gateway::ModelGateway,
    journal::{AnswerSource, Journal, PersonDecision},
    record::Fault,
    run::ModelRun,
};
use crate::run::{Refused, Stage};

/// Everything there is at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ModelState {
    pub(super) now_ms: i64,
    /// Index of the definition that each tool has.
    pub(super) definition: usize,
    /// Decisions that the person has made.
    pub(super) decisions: u32,
    pub(super) journal: Journal,
    /// In order, because it does not matter which is which.
    pub(super) gateways: [ModelGateway; 2],
    /// Properties that are broken.
    pub(super) faults: Vec<Fault>,
}

impl ModelState {
    pub(super) fn decide(&mut self, line: usize, decision: PersonDecision) -> Result<(), Refused> {
        let decided = self.journal.decide(line, decision, self.now_ms)?;
        self.commit(decided);
        Ok(())
    }

    pub(super) fn cancel(&mut self) -> Result<(), Refused> {
        let cancelled = self.journal.cancel(self.now_ms)?;
        self.commit(cancelled);
        Ok(())
    }

    pub(super) fn claim(&mut self, run: &ModelRun, gateway: usize) -> Result<(), Refused> {
        let claimed = self.journal.claim(self.now_ms)?;
        self.commit(claimed);
        self.gateways[gateway] = ModelGateway::claim(run, &self.journal, self.definition);
        Ok(())
    }

    pub(super) fn commit(&mut self, journal: Journal) {
        compare(&self.journal, &journal, &mut self.faults);
        self.journal = journal;
    }
}

/// Compares the journals before and after a transaction.
fn compare(before: &Journal, after: &Journal, faults: &mut Vec<Fault>) {
    if before.has_ended() && !after.has_ended() {
        faults.push(Fault::Revived);
    }
    for (old, new) in before.rows.iter().zip(&after.rows) {
        faults.extend(&new.record.faults);
        if old.stage() == Some(Stage::Denied) && new.stage() != Some(Stage::Denied) {
            faults.push(Fault::DenialLost);
        }
        if old.stage() == Some(Stage::Answered)
            && (new.stage() != Some(Stage::Answered) || old.answer != new.answer)
        {
            faults.push(Fault::AnswerLost);
        }
        if let (None, Some(AnswerSource::Attempt(attempt))) = (old.answer, new.answer)
            && !new.record.is_last(attempt)
        {
            faults.push(Fault::AnswerOfOther);
        }
        if before.has_ended() && old.record.intended != new.record.intended {
            faults.push(Fault::BegunTooLate);
        }
    }
}
