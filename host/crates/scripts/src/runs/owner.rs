//! The runs of one caller: list, show, approve, deny, resolve, cancel.

use serde_json::Value;
use tracing::info;

use super::{
    CallAnswer, EXECUTE, RunEnding, RunOutcome, RunToken, Runs, denial, describe::DOCUMENT_COPIES,
};
use airlock_core::{
    act::{Act, ActKind, Actor},
    run::{Called, Cancelled, Position, Stage, denial_reason},
    tenant::Tenant,
};
use airlock_store::{
    OwnerId, Unavailable,
    runs::{RunDecision, RunError, ShownRun, StoredRun},
};
use airlock_strings::visible_line;

/// Maximum number of runs in a list, the newest ones. The list is one response without pages.
const MAX_LISTED: u32 = 100;
/// Maximum bytes of the answers that one request gives to skipped calls, as they are stored. A run with longer ones would
/// take too much memory to be resumed.
const MAX_SKIPPED_BYTES: usize = 1 << 20;

/// The runs of one caller.
pub struct OwnRuns<'r> {
    runs: &'r Runs,
    owner: OwnerId,
}

/// Decisions of a person, by the positions of the calls.
#[derive(Debug, Default)]
pub struct Decisions {
    calls: Vec<(Position, RunDecision)>,
    /// Epoch in which the run was shown to the person; `None` if the person does not tell.
    shown: Option<i64>,
    /// Reason of the last denial.
    reason: Option<String>,
    /// The party that was asked, for the records; `None` if the party that decides was not asked.
    by: Option<&'static str>,
    /// Bytes of the answers of skipped calls.
    skipped_bytes: usize,
}

/// Error: the values for skipped calls are too large to be stored.
#[derive(Debug, thiserror::Error)]
#[error(
    "the values of skipped calls have {found} bytes as JSON; one request may have at most {MAX_SKIPPED_BYTES} bytes of them"
)]
pub struct SkippedTooLarge {
    found: usize,
}

/// A decision about all calls that a run has shown, which comes with the request that resumes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarriedDecision {
    /// The user of a client was asked.
    OfUser {
        /// True to approve the calls, false to deny them.
        approves: bool,
    },
    /// The caller has sent the state of the run back, which approves the calls.
    OfCaller,
}

/// A decision that was made about a call, for the log and the records.
struct MadeDecision {
    position: Position,
    /// Its word.
    word: &'static str,
    /// Its act; `None` if it neither approves nor denies the call.
    act: Option<ActKind>,
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

    /// Gives a call in doubt this value as its answer. Fails if all values take more than 1 MiB.
    pub fn skip(mut self, position: Position, value: Value) -> Result<Self, SkippedTooLarge> {
        let answer = CallAnswer::Value(value).to_stored();
        self.skipped_bytes += answer.len();
        if self.skipped_bytes > MAX_SKIPPED_BYTES {
            return Err(SkippedTooLarge { found: self.skipped_bytes });
        }
        Ok(self.with(position, RunDecision::Skip(answer)))
    }

    /// Binds the decisions to the calls that the person saw: to the state in which the run was shown.
    /// Returns `None` if `state` is none of the run.
    pub fn shown_in(self, run: &str, state: &str) -> Option<Self> {
        match RunToken::parse(state)? {
            RunToken::Shown { run: of, epoch } if of == run => Some(self.shown_at(epoch)),
            _ => None,
        }
    }

    /// Binds the decisions to the calls that the person saw: to those of an epoch.
    #[must_use]
    pub fn shown_at(self, epoch: i64) -> Self {
        Self { shown: Some(epoch), ..self }
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

    /// Returns whether any of them has a call made once more.
    pub fn retries(&self) -> bool {
        self.calls.iter().any(|(_, decision)| matches!(decision, RunDecision::Retry))
    }

    fn with(mut self, position: Position, decision: RunDecision) -> Self {
        self.calls.push((position, decision));
        self
    }
}

impl CarriedDecision {
    fn approves(self) -> bool {
        self != Self::OfUser { approves: false }
    }

    /// Returns the party in the records.
    fn by(self) -> &'static str {
        match self {
            Self::OfUser { .. } => "user",
            Self::OfCaller => "caller",
        }
    }
}

impl MadeDecision {
    fn new(position: Position, decision: &RunDecision) -> Self {
        let (word, act) = match decision {
            RunDecision::Approve => ("approve", Some(ActKind::ApprovalGranted)),
            RunDecision::Deny(_) => ("deny", Some(ActKind::ApprovalDenied)),
            RunDecision::Retry => ("retry", Some(ActKind::ApprovalGranted)),
            RunDecision::RetryApproved => ("retry_approved", Some(ActKind::ApprovalGranted)),
            RunDecision::Skip(_) => ("skip", None),
        };
        Self { position, word, act }
    }
}

impl Runs {
    /// Returns the runs of a tenant.
    pub fn own(&self, tenant: &Tenant) -> OwnRuns<'_> {
        self.of_owner(tenant.scope())
    }

    /// Returns the runs of an owner, for an operator.
    pub fn of_owner(&self, owner: OwnerId) -> OwnRuns<'_> {
        OwnRuns { runs: self, owner }
    }
}

