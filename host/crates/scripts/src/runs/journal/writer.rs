//! Stores the steps of one run, one transaction at a time.

use tokio::sync::Mutex;

use super::Runs;
use crate::runs::LiveRun;
use airlock_core::tenant::Tenant;
use airlock_store::runs::{RunError, RunStep};

/// Times that the last steps of a run are tried to be stored.
const TRIES: u32 = 5;

/// A run that this process has the lease of.
pub(super) struct JournalWriter {
    pub(super) id: String,
    pub(super) epoch: i64,
    pub(super) runs: Runs,
    pub(super) tenant: Tenant,
    pub(super) live: LiveRun,
    /// Held during a transaction, so that steps are stored in their order.
    pub(super) turn: Mutex<()>,
}

impl JournalWriter {
    pub(super) fn new(id: String, epoch: i64, runs: &Runs, tenant: &Tenant) -> Self {
        let live = runs.enter(&id, epoch);
        let runs = runs.clone();
        let tenant = tenant.clone();
        let turn = Mutex::default();
        Self { id, epoch, runs, tenant, live, turn }
    }

    /// Returns the state that names the run, and the epoch in which its calls are shown.
    pub(super) fn token(&self) -> String {
        format!("{}.{}", self.id, self.epoch)
    }

    /// Stores steps in one transaction. If the protocol refuses them, their answers alone are stored:
    /// an answer is a fact, also if this process has lost the run.
    pub(super) async fn store(&self, steps: Vec<RunStep>) -> Result<(), RunError> {
        let answers: Vec<RunStep> = match &steps[..] {
            // There is nothing to refuse beside it.
            [_] => Vec::new(),
            steps => {
                steps.iter().filter(|step| matches!(step, RunStep::Answer(..))).cloned().collect()
            }
        };
        let stored = self.step(steps).await;
        if matches!(stored, Err(RunError::Refused { .. })) && !answers.is_empty() {
            // A refusal of these as well changes nothing: the reason is the first one.
            let _ = self.step(answers).await;
        }
        stored
    }

    /// Stores steps as [`Self::store`], and tries again for the time of a lease if the store cannot be
    /// used. Without memory for them, it tries once: scripts begin and fail while the store is away, and each may leave
    /// some MiB.
    pub(super) async fn store_patiently(&self, steps: Vec<RunStep>) -> Result<(), RunError> {
        let Some(_memory) = self.runs.hold(&self.tenant, text_bytes(&steps)) else {
            return self.store(steps).await;
        };
        let pause = self.runs.settings().bounds.lease / TRIES;
        for _ in 1..TRIES {
            match self.store(steps.clone()).await {
                Err(RunError::Unavailable(_)) => tokio::time::sleep(pause).await,
                stored => return stored,
            }
        }
        self.store(steps).await
    }

    async fn step(&self, steps: Vec<RunStep>) -> Result<(), RunError> {
        self.runs.open(&self.tenant).await?.step(&self.id, self.epoch, steps).await
    }
}

/// Returns the bytes of the texts in steps.
fn text_bytes(steps: &[RunStep]) -> u64 {
    let texts = steps.iter().map(|step| match step {
        RunStep::Begin(new) => new.script.len(),
        RunStep::Ask(_, called) | RunStep::Intend(_, called) => called.arguments.len(),
        RunStep::Answer(_, _, answer) => answer.len(),
        RunStep::Record(_, called, answer) => called.arguments.len() + answer.len(),
        RunStep::End(outcome) => outcome.len(),
        RunStep::Renew | RunStep::Suspend => 0,
    });
    texts.sum::<usize>() as u64
}

/// Returns the steps that are stored after others were not. What led to a call is void: the call was
/// not sent.
pub(super) fn facts(mut steps: Vec<RunStep>) -> Vec<RunStep> {
    steps.retain(|step| !matches!(step, RunStep::Intend(..) | RunStep::Renew));
    steps
}

#[cfg(test)]
mod tests {
    use std::{iter, time::Duration};

    use tempfile::NamedTempFile;
    use tokio::time::timeout;

    use super::*;
    use crate::runs::{RunSettings, ScriptApproval};
    use airlock_store::{Settings, runs::RunBounds};

    /// Returns runs whose store cannot be opened: a file is no directory.
    fn without_store(file: &NamedTempFile) -> Runs {
        let hour = Duration::from_hours(1);
        let bounds = RunBounds {
            expire_after: hour,
            owner_runs: 10,
            owner_bytes: 1 << 26,
            total_bytes: 1 << 26,
            lease: hour,
            approval: hour,
        };
        let settings = RunSettings {
            journal: true,
            bounds,
            cpu_time: hour,
            approves_whole_scripts: false,
            clock: false,
            approval: ScriptApproval::Calls,
        };
        Runs::new(settings, Settings::new(file.path().join("airlock.db")).into())
    }

    #[tokio::test]
    async fn steps_for_which_there_is_no_memory_do_not_wait_for_the_store() {
        const MIB: usize = 1 << 20;
        let file = NamedTempFile::new().expect("a file");
        let runs = without_store(&file);
        let tenant = Tenant::ANONYMOUS;
        let held: Vec<_> = iter::from_fn(|| runs.hold(&tenant, MIB as u64)).collect();
        assert!(!held.is_empty());
        let writer = JournalWriter::new("run_1".to_owned(), 1, &runs, &tenant);
        let steps = vec![RunStep::End("x".repeat(MIB))];
        let stored = timeout(Duration::from_mins(1), writer.store_patiently(steps)).await;
        let stored = stored.expect("it does not wait");
        assert!(matches!(stored, Err(RunError::Unavailable(_))), "{stored:?}");
    }
}
