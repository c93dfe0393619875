//! The caller's side of a build: where progress and the output of tools go.

/// Receives progress of a build and the output of the tools that it runs.
pub trait Reporter: Send {
    /// Takes output of a tool. Output without text is left out.
    fn output(&mut self, tool: &str, text: &str);

    /// Returns where the output is, for the message of an error.
    fn place(&self) -> &'static str;

    /// Begins a step that takes time.
    fn begin_step(&mut self, _step: &str) {}

    /// Ends the step. A build that is dropped does not end its step.
    fn end_step(&mut self) {}

    /// Returns whether tools may write to standard error themselves.
    fn shares_stderr(&self) -> bool {
        false
    }

    /// Returns whether tools should colour their output.
    fn is_colourful(&self) -> bool {
        false
    }
}

/// Collects the output of tools.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct CollectedOutput(pub(super) String);

#[cfg(test)]
impl Reporter for CollectedOutput {
    fn output(&mut self, _tool: &str, text: &str) {
        self.0.push_str(text);
    }

    fn place(&self) -> &'static str {
        "its output is collected"
    }
}
