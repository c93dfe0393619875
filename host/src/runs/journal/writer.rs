//! Stores the steps of one run, one transaction at a time.

use tokio::sync::Mutex;

use super::{Halted, Runs};
use crate::{
    runs::Live,
    store::runs::{RunError, Step},
    tenant::Tenant,
};

/// A run that this process has the lease of.
pub(super) struct Writer {
    pub(super) id: String,
    pub(super) epoch: u32,
    pub(super) runs: Runs,
    pub(super) tenant: Tenant,
    pub(super) live: Live,
    /// Held during a transaction, so that steps are stored in their order.
    pub(super) turn: Mutex<()>,
}

impl Writer {
    pub(super) fn new(id: String, epoch: u32, runs: &Runs, tenant: &Tenant) -> Self {
        let live = runs.enter(&id, epoch);
        let (runs, tenant, turn) = (runs.clone(), tenant.clone(), Mutex::default());
        Self { id, epoch, runs, tenant, live, turn }
    }

    /// Returns the state that names the run, and the epoch in which its calls are shown.
    pub(super) fn token(&self) -> String {
        format!("{}.{}", self.id, self.epoch)
    }

    /// Stores steps in one transaction. If the protocol refuses them, their answers alone are stored:
    /// an answer is a fact, also if this process has lost the run.
    pub(super) async fn store(&self, steps: Vec<Step>) -> Result<(), RunError> {
        let is_answer = |step: &&Step| matches!(step, Step::Answer(..));
        let answers: Vec<Step> = match &steps[..] {
            // There is nothing to refuse beside it.
            [_] => Vec::new(),
            steps => steps.iter().filter(is_answer).cloned().collect(),
        };
        let stored = self.step(steps).await;
        if matches!(stored, Err(RunError::Refused { .. })) && !answers.is_empty() {
            // A refusal of these as well changes nothing: the reason is the first one.
            let _ = self.step(answers).await;
        }
        stored
    }

    async fn step(&self, steps: Vec<Step>) -> Result<(), RunError> {
        self.runs.of(&self.tenant).await?.step(&self.id, self.epoch, steps).await
    }
}

/// Returns the steps that are stored after others were refused. What led to a call is void: the call
/// was not sent.
pub(super) fn without_intents(mut steps: Vec<Step>) -> Vec<Step> {
    steps.retain(|step| !matches!(step, Step::Intend(..) | Step::Renew));
    steps
}

/// Returns the reason that steps are no longer stored; `None` if only the lease was not renewed, which
/// is tried again.
pub(super) fn halts(error: &RunError, is_renewal: bool) -> Option<Halted> {
    let may_pass = is_renewal && matches!(error, RunError::Unavailable(_));
    (!may_pass).then(|| Halted::by(error))
}
