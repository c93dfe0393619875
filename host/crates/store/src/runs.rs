//! Runs of scripts and their journals.
//!
//! A run belongs to one owner; for any other owner it does not exist. Its steps are those of
//! [`airlock_core::run`]: each is made in a transaction, on the state that the transaction reads, so
//! that of several processes only one makes it. Tools, answers and outcomes are JSON, which this
//! module does not parse.
//!
//! | Module | Content |
//! |---|---|
//! | `tools` | the tools of a script, as runs store them |
//! | `show` | a run as people see it: without the answers of its calls |
//! | `sql` | steps and decisions; below it `row` (a run), `call` (a call), `read`, and `room` (what is removed) |

mod show;
mod sql;
#[cfg(test)]
mod tests;
mod tools;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use airlock_core::run::{Call, Called, Cancelled, Lease, Position, Refused};

pub use self::{
    show::{ShownAnswer, ShownCall, ShownRun},
    tools::ScriptTools,
};
use super::{Database, Unavailable};

/// Of so many runs that stop in this process, the stop of one removes runs beyond the bound of all
/// owners.
const SWEPT_EVERY: u32 = 16;

/// Identifier of an owner.
pub type Scope = [u8; 32];

/// Bounds on stored runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// Time from the last change of a run until it is removed.
    pub expire_after: Duration,
    /// Most runs of one owner. Beyond it, the owner's oldest runs are removed; those that have ended
    /// first.
    pub owner_runs: u32,
    /// Most bytes of one owner, with the same consequence.
    pub owner_bytes: u64,
    /// Most bytes of all owners together. Beyond it, the oldest runs of the owner with the most bytes
    /// are removed; those that have ended first.
    pub total_bytes: u64,
    /// Time for which a process that runs a script keeps its lease without renewing it.
    pub lease: Duration,
    /// Time for which an approval is valid.
    pub approval: Duration,
}

/// A run that begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRun {
    /// Language of the script.
    pub language: String,
    /// The script.
    pub script: String,
    /// Tools of the script.
    pub tools: ScriptTools,
    /// The time that the script sees, in milliseconds since 1970; `None` if it sees none.
    pub clock_ms: Option<i64>,
}

/// A stored run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRun {
    /// Identifier.
    pub id: String,
    /// Time at which the run began, in milliseconds since 1970.
    pub created_ms: i64,
    /// Time of its last change, in milliseconds since 1970.
    pub changed_ms: i64,
    /// Its lease.
    pub lease: Lease,
    /// True if the process that ran the script has ended or lost its connection to the store.
    pub is_interrupted: bool,
    /// Language of the script.
    pub language: String,
    /// Bytes that it counts for: its texts, its calls and their answers, and its tools if no older run
    /// has them.
    pub bytes: u64,
    /// Number of its calls that wait for an approval.
    pub pending: u32,
    /// Outcome, once the run has ended.
    pub outcome: Option<String>,
    /// The script.
    pub script: String,
    /// Tools of the script.
    pub bindings: String,
    /// The time that the script sees, as in [`NewRun`].
    pub clock_ms: Option<i64>,
    /// Its calls, in the order of their positions.
    pub calls: Vec<StoredCall>,
}

/// A stored call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCall {
    /// Its position.
    pub position: Position,
    /// The call.
    pub call: Call,
    /// Its answer, if it has one.
    pub answer: Option<String>,
}

/// A step of the process that runs the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Begins the run. Only the first step can; later it is refused as [`Refused::Running`].
    Begin(NewRun),
    /// Stores that a call waits for an approval.
    Ask(Position, Called),
    /// Stores the intent to send a call.
    Intend(Position, Called),
    /// Stores the answer of a call whose intent is stored, with the number of the attempt.
    Answer(Position, u32, Arc<str>),
    /// Stores the answer of a call whose intent is not stored.
    Record(Position, Called, Arc<str>),
    /// Extends the lease.
    Renew,
    /// Stops the script, which can go on later.
    Suspend,
    /// Ends the run, with its outcome.
    End(String),
}

/// A decision of a person about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Approves a call that waits for it.
    Approve,
    /// Denies a call that waits for an approval.
    Deny,
    /// Makes a call in doubt once more.
    Retry,
    /// Makes a call in doubt once more, and approves the calls that a plugin makes in it.
    RetryApproved,
    /// Gives a call in doubt this answer.
    Skip(String),
}

/// Reason that a run was not read or changed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no such run: it never existed, belongs to another owner, or was removed.
    #[error("there is no such run")]
    Unknown,
    /// The run has no call at this position.
    #[error("the run has no call at position {0}")]
    NoCall(Position),
    /// The protocol refuses the step.
    #[error("{}{refused}", at(position.as_ref()))]
    Refused {
        /// The call; `None` if the step is about the run.
        position: Option<Position>,
        /// The reason.
        refused: Refused,
    },
    /// The database cannot be used right now.
    #[error("the store cannot be reached right now")]
    Unavailable(#[from] Unavailable),
}

fn at(position: Option<&Position>) -> String {
    position.map(|position| format!("call {position}: ")).unwrap_or_default()
}

/// The runs of one owner. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Runs {
    database: Database,
    scope: Scope,
    bounds: RunBounds,
}

impl Database {
    /// Returns the runs of an owner. Nothing is read or written yet.
    pub fn runs(&self, scope: Scope, bounds: RunBounds) -> Runs {
        Runs { database: self.of_party(scope), scope, bounds }
    }
}

