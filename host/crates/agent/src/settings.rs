//! Settings of the agent loop.

use std::time::Duration;

use airlock_core::door::{ApprovalChoice, ToolMode};

/// Settings of the agent loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Maximum number of rounds of tool calls. The calls of the response after the last round are
    /// pending.
    pub max_depth: u32,
    /// Maximum number of tool calls of one round that run at the same time. 0 counts as 1.
    pub parallel_calls: usize,
    /// Maximum number of tool calls of one response that are run. The others are
    /// refused, and a message asks the model to repeat them.
    pub calls_per_answer: usize,
    /// Bytes that tool calls and their results may add to the conversation, in all rounds of one
    /// request together. A result that does not fit is replaced by a message to the model.
    pub max_tool_bytes: usize,
    /// Wall-clock time of one request: model and tools, all rounds together. At the deadline
    /// running tools are cancelled.
    pub timeout: Duration,
    /// True if tools are offered to the model only if the request names them in an include header.
    pub disable_auto_tool_inject: bool,
    /// Selects whether a chat completion has results as text if other calls are pending.
    pub results_as_text: ResultsAsText,
    /// Treatment of calls that need an approval, if neither the request nor its key sets one.
    pub approval: ApprovalChoice,
    /// Longest time that one call waits for an approval.
    pub approval_wait: Duration,
    /// Way in which tools for scripts are offered, unless the request sets one; `None` for the meta-tools, with the
    /// search from a number of tools on.
    pub tool_mode: Option<ToolMode>,
}

/// Selects whether the text of a chat completion contains the results of calls that ran, if other calls of the
/// same response are for the caller. Results that are not in the text are kept, and restored in the
/// request in which the caller sends the results of its calls, if the identifier of one of these is unique.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ResultsAsText {
    /// Only if all pending calls are of the gateway's tools, and the caller did not ask for JSON, or
    /// if nothing can be kept.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, even if nothing can be kept.
    Never,
}
