//! The failure of a script, as people and models read it.

use std::fmt::Write as _;

use airlock_executor::{
    Bindings, Failure, FailureKind, Script, SourceCall, SourcePlace, refused_calls, traceback,
};
use starlark::codemap::Span;
use starlark::{Error, ErrorKind};

use crate::hints;
use crate::lower::OWN;
use crate::lower::map::{Map, ScriptPlace};
use crate::tool::ToolFailure;

/// Lines of a tool's message that are shown, and bytes of those after the first.
const MESSAGE_LINES: usize = 10;
const MESSAGE_BYTES: usize = 1024;

/// The script as its author wrote it.
pub(crate) struct ScriptSource<'a> {
    pub(crate) file: &'a str,
    pub(crate) text: &'a str,
    /// Leads from the lowered text to this one.
    pub(crate) map: &'a Map,
}

impl<'a> ScriptSource<'a> {
    /// Returns the place of a span of the lowered text, and its length in bytes.
    fn place(&self, span: Span) -> Option<(ScriptPlace<'a>, usize)> {
        let origin = self.map.origin(span.begin().get()..span.end().get())?;
        Some((ScriptPlace::find(self.text, origin.start), origin.len()))
    }
}

/// Returns the failure of a script that does not run because of its calls; `None` if none of them is wrong.
pub(crate) fn wrong_calls(script: &Script, calls: &[SourceCall]) -> Option<Failure> {
    refused_calls(calls, &script.bindings.check(calls), |out, range| {
        let place = ScriptPlace::find(&script.source, range.start);
        out.push_str(&place.snippet(&script.name, range.len()));
        let [line, column] =
            [place.line, place.column].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        SourcePlace { line, column }
    })
}

/// Converts `error` to a failure for the reader of the script.
pub(crate) fn describe(error: &Error, source: &ScriptSource<'_>, bindings: &Bindings) -> Failure {
    let message = plain(&error.without_diagnostic().to_string());
    let place = error.span().and_then(|span| source.place(span.span));
    let code = place.as_ref().map_or("", |(place, _)| place.rest());
    let first = message.lines().next().unwrap_or_default();
    let mut rendered = traceback(&frames(error, source), |out, (place, caller)| {
        let ScriptPlace { line, text, .. } = place;
        let _ = writeln!(out, "  * {}:{line}, in {caller}\n      {}", source.file, text.trim());
    });
    rendered.extend(["error: ", first, "\n"]);
    if kind(error) == FailureKind::Tool {
        rendered.push_str(&further_lines(&message));
    }
    if let Some((place, length)) = &place {
        rendered.push_str(&place.snippet(source.file, *length));
    }
    if let Some(hint) = hints::find(&message, code, bindings) {
        rendered.extend(["hint: ", &hint, "\n"]);
    }
    Failure {
        kind: kind(error),
        message: first.to_owned(),
        line: place.as_ref().and_then(|(place, _)| u32::try_from(place.line).ok()),
        column: place.as_ref().and_then(|(place, _)| u32::try_from(place.column).ok()),
        rendered,
    }
}

/// Returns the lines of a tool's message after the first, indented: the reason is often there. Cut to
/// [`MESSAGE_LINES`] and [`MESSAGE_BYTES`].
fn further_lines(message: &str) -> String {
    let lines: Vec<_> = message.lines().skip(1).filter(|line| !line.trim().is_empty()).collect();
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at + 1 >= MESSAGE_LINES || out.len() + line.len() > MESSAGE_BYTES {
            out.extend(["  … ", &(lines.len() - at).to_string(), " more lines\n"]);
            break;
        }
        out.extend(["  ", line, "\n"]);
    }
    out
}

/// Gives names of the lowered text back their form in the script.
fn plain(message: &str) -> String {
    message
        .replace("__py_cell_", "")
        .replace("__py_name_", "")
        .replace("__py_mod_", "")
        .replace("Object of type `namespace`", "Object of type `module`")
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

/// Returns the places of the calls that led to the error, and the functions that they are in.
fn frames<'a>(error: &Error, source: &ScriptSource<'a>) -> Vec<(ScriptPlace<'a>, String)> {
    let mut frames = Vec::new();
    let mut caller = "<module>".to_owned();
    for frame in &error.call_stack().frames {
        if let Some(location) = &frame.location
            && let Some((place, _)) = source.place(location.span)
        {
            frames.push((place, caller.clone()));
        }
        if !frame.name.starts_with(OWN) && frame.name != "None" {
            caller.clone_from(&frame.name);
        }
    }
    frames
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
  * code:4, in <module>
      read()
  * code:2, in read
      return files.fail(path = 'a')
error: files.fail: refused
 --> code:2:12
2 |     return files.fail(path = 'a')
  |            ^^^^^^^^^^^^^^^^^^^^^^
";
        assert_eq!(failure.rendered, expected);
    }

    #[test]
    fn the_lines_of_a_tools_message_are_shown_to_a_limit() {
        let failure = fail("files.fail_with(text = 'one\\n two\\n\\nthree')");
        assert_eq!(failure.message, "files.fail_with: one");
        let error = "error: files.fail_with: one\n   two\n  three\n --> ";
        assert!(failure.rendered.contains(error), "{}", failure.rendered);
        let failure = fail("fail('one\\ntwo')");
        assert!(!failure.rendered.contains("\n  two\n"), "{}", failure.rendered);
        assert_eq!(further_lines("one"), "");
        let pydantic = "1 validation error\nstate\n  Input should be 'open' or 'closed'\n";
        assert_eq!(further_lines(pydantic), "  state\n    Input should be 'open' or 'closed'\n");
        let lines = |count: usize| vec!["x"; count].join("\n");
        assert_eq!(further_lines(&lines(10)), "  x\n".repeat(9));
        assert_eq!(further_lines(&lines(12)), "  x\n".repeat(9) + "  … 2 more lines\n");
        let long = format!("first\n{}", "y".repeat(1024));
        assert_eq!(further_lines(&long), format!("  {}\n", "y".repeat(1024)));
        assert_eq!(further_lines(&(long + "y")), "  … 1 more lines\n");
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
