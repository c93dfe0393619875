//! Failures as data: the class of an exception, its message, and what programs read of it.

use airlock_runner::{
    BadDump, BadFunction, CallId, ErrorKind, FailureKind, FunctionError, RunError, RunnerError,
    ScriptFailure,
};
use airlock_strings::{cut, with_causes};

#[cfg(feature = "gateway")]
use crate::GatewayFailure;
use crate::{BadValue, FunctionLost};

/// Bytes of the message of an exception that a script or a model receives. An exception may repeat a whole response of a
/// server; 8 KiB are 2,000 tokens.
const MAX_MESSAGE_BYTES: usize = 8 << 10;

/// Failure of a call of this crate, which a binding raises as an exception.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BindingFailure {
    /// The script itself failed.
    #[error("{}", .0.message)]
    Script(Box<FailedScript>),
    /// A limit stopped the script.
    #[error("{message}")]
    Limit {
        /// Name of the limit: a field of [`LimitValues`](crate::LimitValues), or one that has no field.
        limit: &'static str,
        /// The limit, and what helps.
        message: String,
    },
    /// The run was stopped before its end.
    #[error("{0}")]
    Cancelled(String),
    /// A function of the program cannot be a tool.
    #[error("{0}")]
    BadTool(String),
    /// A dump cannot be used.
    #[error("{0}")]
    BadDump(String),
    /// The program passed a value that is not valid.
    #[error("{0}")]
    Invalid(String),
    /// No call with this number waits for a decision.
    #[error("no call {0} of the run waits for a decision")]
    NoSuchCall(u32),
    /// The sandbox cannot run the script.
    #[error("{0}")]
    Unavailable(String),
    /// A gateway of the program, or a request to it, has failed.
    #[cfg(feature = "gateway")]
    #[error("{}", .0.message)]
    Gateway(Box<GatewayFailure>),
}

/// A script that failed.
#[derive(Debug)]
pub struct FailedScript {
    /// Kind of the failure: `syntax`, `runtime` or `tool`.
    pub kind: &'static str,
    /// The failure in one line.
    pub message: String,
    /// Line in the script, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// The failure with call stack and source.
    pub rendered: String,
    /// The tool whose failure the script did not handle.
    pub tool: Option<FailedTool>,
}

/// A call of a tool that failed.
#[derive(Debug)]
pub struct FailedTool {
    /// Name of the tool.
    pub name: String,
    /// Code of the failure.
    pub code: Option<String>,
    /// The call; `None` if it was not made in this process.
    pub call: Option<CallId>,
}

impl BindingFailure {
    /// Returns the name of the exception's class in each language.
    pub fn class_name(&self) -> &'static str {
        match self {
            Self::Script(script) if script.tool.is_some() => "ToolFailed",
            Self::Script(script) if script.kind == SYNTAX => "ScriptSyntaxError",
            Self::Script(_) => "ScriptError",
            Self::Limit { .. } => "LimitExceeded",
            Self::Cancelled(_) => "RunCancelled",
            Self::BadTool(_) => "BadTool",
            Self::BadDump(_) => "BadDump",
            #[cfg(feature = "gateway")]
            Self::Gateway(failure) => failure.class,
            Self::Invalid(_) | Self::NoSuchCall(_) | Self::Unavailable(_) => "AirlockError",
        }
    }

    /// Creates the failure of a run that was resumed before.
    pub fn used_up() -> Self {
        Self::Invalid("the run was resumed before; use the run that `resume` has returned".into())
    }

    /// Creates the failure of a finished run without a journal.
    pub(crate) fn no_journal() -> Self {
        Self::Invalid(
            "the run is finished and has kept no journal; one that is started as a run keeps it, unless it takes more than 256 MiB"
                .into(),
        )
    }

    /// Creates the failure of a process that has no threads or memory for the sandbox.
    pub(crate) fn unavailable(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Unavailable(format!("scripts cannot be run: {}", with_causes(error)))
    }
}

/// Returns the failure of a call whose function raised an exception, from the name of the exception's type
/// and its text.
pub fn raised_error(kind: &str, text: &str) -> FunctionError {
    FunctionError::new(raised_message(kind, text)).with_code(kind)
}

/// Returns the message of such a failure.
pub fn raised_message(kind: &str, text: &str) -> String {
    let message = if text.is_empty() { kind.to_owned() } else { format!("{kind}: {text}") };
    cut(message, MAX_MESSAGE_BYTES)
}

/// Returns the failure of a call whose thread or event loop has gone.
pub fn stopped_error() -> FunctionError {
    FunctionError::new("the thread or the event loop of the tool has stopped")
}

