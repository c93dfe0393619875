//! Host-side types of a script's run.

use airlock_core::tool::{CallError, ToolName, ToolOutput};
use futures_util::future::BoxFuture;
use serde::Serialize;
use serde_json::Value;

/// A script to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// File name for messages.
    pub name: String,
    /// Source text.
    pub source: String,
    /// Every tool that exists for this run.
    pub bindings: Vec<Binding>,
    /// The time that the script sees, in milliseconds since 1970; `None` if the run has no clock.
    pub clock_ms: Option<i64>,
}

/// One tool as the script sees it: `namespace.name(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// Name of the global variable.
    pub namespace: String,
    /// Name of the callable under it.
    pub name: String,
    /// Another spelling of the name that works too.
    pub alias: Option<String>,
    /// The tool that is called.
    pub tool: ToolName,
}

/// Reason that a script left no value.
#[derive(Debug)]
pub enum ScriptError {
    /// The script itself failed.
    Failed(ScriptFailure),
    /// The script was stopped: by a limit, for a missing approval, or because its caller has gone.
    Stopped(CallError),
}

/// A script's own failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
}

/// Kind of a script's failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The script does not parse.
    Syntax,
    /// The script failed while it was running.
    Runtime,
    /// A tool that the script called failed.
    Tool,
}

/// Value that a script left in `result`; `None` if it left none.
pub type ScriptResult = Result<Option<Value>, ScriptError>;

/// A tool call that a script makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptCall {
    /// Name of the tool, as its [`Binding`] has it.
    pub tool: String,
    /// Arguments, as JSON text.
    pub arguments: String,
}

/// Result of a call, for the script: a failure that the script can handle is an inner error.
pub type ScriptAnswer = Result<ToolOutput, CallError>;

/// Makes the calls of one script, in the order in which it asks for them.
pub trait ScriptCalls: Send + Sync {
    /// Makes one call, or several at the same time if `is_block`. Returns the results in the order of
    /// the calls. An error stops the script. If the future is dropped, running calls are cancelled.
    fn make(
        &self,
        calls: Vec<ScriptCall>,
        is_block: bool,
    ) -> BoxFuture<'_, Result<Vec<ScriptAnswer>, CallError>>;
}
