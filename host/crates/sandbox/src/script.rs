//! A script's run, in the host's terms.

use airlock_core::tool::{CallError, ToolName};
use serde::Serialize;
use serde_json::Value;

/// What to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// File name for messages.
    pub name: String,
    /// Source text.
    pub source: String,
    /// Every tool that exists for this run.
    pub bindings: Vec<Binding>,
}

/// One tool as the script sees it: `namespace.name(…)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The global.
    pub namespace: String,
    /// The callable under it.
    pub name: String,
    /// Another spelling that works too.
    pub alias: Option<String>,
    /// What is called.
    pub tool: ToolName,
}

/// Why a script left no value.
#[derive(Debug)]
pub enum ScriptError {
    /// Its own fault.
    Failed(ScriptFailure),
    /// It was stopped: by a limit, for an approval, or because nobody waits any more.
    Stopped(CallError),
}

/// A script's own failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptFailure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// The failure in one line.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// With call stack and source, for people and models.
    pub rendered: String,
}

/// What kind of failure a script met.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// It does not parse.
    Syntax,
    /// It failed while running.
    Runtime,
    /// A tool that it called failed.
    Tool,
}

/// The value that a script left in `result`.
pub type ScriptResult = Result<Option<Value>, ScriptError>;
