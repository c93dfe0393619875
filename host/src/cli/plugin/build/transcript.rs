//! Output of the tools that a build runs: shown as it comes, or collected for a JSON document.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::cli::output::is_colourful;

/// Most bytes of output that are collected of one tool.
const MAX_BYTES: usize = 256 << 10;

/// Output of one tool.
#[derive(Debug, Serialize)]
pub(in crate::cli::plugin) struct ToolOutput {
    tool: String,
    text: String,
}

/// Shows the output of tools on standard error, or collects it.
#[derive(Debug)]
pub(in crate::cli::plugin) enum Transcript {
    Shown,
    Collected(Vec<ToolOutput>),
}

impl Transcript {
    pub(in crate::cli::plugin) fn new(is_collected: bool) -> Self {
        if is_collected { Self::Collected(Vec::new()) } else { Self::Shown }
    }

    /// Returns whether tools may write to standard error themselves.
    pub(super) fn is_shown(&self) -> bool {
        matches!(self, Self::Shown)
    }

    /// Returns whether tools should colour their output.
    pub(super) fn is_colourful(&self) -> bool {
        self.is_shown() && is_colourful()
    }

    /// Adds output of a tool. Output without text is left out.
    pub(super) fn add(&mut self, tool: &str, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        match self {
            Self::Shown => show(text),
            Self::Collected(outputs) => collect(outputs, tool, text),
        }
    }

    /// Returns where the output is, for the message of an error.
    pub(super) fn place(&self) -> &'static str {
        if self.is_shown() { "its output is above" } else { "its output is in `output`" }
    }

    /// Returns the collected output.
    pub(in crate::cli::plugin) fn outputs(&self) -> &[ToolOutput] {
        match self {
            Self::Shown => &[],
            Self::Collected(outputs) => outputs,
        }
    }
}

/// Prints text to standard error. A failure to write is ignored: no other stream is left to report
/// it on.
fn show(text: &str) {
    let mut stderr = io::stderr().lock();
    // A tool's progress line may be in the way.
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "" };
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(stderr, "{clear}{text}{end}");
}

fn collect(outputs: &mut Vec<ToolOutput>, tool: &str, text: &str) {
    if outputs.last().is_none_or(|last| last.tool != tool) {
        outputs.push(ToolOutput { tool: tool.to_owned(), text: String::new() });
    }
    let Some(last) = outputs.last_mut() else { return };
    let left = MAX_BYTES.saturating_sub(last.text.len());
    last.text.push_str(&text[..text.floor_char_boundary(left)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collected_output_names_its_tool_and_is_bounded() {
        let mut transcript = Transcript::new(true);
        transcript.add("cargo", "warning: one\n");
        transcript.add("cargo", "warning: two\n");
        transcript.add("npm", " \n");
        transcript.add("node", &"ä".repeat(MAX_BYTES));
        let [cargo, node] = transcript.outputs() else { panic!("{transcript:?}") };
        assert_eq!((&*cargo.tool, &*cargo.text), ("cargo", "warning: one\nwarning: two\n"));
        assert_eq!((&*node.tool, node.text.len()), ("node", MAX_BYTES));
    }
}
