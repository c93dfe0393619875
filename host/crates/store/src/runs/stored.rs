//! Runs and calls as they are stored, and the steps and decisions that change them.

use std::{sync::Arc, time::Duration};

use airlock_core::run::{Call, Called, Lease, Position, Refused};

use super::tools::ScriptTools;
use airlock_database::error::Unavailable;

/// Bounds on stored runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunBounds {
    /// Time from the last change of a run until it is removed.
    pub expire_after: Duration,
    /// Most runs of one owner. Beyond it, the owner's oldest runs are removed; those that have
    /// ended first.
    pub owner_runs: u32,
    /// Most bytes of one owner, with the same consequence.
    pub owner_bytes: u64,
    /// Most bytes of all owners together. Beyond it, the oldest runs of the owner with the most
    /// bytes are removed; those that have ended first.
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
    /// Position in the trace of the request that begins it; `None` if it is not traced.
    pub trace: Option<String>,
    /// Sources of untrusted content that its caller had read, as a JSON array; `None` for none.
    pub sources: Option<String>,
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
    /// Bytes that it counts for: its texts, its calls and their answers, and its tools if no older
    /// run has them.
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
    /// Position in the trace of the request that began it, as in [`NewRun`].
    pub trace: Option<String>,
    /// Sources of untrusted content that its caller had read, as in [`NewRun`].
    pub sources: Option<String>,
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
pub enum RunStep {
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
pub enum RunDecision {
    /// Approves a call that waits for it.
    Approve,
    /// Denies a call that waits for an approval. Gives it this answer, which has the reason; `None` for a denial without
    /// one.
    Deny(Option<String>),
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
