//! Sources of the arguments of a script's calls, as its text shows them.
//!
//! Each executor finds it in its syntax tree (`syntax/flow.rs`), before the first call is made.

/// The arguments of all calls of one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolFlow {
    /// Name by which the host knows the tool.
    pub tool: String,
    /// Values in the arguments, each path once.
    pub values: Vec<ValueFlow>,
}

/// A value in the arguments of the calls of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueFlow {
    /// Names of members that lead to the value, with dots between them; empty for all arguments.
    pub path: String,
    /// The tools whose results it may come from, by their positions among the tools of the script.
    pub tools: Vec<u32>,
}
