//! Failures of a run.

use std::fmt;

use airlock_core::{
    door::{CallId, NESTED_CALLS},
    tool::{CallError, HostCode, ReachedLimit},
};
use airlock_json::MAX_DEPTH;
use airlock_sandbox::FailureKind;

use crate::{BadDump, RunnerError};

/// Name of the budget of the bytes that a guest passes to the host at once, in the errors of the sandbox.
const COPIED_BYTES: &str = "bytes copied to the host";

/// Reason that a run has no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The script itself failed: it does not parse, or it failed while it ran.
    #[error("{0}")]
    Script(ScriptFailure),
    /// A limit has ended the run.
    #[error("{message}")]
    Limit {
        /// Name of the limit: a field of [`RunLimits`](crate::RunLimits), or the name of a bound that cannot be set, such as
        /// `stack`.
        limit: &'static str,
        /// The limit, and what helps.
        message: String,
    },
    /// The call of a function that the script waited for was cancelled, because the runtime ends.
    #[error("the run was cancelled")]
    Cancelled,
    /// The run that is replayed waits for a decision.
    #[error("the run has no end to replay: it waits for a decision about a call of {function}")]
    Pending {
        /// The function.
        function: String,
    },
    /// The run that is replayed had an answer that was too large for its journal.
    #[error(
        "the run cannot be replayed: the answer of a call of {function} was too large for its journal"
    )]
    NotKept {
        /// The function.
        function: String,
    },
    /// The script makes other calls than its journal has: it was made by another script, or by other executors.
    #[error("the script does not agree with the journal of its run: {message}")]
    Diverged {
        /// The calls that differ.
        message: String,
    },
    /// A field of the limits is zero or too large.
    #[error("the limit `{field}` must be more than 0 and at most {most}, found {found}")]
    Limits {
        /// The field.
        field: &'static str,
        /// Its value.
        found: String,
        /// Its maximum.
        most: String,
    },
    /// The script or its inputs are too large.
    #[error("the {what} of a run may have {most} bytes, found {found}")]
    TooLarge {
        /// `code` or `inputs`.
        what: &'static str,
        /// Its size in bytes.
        found: usize,
        /// The most bytes.
        most: usize,
    },
    /// The script cannot have an input.
    #[error("the input {name:?} {problem}")]
    Input {
        /// Name of the input.
        name: String,
        /// The mistake.
        problem: InputProblem,
    },
    /// The script has crashed the interpreter of its language, in the sandbox.
    #[error("the script has crashed its interpreter; nothing outside of the sandbox is affected")]
    Crashed(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The run that is replayed cannot be read.
    #[error(transparent)]
    Dump(#[from] BadDump),
    /// The runner cannot run the script.
    #[error(transparent)]
    Runner(#[from] RunnerError),
}

/// Mistake of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputProblem {
    /// Its name cannot be that of a variable.
    Name,
    /// A function has its name.
    Function,
    /// It is named `result`, which is the value of the script.
    Result,
    /// Its value nests too deeply.
    TooDeep,
}

impl fmt::Display for InputProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name => f.write_str(
                "has a name that no variable can have: use ASCII letters, digits and `_`, not a digit or `__` first, and no \
                 keyword of Python or Starlark",
            ),
            Self::Function => f.write_str("has the name of a function"),
            Self::Result => f.write_str("has the name of the value of the script"),
            Self::TooDeep => write!(f, "nests more than {} levels", MAX_DEPTH - 1),
        }
    }
}

/// A script's own failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptFailure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// The failure in one line.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// The failure with call stack and source, for people and models.
    pub rendered: String,
    /// The function whose failure the script did not handle; `None` if another failure ended it.
    pub function: Option<FailedFunction>,
}