impl OwnRuns<'_> {
    /// Returns the latest runs, the newest first.
    pub async fn list(&self) -> Result<Vec<StoredRun>, Unavailable> {
        self.runs.open_of(self.owner).await?.list(MAX_LISTED).await
    }

    /// Returns a run without its tools, its calls and its outcome.
    pub async fn head(&self, id: &str) -> Result<StoredRun, RunError> {
        self.runs.open_of(self.owner).await?.head(id).await
    }

    /// Returns a run as people see it.
    pub async fn show(&self, id: &str) -> Result<ShownRun, RunError> {
        self.runs.open_of(self.owner).await?.show(id).await
    }

    /// Returns a run as [`Self::show`] does. `admit` is called before it is read, with the bytes that
    /// it takes until its document is written. Returns the reason of `admit` if it fails.
    pub async fn show_within<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnOnce(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<ShownRun, E>, RunError> {
        let runs = self.runs.open_of(self.owner).await?;
        runs.show_within(id, move |bytes| admit(bytes.saturating_mul(DOCUMENT_COPIES))).await
    }

    /// Returns a run with the answers of its calls.
    #[cfg(test)]
    pub(crate) async fn get(&self, id: &str) -> Result<StoredRun, RunError> {
        self.runs.open_of(self.owner).await?.get(id).await
    }

    /// Makes decisions about the calls of a run, all of them or none, as `actor`. Each is logged without the
    /// arguments of its call, and approvals and denials are recorded.
    pub async fn decide(
        &self,
        id: &str,
        decisions: Decisions,
        actor: &Actor,
    ) -> Result<(), RunError> {
        let Decisions { calls, shown, reason, by, .. } = decisions;
        let made = calls.iter().map(|(position, call)| MadeDecision::new(*position, call));
        let made: Vec<_> = made.collect();
        let decided = self.runs.open_of(self.owner).await?.decide(id, shown, calls).await?;
        let reason = reason.filter(|reason| !reason.is_empty());
        for (made, called) in made.iter().zip(&decided) {
            let MadeDecision { position, word: decision, act } = made;
            let tool = visible_line(&called.tool);
            info!(%actor, tool, run = id, call = %position, decision, "a call of a script was decided about");
            let Some(kind) = *act else { continue };
            self.runs.0.acts.record(|| {
                let details = decision_details(made, called, by, reason.as_deref());
                let act = Act::new(kind, actor.clone(), id).with("run", id);
                details.into_iter().fold(act, |act, (name, value)| act.with(name, value))
            });
        }
        Ok(())
    }

    /// Approves or denies the pending calls of a run, as it was shown in this epoch, for its caller, `actor`.
    pub(crate) async fn decide_pending(
        &self,
        id: &str,
        epoch: i64,
        carried: CarriedDecision,
        actor: &Actor,
    ) -> Result<(), RunError> {
        let shown = self.show(id).await?;
        let pending =
            shown.calls.iter().filter(|shown| matches!(shown.call.stage, Stage::Pending { .. }));
        let decision = if carried.approves() { RunDecision::Approve } else { denial(None) };
        let calls = pending.map(|shown| (shown.position, decision.clone())).collect();
        let by = Some(carried.by());
        let decisions = Decisions { calls, shown: Some(epoch), by, ..Decisions::default() };
        self.decide(id, decisions, actor).await
    }

    /// Ends a run. Calls in flight are cancelled.
    pub async fn cancel(&self, id: &str) -> Result<Cancelled, RunError> {
        let outcome = RunOutcome::without_result(RunEnding::Cancelled).to_stored();
        let cancelled = self.runs.open_of(self.owner).await?.cancel(id, &outcome).await?;
        self.runs.interrupt(id);
        Ok(cancelled)
    }
}

/// Returns the details of the act of a decision besides its run.
fn decision_details(
    made: &MadeDecision,
    called: &Called,
    by: Option<&'static str>,
    reason: Option<&str>,
) -> Vec<(&'static str, String)> {
    let is_denied = made.act == Some(ActKind::ApprovalDenied);
    let is_repeated = matches!(made.word, "retry" | "retry_approved");
    let is_manifest = *called.tool == *EXECUTE;
    let details = [
        ("position", Some(made.position.to_string())),
        ("tool", Some(called.tool.to_string())),
        ("by", by.map(str::to_owned)),
        ("decision", is_repeated.then(|| made.word.to_owned())),
        ("manifest", is_manifest.then(|| called.definition.to_string())),
        ("reason", reason.filter(|_| is_denied).map(str::to_owned)),
    ];
    details.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_skipped_calls_are_bounded_together() {
        let [first, second] = ["1", "2"].map(|call| call.parse::<Position>().expect("a position"));
        let around = CallAnswer::Value("".into()).to_stored().len();
        let half = "x".repeat(MAX_SKIPPED_BYTES / 2 - around);
        for (more, is_permitted) in [("", true), ("x", false)] {
            let one = Decisions::default().skip(first, half.as_str().into()).expect("half of it");
            let both = one.skip(second, format!("{half}{more}").into());
            assert_eq!(both.is_ok(), is_permitted);
            if let Err(refused) = both {
                assert!(refused.to_string().contains("have 1048577 bytes"), "{refused}");
            }
        }
    }
}
