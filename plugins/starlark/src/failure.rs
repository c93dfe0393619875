//! A script's own failure, as it is told to people and models.

use starlark::{Error, ErrorKind};

use crate::convert::Unfit;
use crate::hints::hint_for;
use crate::tool::{Namespaces, ToolFailure};

/// Where a script went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// It does not parse, or names something that does not exist.
    Syntax,
    /// It failed while running.
    Runtime,
    /// A tool that it called failed.
    Tool,
}

/// Why a script gave no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of failure.
    pub kind: FailureKind,
    /// The failure in one line.
    pub message: String,
    /// Line in the source, from 1.
    pub line: Option<u32>,
    /// Column in that line, from 1.
    pub column: Option<u32>,
    /// The failure with call stack, source and perhaps a hint.
    pub rendered: String,
}

impl Failure {
    /// The script ran, but what it left in `result` cannot leave.
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

/// Frames of a call stack that are shown from its outer and its inner end. Recursion has hundreds,
/// all alike.
const OUTER_FRAMES: usize = 4;
const INNER_FRAMES: usize = 8;

/// Tells what `error` means for the reader of the script.
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
        // `int("a")` is a parser's error as well, but raised by a call.
        ErrorKind::Parser(_) | ErrorKind::Scope(_) if error.call_stack().is_empty() => {
            FailureKind::Syntax
        }
        ErrorKind::Other(cause) if cause.is::<ToolFailure>() => FailureKind::Tool,
        _ => FailureKind::Runtime,
    }
}

/// Starlark's rendering with the middle of a long call stack left out, ending in one line break.
fn shortened(rendered: &str) -> String {
    let mut frames: Vec<String> = Vec::new();
    let mut lines = rendered.lines().peekable();
    let mut out = String::new();
    if let Some(title) = lines.next_if(|line| line.starts_with("Traceback")) {
        out = format!("{title}\n");
        // A frame is its place, and below it, further in, its source.
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
        // The source is framed by empty lines, which tell nothing.
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
    fn a_failure_says_where_it_happened_and_how_the_script_got_there() {
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
    fn only_what_does_not_run_is_a_syntax_failure() {
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