impl fmt::Display for ScriptFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A call of a function that has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedFunction {
    /// Name of the function.
    pub name: String,
    /// Code of the failure: the function's own, or with the prefix `airlock.` one that is explained in `wit/README.md`.
    pub code: Option<String>,
    /// The whole message of the failure.
    pub message: String,
    /// Identifier of the call, as in [`FunctionCall::id`](crate::FunctionCall::id); `None` if it was not made in this process.
    pub call: Option<CallId>,
}

impl RunError {
    /// Creates the error of a script that is nested more deeply than its limit.
    pub(crate) fn too_nested(most: u32) -> Self {
        let message = format!(
            "scripts nest more than {most} levels, each run by a function of the one before; end the recursion, or raise \
             the limit `nesting`"
        );
        Self::Limit { limit: "nesting", message }
    }

    /// Classifies the error with which the sandbox has stopped a script.
    pub(crate) fn stopped(error: CallError) -> Self {
        let limit = match error.code() {
            HostCode::OutOfFuel | HostCode::CpuTime => "cpu",
            HostCode::Deadline => "deadline",
            HostCode::Memory => "memory_bytes",
            HostCode::StackOverflow => "stack",
            HostCode::ResultTooLarge => "result_bytes",
            HostCode::Budget => match error.limit() {
                Some(ReachedLimit::Budget { what: NESTED_CALLS, .. }) => "calls",
                Some(ReachedLimit::Budget { what, .. }) => what,
                _ => "budget",
            },
            HostCode::Cancelled => return Self::Cancelled,
            HostCode::Trap => return Self::Crashed(Box::new(error)),
            _ => return Self::Runner(RunnerError::Executor(Box::new(error))),
        };
        let message = match (error.code(), error.limit()) {
            (HostCode::ResultTooLarge, Some(ReachedLimit::Amount(most))) => {
                format!("the value of the script is larger than {most} bytes; return less")
            }
            (_, Some(ReachedLimit::Budget { what: NESTED_CALLS, most })) => format!(
                "the script made more than {most} calls of functions; make fewer calls, or split the script"
            ),
            (_, Some(ReachedLimit::Budget { what: COPIED_BYTES, most })) => format!(
                "the script passed more than {most} bytes at once, as arguments of calls or as a printed line; pass less, \
                 or make fewer calls at the same time"
            ),
            _ => error.to_string(),
        };
        Self::Limit { limit, message }
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::{ErrorKind, ToolName};

    use super::*;

    fn script() -> ToolName {
        ToolName::alias("script")
    }

    fn limit(error: CallError) -> &'static str {
        match RunError::stopped(error) {
            RunError::Limit { limit, .. } => limit,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_limit_is_named_like_its_field() {
        let late = CallError::deadline(script(), std::time::Duration::from_secs(1));
        assert_eq!(limit(late), "deadline");
        assert_eq!(limit(CallError::result_too_large(script(), 1)), "result_bytes");
        assert_eq!(limit(CallError::budget(NESTED_CALLS, 1)), "calls");
        assert_eq!(limit(CallError::budget("host calls", 1)), "host calls");
        assert_eq!(limit(CallError::budget(COPIED_BYTES, 1)), COPIED_BYTES);
        let fuel = CallError::new(ErrorKind::LimitReached, HostCode::OutOfFuel, "");
        assert_eq!(limit(fuel), "cpu");
    }

    #[test]
    fn a_limit_on_calls_is_told_in_words_of_scripts() {
        for (what, words) in [
            (NESTED_CALLS, "more than 3 calls of functions"),
            (COPIED_BYTES, "more than 3 bytes at once"),
        ] {
            let told = RunError::stopped(CallError::budget(what, 3)).to_string();
            assert!(told.contains(words), "{told}");
        }
    }

    #[test]
    fn a_failure_of_the_executor_is_not_the_scripts() {
        let busy = RunError::stopped(CallError::busy());
        assert!(matches!(busy, RunError::Runner(RunnerError::Executor(_))), "{busy}");
        assert!(matches!(RunError::stopped(CallError::cancelled()), RunError::Cancelled));
    }
}
