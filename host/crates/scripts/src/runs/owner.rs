//! The runs of one caller: list, show, approve, deny, resolve, cancel.

use serde_json::Value;
use tracing::info;

use super::{CallAnswer, RunEnding, RunOutcome, RunToken, Runs, denial, describe::DOCUMENT_COPIES};
use airlock_core::{
    act::Actor,
    run::{Cancelled, Position, Stage, denial_reason},
    tenant::Tenant,
};
use airlock_store::{
    self as store, Unavailable,
    runs::{RunDecision, RunError, ShownRun, StoredRun},
};
use airlock_strings::visible_line;

/// Maximum number of runs in a list, the newest ones. The list is one response without pages.
const MAX_LISTED: u32 = 100;

/// The runs of one caller.
pub struct OwnRuns<'r> {
    runs: &'r Runs,
    tenant: &'r Tenant,
}

/// Decisions of a person, by the positions of the calls.
#[derive(Debug, Default)]
pub struct Decisions {
    calls: Vec<(Position, RunDecision)>,
    /// Epoch in which the run was shown to the person; `None` if the person does not tell.
    shown: Option<i64>,
    /// Reason of the last denial.
    reason: Option<String>,
}

impl Decisions {
    /// Approves a call that is shown as pending.
    pub fn approve(self, position: Position) -> Self {
        self.with(position, RunDecision::Approve)
    }

    /// Denies a call that is shown as pending. The script receives the reason with the failure of the call.
    pub fn deny(mut self, position: Position, reason: Option<&str>) -> Self {
        self.reason = reason.map(denial_reason);
        self.with(position, denial(reason))
    }

    /// Makes a call in doubt once more.
    pub fn retry(self, position: Position) -> Self {
        self.with(position, RunDecision::Retry)
    }

    /// Makes a call in doubt once more, and approves the calls that a plugin makes in it.
    pub fn retry_approved(self, position: Position) -> Self {
        self.with(position, RunDecision::RetryApproved)
    }

    /// Gives a call in doubt this value as its answer.
    pub fn skip(self, position: Position, value: Value) -> Self {
        self.with(position, RunDecision::Skip(CallAnswer::Value(value).to_stored()))
    }

    /// Binds the decisions to the calls that the person saw: to the state in which the run was shown.
    /// Returns `None` if `state` is none of the run.
    pub fn shown_in(self, run: &str, state: &str) -> Option<Self> {
        match RunToken::parse(state)? {
            RunToken::Shown { run: of, epoch } if of == run => {
                Some(Self { shown: Some(epoch), ..self })
            }
            _ => None,
        }
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Returns whether any of them approves calls that need an approval.
    pub fn approves(&self) -> bool {
        let mut calls = self.calls.iter();
        calls.any(|(_, decision)| {
            matches!(decision, RunDecision::Approve | RunDecision::RetryApproved)
        })
    }

    /// Reason of the denials, for the records; `None` if none has one.
    pub fn reason(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    /// Returns whether any of them has a call made once more.
    pub fn retries(&self) -> bool {
        self.calls.iter().any(|(_, decision)| matches!(decision, RunDecision::Retry))
    }

    fn with(mut self, position: Position, decision: RunDecision) -> Self {
        self.calls.push((position, decision));
        self
    }
}

impl Runs {
    /// Returns the runs of a tenant.
    pub fn own<'r>(&'r self, tenant: &'r Tenant) -> OwnRuns<'r> {
        OwnRuns { runs: self, tenant }
    }
}

impl OwnRuns<'_> {
    /// Returns the latest runs, the newest first.
    pub async fn list(&self) -> Result<Vec<StoredRun>, Unavailable> {
        self.runs.open(self.tenant).await?.list(MAX_LISTED).await
    }

    /// Returns a run without its tools, its calls and its outcome.
    pub async fn head(&self, id: &str) -> Result<StoredRun, RunError> {
        self.runs.open(self.tenant).await?.head(id).await
    }

    /// Returns a run as people see it.
    pub async fn show(&self, id: &str) -> Result<ShownRun, RunError> {
        self.runs.open(self.tenant).await?.show(id).await
    }

    /// Returns a run as [`Self::show`] does. `admit` is called before it is read, with the bytes that
    /// it takes until its document is written. Returns the reason of `admit` if it fails.
    pub async fn show_within<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnOnce(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<ShownRun, E>, RunError> {
        let admit = move |bytes: u64| admit(bytes.saturating_mul(DOCUMENT_COPIES));
        self.runs.open(self.tenant).await?.show_within(id, admit).await
    }

    /// Returns a run with the answers of its calls.
    #[cfg(test)]
    pub(crate) async fn get(&self, id: &str) -> Result<StoredRun, RunError> {
        self.runs.open(self.tenant).await?.get(id).await
    }

    /// Makes decisions about the calls of a run, all of them or none. The log names the `actor` who makes
    /// them.
    pub async fn decide(
        &self,
        id: &str,
        decisions: Decisions,
        actor: &Actor,
    ) -> Result<(), RunError> {
        decide(&self.runs.open(self.tenant).await?, id, decisions, actor).await
    }

    /// Approves or denies the pending calls of a run, as it was shown in this epoch, for its caller.
    pub(crate) async fn decide_pending(
        &self,
        id: &str,
        epoch: i64,
        approves: bool,
    ) -> Result<(), RunError> {
        let runs = self.runs.open(self.tenant).await?;
        let shown = runs.show(id).await?;
        let pending =
            shown.calls.iter().filter(|shown| matches!(shown.call.stage, Stage::Pending { .. }));
        let decision = if approves { RunDecision::Approve } else { denial(None) };
        let calls = pending.map(|shown| (shown.position, decision.clone())).collect();
        let decisions = Decisions { calls, shown: Some(epoch), reason: None };
        decide(&runs, id, decisions, &Actor::from(self.tenant)).await
    }

    /// Ends a run. Calls in flight are cancelled.
    pub async fn cancel(&self, id: &str) -> Result<Cancelled, RunError> {
        let outcome = RunOutcome::without_result(RunEnding::Cancelled).to_stored();
        let cancelled = self.runs.open(self.tenant).await?.cancel(id, &outcome).await?;
        self.runs.interrupt(id);
        Ok(cancelled)
    }
}

/// Stores decisions, and logs each of them without the arguments of its call.
async fn decide(
    runs: &store::runs::Runs,
    id: &str,
    Decisions { calls, shown, reason: _ }: Decisions,
    actor: &Actor,
) -> Result<(), RunError> {
    let made = calls.iter().map(|(position, decision)| (*position, word(decision)));
    let made: Vec<_> = made.collect();
    let tools = runs.decide(id, shown, calls).await?;
    for ((position, decision), tool) in made.into_iter().zip(&tools) {
        let tool = visible_line(tool);
        info!(%actor, tool, run = id, call = %position, decision, "a call of a script was decided about");
    }
    Ok(())
}

/// Returns the word for a decision in the log.
fn word(decision: &RunDecision) -> &'static str {
    match decision {
        RunDecision::Approve => "approve",
        RunDecision::Deny(_) => "deny",
        RunDecision::Retry => "retry",
        RunDecision::RetryApproved => "retry_approved",
        RunDecision::Skip(_) => "skip",
    }
}
