//! Reasons for which a script is stopped by its journal, as errors.

use airlock_core::{
    run::{Call, Position, Refused},
    tool::{CallError, ErrorKind, ToolError, ToolName},
};
use airlock_sandbox::ScriptCall;
use airlock_store::runs::RunError;
use airlock_strings::{MAX_EXCERPT_BYTES, cut};

/// Reason that the steps of a run are no longer stored.
#[derive(Debug, Clone)]
pub(super) enum Halted {
    /// The approval of a call has expired, or the definition of its tool has changed, since the call
    /// was decided.
    Void,
    /// The run was cancelled.
    Cancelled,
    /// Another process has the run.
    Failed(Box<ToolError>),
    /// The store cannot be used. The run is as it was, for the process that resumes it.
    Lost(Box<ToolError>),
    /// The run is suspended or has ended already.
    Closed,
}

impl Halted {
    pub(super) fn by(error: &RunError) -> Self {
        match error {
            RunError::Refused { refused, .. } => Self::refused(*refused, stopped(error)),
            RunError::Unavailable(_) => Self::lost(error),
            RunError::Unknown | RunError::NoCall(_) => {
                Self::failed(ErrorKind::Conflict, "run_refused", stopped(error))
            }
        }
    }

    /// Returns the reason for steps that the store does not take.
    pub(super) fn lost(error: &dyn std::error::Error) -> Self {
        let message =
            format!("the run was stopped, because its journal cannot be written: {error}");
        Self::Lost(tool_error(ErrorKind::Unavailable, "store_unavailable", message))
    }

    fn refused(refused: Refused, message: String) -> Self {
        match refused {
            Refused::Cancelled => Self::Cancelled,
            Refused::Expired | Refused::Redefined => Self::Void,
            Refused::Superseded => Self::failed(ErrorKind::Conflict, "run_superseded", message),
            _ => Self::failed(ErrorKind::Conflict, "run_refused", message),
        }
    }

    fn failed(kind: ErrorKind, code: &str, message: String) -> Self {
        Self::Failed(tool_error(kind, code, message))
    }
}

fn stopped(reason: &dyn std::error::Error) -> String {
    format!("the run was stopped: {reason}")
}

fn tool_error(kind: ErrorKind, code: &str, message: String) -> Box<ToolError> {
    Box::new(ToolError::new(kind, message).with_code(code))
}

/// The reason of a step that this process refuses itself.
impl From<Refused> for Halted {
    fn from(refused: Refused) -> Self {
        Self::refused(refused, stopped(&refused))
    }
}

impl From<Halted> for CallError {
    fn from(halted: Halted) -> Self {
        match halted {
            Halted::Void | Halted::Cancelled | Halted::Closed => Self::cancelled(),
            Halted::Failed(error) | Halted::Lost(error) => Self::from(*error),
        }
    }
}

/// Returns the error of a script that makes another call than its journal has.
pub(super) fn diverged(position: Position, known: &Call, made: Option<&ScriptCall>) -> CallError {
    let made = made.map_or_else(
        || "and the script does not make it".to_owned(),
        |made| format!("and the script now calls {} there", named(&made.tool, &made.arguments)),
    );
    let had = named(&known.called.tool, &known.called.arguments);
    let message =
        format!("the run cannot be resumed: its journal has call {position}, {had}, {made}");
    error(ErrorKind::Conflict, "run_diverged", message)
}

/// Returns the error of a script that comes to an answer which this program cannot read.
pub(super) fn unreadable(position: Position) -> CallError {
    let message = format!(
        "the run cannot be resumed: the answer of call {position} was stored by another version"
    );
    error(ErrorKind::Conflict, "run_refused", message)
}

/// Returns the error of a replay that comes to a call without a stored answer.
pub(super) fn not_kept(position: Position) -> CallError {
    let message =
        format!("the run cannot be replayed: the answer of call {position} was not stored");
    error(ErrorKind::Unavailable, "answer_not_stored", message)
}

/// Returns the error of a script whose journal has no room for a further call.
pub(super) fn full(what: &str, limit: usize) -> CallError {
    let message = format!(
        "the script was stopped before this call: its calls have {} MiB of {what}, the most that a \
         run stores; make fewer calls, or split the script",
        limit >> 20
    );
    error(ErrorKind::LimitReached, "journal_full", message)
}

fn error(kind: ErrorKind, code: &str, message: String) -> CallError {
    CallError::from(*tool_error(kind, code, message))
}

fn named(tool: &str, arguments: &str) -> String {
    let arguments = cut(arguments.to_owned(), MAX_EXCERPT_BYTES);
    format!("{}({arguments})", ToolName::alias(tool))
}
