//! Sources of the arguments of a script's calls, as its text shows them.

/// The arguments of all calls of one tool that a script makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFlow {
    /// The tool, as its [`Binding`](crate::Binding) has it.
    pub tool: String,
    /// Values in the arguments, each path once. What is not at a path, or beside one, comes from nothing but what
    /// that at the empty path comes from.
    pub values: Vec<ValueFlow>,
}

/// A value in the arguments of the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValueFlow {
    /// Names of members that lead to the value, with dots between them; empty for all arguments.
    pub path: String,
    /// The tools whose results it may come from, by their positions among those of the script.
    pub tools: Vec<u32>,
}

impl ToolFlow {
    /// Returns the bytes that the guest has written for the tool.
    pub(crate) fn bytes(&self) -> usize {
        let values = self.values.iter().map(|value| value.path.len() + 4 * value.tools.len());
        self.tool.len() + values.sum::<usize>()
    }

    /// Returns the number of values that the guest has written for the tool: the tool, and those in its arguments.
    pub(crate) fn values(&self) -> usize {
        1 + self.values.len()
    }
}