/// Returns the failure of a call whose function has no result of its thread.
pub fn lost_error(lost: FunctionLost) -> FunctionError {
    match lost {
        FunctionLost::TooNested { .. } => {
            FunctionError::new(lost.to_string()).with_kind(ErrorKind::LimitReached)
        }
        FunctionLost::Stopped => stopped_error(),
    }
}

const SYNTAX: &str = "syntax";

impl From<RunError> for BindingFailure {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Script(failure) => Self::Script(Box::new(failure.into())),
            RunError::Limit { limit, message } => Self::Limit { limit: limit_name(limit), message },
            RunError::Cancelled => Self::Cancelled(error.to_string()),
            RunError::Crashed(_) => Self::Script(Box::new(FailedScript {
                kind: "runtime",
                message: error.to_string(),
                line: None,
                column: None,
                rendered: error.to_string(),
                tool: None,
            })),
            RunError::Pending { .. }
            | RunError::NotKept { .. }
            | RunError::Diverged { .. }
            | RunError::Dump(_) => Self::BadDump(with_causes(&error)),
            RunError::Limits { .. } | RunError::TooLarge { .. } | RunError::Input { .. } => {
                Self::Invalid(error.to_string())
            }
            RunError::Runner(error) => error.into(),
            other => Self::unavailable(&other),
        }
    }
}

impl From<ScriptFailure> for FailedScript {
    fn from(failure: ScriptFailure) -> Self {
        let ScriptFailure { kind, message, line, column, rendered, function } = failure;
        let kind = match kind {
            FailureKind::Syntax => SYNTAX,
            FailureKind::Runtime => "runtime",
            FailureKind::Tool => "tool",
        };
        let tool = function.map(|function| FailedTool {
            name: function.name,
            code: function.code,
            call: function.call,
        });
        Self { kind, message, line, column, rendered, tool }
    }
}

impl From<RunnerError> for BindingFailure {
    fn from(error: RunnerError) -> Self {
        Self::unavailable(&error)
    }
}

impl From<BadFunction> for BindingFailure {
    fn from(error: BadFunction) -> Self {
        Self::BadTool(with_causes(&error))
    }
}

impl From<BadValue> for BindingFailure {
    fn from(problem: BadValue) -> Self {
        Self::Invalid(problem.to_string())
    }
}

impl From<BadDump> for BindingFailure {
    fn from(error: BadDump) -> Self {
        Self::BadDump(with_causes(&error))
    }
}

/// Returns the name that programs have for a limit.
fn limit_name(limit: &'static str) -> &'static str {
    match limit {
        "memory_bytes" => "memory_mb",
        "cpu" => "cpu_seconds",
        "deadline" => "seconds",
        "result_bytes" => "result",
        "bytes copied to the host" => "copied",
        "bytes of a journal" => "journal",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use airlock_runner::{FailedFunction, InputProblem};

    use super::*;

    fn failed(kind: FailureKind, function: Option<FailedFunction>) -> BindingFailure {
        let failure = ScriptFailure {
            kind,
            message: "m".into(),
            line: Some(2),
            column: None,
            rendered: "r".into(),
            function,
        };
        RunError::Script(failure).into()
    }

    #[test]
    fn each_failure_has_the_class_of_its_cause() {
        let function = FailedFunction {
            name: "f".into(),
            code: Some("KeyError".into()),
            message: "KeyError: 'a'".into(),
            call: None,
        };
        let limit = RunError::Limit { limit: "cpu", message: String::new() };
        let diverged = RunError::Diverged { message: String::new() };
        let input = RunError::Input { name: "for".into(), problem: InputProblem::Name };
        for (failure, class) in [
            (failed(FailureKind::Syntax, None), "ScriptSyntaxError"),
            (failed(FailureKind::Runtime, None), "ScriptError"),
            (failed(FailureKind::Tool, Some(function)), "ToolFailed"),
            (limit.into(), "LimitExceeded"),
            (RunError::Cancelled.into(), "RunCancelled"),
            (diverged.into(), "BadDump"),
            (input.into(), "AirlockError"),
            (BadFunction::TooMany.into(), "BadTool"),
        ] {
            assert_eq!(failure.class_name(), class, "{failure}");
        }
    }

    #[test]
    fn limits_have_the_names_of_their_fields() {
        for (limit, name) in [
            ("memory_bytes", "memory_mb"),
            ("cpu", "cpu_seconds"),
            ("deadline", "seconds"),
            ("calls", "calls"),
            ("result_bytes", "result"),
            ("bytes copied to the host", "copied"),
            ("bytes of a journal", "journal"),
            ("stack", "stack"),
        ] {
            let reached = RunError::Limit { limit, message: String::new() };
            match BindingFailure::from(reached) {
                BindingFailure::Limit { limit, .. } => assert_eq!(limit, name),
                other => panic!("{other}"),
            }
        }
    }
}
