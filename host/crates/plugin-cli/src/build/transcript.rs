//! Output of the tools that a build runs: shown as it comes, or collected for a JSON document.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use super::step::BuildStep;
use airlock_authoring::Reporter;
use airlock_terminal::output::is_colourful;

/// Most bytes of output that are collected of one tool, which may print megabytes of warnings: they become one string of a
/// JSON document, in memory.
const MAX_BYTES: usize = 256 << 10;

/// Output of one tool.
#[derive(Serialize)]
pub(crate) struct ToolOutput {
    tool: String,
    text: String,
}

/// Shows the output of tools on standard error, or collects it. Steps are shown in both cases.
pub(crate) struct Transcript {
    /// `None` if output is shown.
    collected: Option<Vec<ToolOutput>>,
    step: Option<BuildStep>,
}

impl Transcript {
    pub(crate) fn new(is_collected: bool) -> Self {
        Self { collected: is_collected.then(Vec::new), step: None }
    }

    /// Returns the collected output.
    pub(crate) fn outputs(&self) -> &[ToolOutput] {
        self.collected.as_deref().unwrap_or_default()
    }
}

impl Reporter for Transcript {
    fn output(&mut self, tool: &str, text: &str) {
        match &mut self.collected {
            _ if text.trim().is_empty() => {}
            None => show(text),
            Some(outputs) => collect(outputs, tool, text),
        }
    }

    fn begin_step(&mut self, step: &str) {
        self.step = Some(BuildStep::begin(step));
    }

    fn end_step(&mut self) {
        self.step = None;
    }

    fn shares_stderr(&self) -> bool {
        self.collected.is_none()
    }

    fn is_colourful(&self) -> bool {
        self.shares_stderr() && is_colourful()
    }

    fn place(&self) -> &'static str {
        if self.shares_stderr() { "its output is above" } else { "its output is in `output`" }
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
        transcript.output("cargo", "warning: one\n");
        transcript.output("cargo", "warning: two\n");
        transcript.output("npm", " \n");
        transcript.output("node", &"ä".repeat(MAX_BYTES));
        let [cargo, node] = transcript.outputs() else { panic!("other tools") };
        assert_eq!((&*cargo.tool, &*cargo.text), ("cargo", "warning: one\nwarning: two\n"));
        assert_eq!((&*node.tool, node.text.len()), ("node", MAX_BYTES));
    }
}
