//! The failure of a script, as people and models read it.

use starlark::{Error, ErrorKind};

use crate::convert::Unfit;
use crate::hints::hint_for;
use crate::tool::{Namespaces, ToolFailure};

/// Kind of a script's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The source does not parse, or uses an undefined name.
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
    /// The failure with call stack and source, and a hint if there is one.
    pub rendered: String,
}

impl Failure {
    /// Creates the failure of a script that ran, but whose `result` cannot be JSON.
    pub(crate) fn of_result(unfit: &Unfit) -> Self {
        let message = format!("`result` cannot be returned: {unfit}");
        Self {
            kind: FailureKind::Runtime,
            rendered: format!("error: {message}\n"),
            message,
            line: None,
            column: None,
        }
    }
}

/// Frames that are shown at the outer and at the inner end of a call stack. A recursion has
/// hundreds of equal frames.
const OUTER_FRAMES: usize = 4;
const INNER_FRAMES: usize = 8;

/// Converts `error` to a failure for the reader of the script.
pub(crate) fn describe(error: &Error, namespaces: &Namespaces) -> Failure {
    let message = error.without_diagnostic().to_string();
    let at = error.span().map(|span| span.resolve_span().begin);
    let mut rendered = shortened(&error.to_string());
    if let Some(hint) = hint_for(&message, namespaces) {
        rendered.push_str("hint: ");
        rendered.push_str(&hint);
        rendered.push('\n');
    }
    Failure {
        kind: kind(error),
        message: message.lines().next().unwrap_or_default().to_owned(),
        line: at.and_then(|at| u32::try_from(at.line + 1).ok()),
        column: at.and_then(|at| u32::try_from(at.column + 1).ok()),
        rendered,
    }
}

fn kind(error: &Error) -> FailureKind {
    match error.kind() {
        // `int("a")` is a parser error too, but it is raised by a call.
        ErrorKind::Parser(_) | ErrorKind::Scope(_) if error.call_stack().is_empty() => {
            FailureKind::Syntax
        }
        ErrorKind::Other(cause) if cause.is::<ToolFailure>() => FailureKind::Tool,
        _ => FailureKind::Runtime,
    }
}

/// Shortens Starlark's rendering: leaves out the middle of a long call stack, and ends in one line
/// break.
fn shortened(rendered: &str) -> String {
    let mut frames: Vec<String> = Vec::new();
    let mut lines = rendered.lines().peekable();
    let mut out = String::new();
    if let Some(title) = lines.next_if(|line| line.starts_with("Traceback")) {
        out = format!("{title}\n");
        // A frame is a line with its place, followed by its more deeply indented source.
        while let Some(line) = lines.next_if(|line| line.starts_with("  ")) {
            match frames.last_mut() {
                Some(frame) if line.starts_with("    ") => frame.extend([line, "\n"]),
                _ => frames.push(format!("{line}\n")),
            }
        }
    }
    let hidden = frames.len().saturating_sub(OUTER_FRAMES + INNER_FRAMES);
    if hidden > 0 {
        frames.splice(OUTER_FRAMES..OUTER_FRAMES + hidden, [format!("  … {hidden} more calls\n")]);
    }
    out.extend(frames);
    for line in lines {
        // Empty lines around the source carry no information.
        if !matches!(line.trim(), "" | "|") {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::fail;

    #[test]
    fn a_failure_contains_its_place_and_the_call_stack() {
        let failure = fail("def read():\n    return files.fail(path = 'a')\n\nread()\n");
        assert_eq!(failure.kind, FailureKind::Tool);
        assert_eq!(failure.message, "files.fail: refused");
        assert_eq!((failure.line, failure.column), (Some(2), Some(12)));
        let expected = "\
Traceback (most recent call last):
  * code.star:4, in <module>
      read()
  * code.star:2, in read
      return files.fail(path = 'a')
error: files.fail: refused
 --> code.star:2:12
2 |     return files.fail(path = 'a')
  |            ^^^^^^^^^^^^^^^^^^^^^^
";
        assert_eq!(failure.rendered, expected);
    }

    #[test]
    fn only_a_source_that_cannot_start_is_a_syntax_failure() {
        for (source, kind) in [
            ("x = (", FailureKind::Syntax),
            ("x = y", FailureKind::Syntax),
            ("return 1", FailureKind::Syntax),
            ("x = int('a')", FailureKind::Runtime),
            ("x = 1 // 0", FailureKind::Runtime),
            ("fail('no')", FailureKind::Runtime),
            ("gather([(files.read_file, {}), (files.fail, {})])", FailureKind::Tool),
        ] {
            assert_eq!(fail(source).kind, kind, "{source}");
        }
    }

    #[test]
    fn a_long_call_stack_is_shown_from_both_ends() {
        let failure = fail("def down(n):\n    return down(n + 1)\n\ndown(0)\n");
        assert_eq!(failure.message, "Starlark call stack overflow");
        assert_eq!(failure.line, Some(2));
        assert!(failure.rendered.contains("more calls\n"), "{}", failure.rendered);
        assert!(failure.rendered.lines().count() < 40, "{}", failure.rendered);
    }
}
