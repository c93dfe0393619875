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
    /// used.
    pub(super) async fn store_patiently(&self, steps: Vec<RunStep>) -> Result<(), RunError> {
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

/// Returns the steps that are stored after others were not. What led to a call is void: the call was
/// not sent.
pub(super) fn facts(mut steps: Vec<RunStep>) -> Vec<RunStep> {
    steps.retain(|step| !matches!(step, RunStep::Intend(..) | RunStep::Renew));
    steps
}