impl Runs {
    /// Makes steps of one run, as the process of `epoch`, in one transaction: all of them or none.
    /// A step that sends a call may be followed by the call only after this has returned. If the
    /// future is dropped, the steps are made or not made.
    pub async fn step(&self, id: &str, epoch: i64, steps: Vec<Step>) -> Result<(), RunError> {
        let id = id.to_owned();
        let sweeps = self.database.sweeps(&steps);
        self.change(move |tx| tx.steps(&id, epoch, steps, sweeps)).await
    }

    /// Takes a run over to continue it. Returns the run after that.
    pub async fn claim(&self, id: &str) -> Result<StoredRun, RunError> {
        let id = id.to_owned();
        self.change(move |tx| tx.claim(&id)).await
    }

    /// Makes decisions about calls, all of them or none. Refused if the run has another epoch than
    /// `shown`, which is the one in which the calls were shown to the person who decides.
    pub async fn decide(
        &self,
        id: &str,
        shown: Option<i64>,
        decisions: Vec<(Position, Decision)>,
    ) -> Result<(), RunError> {
        let id = id.to_owned();
        self.change(move |tx| tx.decide(&id, shown, decisions)).await
    }

    /// Ends a run, or requests that from the process that runs its script.
    pub async fn cancel(&self, id: &str, outcome: &str) -> Result<Cancelled, RunError> {
        let id = id.to_owned();
        let outcome = outcome.to_owned();
        self.change(move |tx| tx.cancel(&id, &outcome)).await
    }

    /// Reads a run with its calls and their answers. To show or to resume a run, [`Self::show`] and
    /// [`Self::head`] read less.
    pub async fn get(&self, id: &str) -> Result<StoredRun, RunError> {
        let now = self.database.now_ms();
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read(move |connection| sql::read::get(connection, Some(&scope), &id, now))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run without its tools, calls and outcome. Cheap, whatever the run holds.
    pub async fn head(&self, id: &str) -> Result<StoredRun, RunError> {
        let now = self.database.now_ms();
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read(move |connection| sql::read::head(connection, Some(&scope), &id, now))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run as people see it, without the answers of its calls.
    pub async fn show(&self, id: &str) -> Result<ShownRun, RunError> {
        let now = self.database.now_ms();
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read(move |connection| show::show(connection, Some(&scope), &id, now))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run like [`Self::show`]. `admit` is called with the size of its texts in bytes, and some
    /// for each call, before they are copied. Returns the reason of `admit` if it fails.
    pub async fn show_within<E: Send + 'static>(
        &self,
        id: &str,
        admit: impl FnOnce(u64) -> Result<(), E> + Send + 'static,
    ) -> Result<Result<ShownRun, E>, RunError> {
        let now = self.database.now_ms();
        let scope = self.scope;
        let id = id.to_owned();
        self.database
            .read(move |connection| show::show_within(connection, &scope, &id, now, admit))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads the latest runs without their scripts, tools and calls, the newest first. Of the outcome
    /// they have the member `status` alone.
    pub async fn list(&self, limit: u32) -> Result<Vec<StoredRun>, Unavailable> {
        let now = self.database.now_ms();
        let scope = self.scope;
        self.database
            .read(move |connection| sql::read::list(connection, Some(&scope), limit, now))
            .await
    }

    async fn change<T: Send + 'static>(
        &self,
        change: impl FnOnce(&sql::Tx<'_>) -> Result<T, sql::Failure> + Send + 'static,
    ) -> Result<T, RunError> {
        let now = self.database.now_ms();
        let scope = self.scope;
        let bounds = self.bounds;
        self.database
            .attempt(move |transaction| {
                match change(&sql::Tx { transaction, scope: &scope, now, bounds: &bounds }) {
                    Ok(changed) => Ok(Ok(changed)),
                    Err(sql::Failure::Refused(refused)) => Ok(Err(refused)),
                    Err(sql::Failure::Database(error)) => Err(error),
                }
            })
            .await?
    }
}

impl Database {
    /// Reads a run of any owner, for the operator.
    pub async fn any_run(&self, id: &str) -> Result<StoredRun, RunError> {
        let now = self.now_ms();
        let id = id.to_owned();
        self.read(move |connection| sql::read::get(connection, None, &id, now))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads a run of any owner as [`Runs::show`], for the operator.
    pub async fn show_any_run(&self, id: &str) -> Result<ShownRun, RunError> {
        let now = self.now_ms();
        let id = id.to_owned();
        self.read(move |connection| show::show(connection, None, &id, now))
            .await?
            .ok_or(RunError::Unknown)
    }

    /// Reads the latest runs of all owners, as [`Runs::list`], for the operator.
    pub async fn any_runs(&self, limit: u32) -> Result<Vec<StoredRun>, Unavailable> {
        let now = self.now_ms();
        self.read(move |connection| sql::read::list(connection, None, limit, now)).await
    }

    /// Returns whether these steps look after the bound of all owners: those of one in
    /// [`SWEPT_EVERY`] runs that stop, because the sum of all owners is costly.
    fn sweeps(&self, steps: &[Step]) -> bool {
        let is_stop = steps.iter().any(|step| matches!(step, Step::Suspend | Step::End(_)));
        is_stop
            && self.inner.stopped_runs.fetch_add(1, Ordering::Relaxed).is_multiple_of(SWEPT_EVERY)
    }
}
