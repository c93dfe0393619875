//! The failure of a script, as people and models read it.

use std::fmt::{Display, Write as _};

use crate::json::Unfit;

/// Frames that are shown at the outer and at the inner end of a call stack. A recursion has
/// hundreds of equal frames.
const OUTER_FRAMES: usize = 4;
const INNER_FRAMES: usize = 8;

/// Kind of a script's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The source does not parse, or uses what the language lacks.
    Syntax,
    /// The script failed while it ran.
    Runtime,
    /// A tool that the script called failed.
    Tool,
}

/// The failure of a script without a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// The failure in one line.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// The failure with call stack and source, and hints if there are any.
    pub rendered: String,
}

impl Failure {
    /// Creates the failure of a run for which no place in the script is to blame.
    pub fn without_place(message: String, hint: Option<&str>) -> Self {
        let mut rendered = format!("error: {message}\n");
        if let Some(hint) = hint {
            rendered.extend(["hint: ", hint, "\n"]);
        }
        Self { kind: FailureKind::Runtime, message, line: None, column: None, rendered }
    }

    /// Creates the failure of a script that ran, but whose value cannot be JSON: that of its `result`, or
    /// of its last expression.
    pub fn unfit_value(unfit: &Unfit, is_last_expression: bool) -> Self {
        let value = if is_last_expression { "the last expression" } else { "`result`" };
        Self::without_place(format!("{value} cannot be returned: {unfit}"), None)
    }

    /// Creates the failure of a run whose inputs are not a JSON object that can be read.
    pub fn unfit_inputs(reason: impl Display) -> Self {
        Self::without_place(format!("the inputs of the run cannot be read: {reason}"), None)
    }
}

/// Renders a call stack, each frame with `write`, without the middle of a long one.
pub fn traceback<F>(frames: &[F], write: impl Fn(&mut String, &F)) -> String {
    let mut out = String::new();
    if frames.is_empty() {
        return out;
    }
    out.push_str("Traceback (most recent call last):\n");
    let hidden = frames.len().saturating_sub(OUTER_FRAMES + INNER_FRAMES);
    for (at, frame) in frames.iter().enumerate() {
        if hidden > 0 && at == OUTER_FRAMES {
            let _ = writeln!(out, "  … {hidden} more calls");
        }
        if !(OUTER_FRAMES..OUTER_FRAMES + hidden).contains(&at) {
            write(&mut out, frame);
        }
    }
    out
}
