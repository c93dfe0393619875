//! The loop: ask the model, run what it may run, answer.

/// How the loop behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Rounds of tool calls before the model's last answer is returned as it is.
    pub max_depth: u32,
    /// Tool calls of one round that run at the same time.
    pub parallel_calls: usize,
    /// Whether tools are offered to the model only where a request names them in an include header.
    pub disable_auto_tool_inject: bool,
}
