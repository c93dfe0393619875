//! The failure of a script, as people and models read it.

use std::fmt::Write as _;

use airlock_executor::{
    Failure, FailureKind, Script, SourcePlace, ToolError, refused_calls, traceback,
};
use monty_types::{CodeLoc, ExcType, MontyException, StackFrame};

use crate::hints;
use crate::lower::Lowered;
use crate::lower::lacks::{self, Lack};
use crate::lower::source::Text;
use crate::protocol::{TOOL_ERROR, TOOL_ERROR_TYPE};
use crate::session::PythonSession;

/// Lines of a tool's message that are shown after its first: the model reads them, and its source chooses how many there
/// are.
const MAX_DETAILS: usize = 10;
/// Bytes of these lines together, for the same reason.
const MAX_DETAIL_BYTES: usize = 1024;

/// Parts of the messages about what exceeds a size of the interpreter's code.
const TOO_LONG: [&str; 5] =
    ["too large", "exceeds i16", "exceeds u16", "exceeds u8", "stack offset"];

/// Creates the failure of a script that does not compile. If it uses what the interpreter
/// lacks, every such place is reported.
pub(crate) fn compile_failure(error: &MontyException, lowered: &Lowered<'_>) -> Failure {
    let lacks = match error.exc_type() {
        ExcType::NotImplementedError => lacks::find(lowered.text.source),
        _ => Vec::new(),
    };
    if let Some(first) = lacks.first() {
        let file = error.traceback().first().map_or("", |frame| frame.filename.as_str());
        return lack_failure(file, &lowered.text, first, &lacks);
    }
    let mut message = renamed(one_line(&error.summary()), lowered.text.source);
    if TOO_LONG.iter().any(|limit| message.contains(limit)) {
        let kind = message.split(':').next().unwrap_or_default();
        message = format!("{kind}: this function or expression is too long: split it");
    }
    describe(FailureKind::Syntax, message, error, &lowered.text, None)
}

/// Creates the failure of a script that ran.
pub(crate) fn run_failure(
    error: &MontyException,
    lowered: &Lowered<'_>,
    session: &PythonSession<'_>,
) -> Failure {
    let text = error.message().unwrap_or_default();
    if error.exc_type() == TOOL_ERROR_TYPE
        && let Some((tool, failure)) = session.raised(text)
    {
        let message = one_line(&format!("{tool}: {}", failure.message));
        let failed = describe(FailureKind::Tool, message, error, &lowered.text, None);
        return with_details(failed, failure);
    }
    let message = renamed(one_line(&error.summary()), lowered.text.source);
    let hint = hints::find(&message, lowered.text.source, session.bindings());
    describe(FailureKind::Runtime, message, error, &lowered.text, hint)
}

/// Returns the failure of a script that is refused before it runs, such as one that names a tool and does
/// not call it; `None` if there is no such place.
pub(crate) fn refusal(file: &str, lowered: &Lowered<'_>) -> Option<Failure> {
    Some(lack_failure(file, &lowered.text, lowered.refused.first()?, &lowered.refused))
}

/// Returns the failure of a script that does not run because of its calls; `None` if none of them is wrong.
pub(crate) fn wrong_calls(script: &Script, lowered: &Lowered<'_>) -> Option<Failure> {
    let Script { name, source, bindings, .. } = script;
    refused_calls(&lowered.calls, &bindings.check(&lowered.calls), |out, range| {
        let before = &source[..range.start];
        let line = u32::try_from(before.matches('\n').count()).map_or(u32::MAX, |line| line + 1);
        let start = before.rsplit('\n').next().unwrap_or_default().chars().count();
        let column = u32::try_from(start).map_or(u32::MAX, |column| column + 1);
        let length = u32::try_from(source[range.clone()].chars().count()).unwrap_or(u32::MAX);
        let _ = writeln!(out, "  File \"{name}\", line {line}");
        point(out, lowered.text.line(line), column, column.saturating_add(length));
        SourcePlace { line, column }
    })
}

/// Creates the failure of a script that ran, and dropped a call of this tool before it was made.
pub(crate) fn dropped_call(tool: &str) -> Failure {
    let message = format!("`{tool}(…)` was never awaited, so the call was not made");
    let hint = format!("write `await {tool}(…)`, or await what holds the call on every path");
    Failure::without_place(message, Some(&hint))
}

/// Creates the failure of a script with constructs that the interpreter lacks, in their order.
fn lack_failure(file: &str, text: &Text<'_>, first: &Lack, lacks: &[Lack]) -> Failure {
    let mut rendered = String::new();
    for lack in lacks {
        let source = text.line(lack.at.line);
        let _ = writeln!(rendered, "  File \"{file}\", line {}", lack.at.line);
        point(&mut rendered, source, lack.at.column, lack.at.column);
        let _ = writeln!(rendered, "error: {}\nhint: {}", lack.what, lack.hint);
    }
    Failure {
        kind: FailureKind::Syntax,
        message: first.what.to_string(),
        line: Some(first.at.line),
        column: Some(first.at.column),
        rendered,
    }
}

/// Adds the kind of a tool's failure to the last line, and the further lines of its message.
fn with_details(mut failure: Failure, error: &ToolError) -> Failure {
    failure.rendered.truncate(failure.rendered.trim_end().len());
    let _ = writeln!(failure.rendered, " (kind: {})", error.kind);
    let mut left = MAX_DETAIL_BYTES;
    let mut lines = error.message.lines().skip(1).filter(|line| !line.trim().is_empty());
    for line in lines.by_ref().take(MAX_DETAILS) {
        let shown = &line[..line.floor_char_boundary(left)];
        let cut = if shown.len() < line.len() { "…" } else { "" };
        let _ = writeln!(failure.rendered, "    {}{cut}", shown.trim_end());
        left -= shown.len();
        if left == 0 || !cut.is_empty() {
            return failure;
        }
    }
    let more = lines.count();
    if more > 0 {
        let _ = writeln!(failure.rendered, "    … {more} more lines");
    }
    failure
}

fn describe(
    kind: FailureKind,
    message: String,
    error: &MontyException,
    text: &Text<'_>,
    hint: Option<String>,
) -> Failure {
    let frames = error.traceback().iter();
    let frames: Vec<_> =
        frames.filter_map(|frame| Some((frame, text.original(frame.start)?))).collect();
    let mut rendered =
        traceback(&frames, |out, (frame, start)| write_frame(out, frame, *start, text));
    let title = if kind == FailureKind::Tool { TOOL_ERROR } else { "error" };
    let _ = writeln!(rendered, "{title}: {message}");
    if let Some(hint) = hint {
        let _ = writeln!(rendered, "hint: {hint}");
    }
    let at = frames.last().map(|(_, start)| start);
    Failure { kind, message, line: at.map(|at| at.line), column: at.map(|at| at.column), rendered }
}

/// Writes a call like Python.
fn write_frame(out: &mut String, frame: &StackFrame, start: CodeLoc, text: &Text<'_>) {
    let function = frame.frame_name.as_deref().unwrap_or("<module>");
    let _ = writeln!(out, "  File \"{}\", line {}, in {function}", frame.filename, start.line);
    let is_line = frame.end.line == frame.start.line;
    let end = text.original(frame.end).filter(|_| is_line).map_or(u32::MAX, |end| end.column);
    point(out, text.line(start.line), start.column, end);
}

/// Writes a line of the source, and marks the columns from `start` up to `end` under it.
fn point(out: &mut String, line: &str, start: u32, end: u32) {
    /// Characters of a line that are shown.
    const WIDTH: usize = 160;
    let trimmed = line.trim();
    let indent = line.chars().take_while(|c| c.is_whitespace()).count();
    let length = trimmed.chars().count();
    let start = (start as usize).saturating_sub(1 + indent).min(length);
    let end = (end as usize).saturating_sub(1 + indent).clamp(start + 1, length.max(start + 1));
    // A long line is shown from shortly before the place.
    let skipped = if length > WIDTH { start.saturating_sub(WIDTH / 4) } else { 0 };
    let shown: String = trimmed.chars().skip(skipped).take(WIDTH).collect();
    let before = if skipped > 0 { "…" } else { "" };
    let after = if skipped + WIDTH < length { "…" } else { "" };
    let marks = (end - start).min((skipped + WIDTH).saturating_sub(start).max(1));
    let blanks = " ".repeat(start - skipped + before.chars().count());
    let _ = writeln!(out, "    {before}{shown}{after}");
    let _ = writeln!(out, "    {blanks}{}", "^".repeat(marks));
}

/// Parts of a message that speak of the interpreter, and what stands for them. The first that is
/// contained in another comes after it.
const NAMES: [(&str, &str); 13] = [
    ("Internal error in monty: ", ""),
    ("The monty syntax parser does not yet support ", "a run does not have "),
    ("type object '_airlock_urllib_parse", "module 'urllib.parse"),
    ("type object '_airlock_", "module '"),
    ("_airlock_urllib_parse", "urllib.parse"),
    ("_airlock_wait_for", "wait_for"),
    ("_airlock_task", "create_task"),
    ("_airlock_nothing", "Semaphore"),
    ("_airlock_builtin_", ""),
    ("_airlock_datetime_", ""),
    ("_airlock_pattern_", ""),
    ("_airlock_re_", "re."),
    ("_airlock_", ""),
];

/// Gives what a message names the names that scripts know: a tool's failure, functions that stand in
/// for Python's, and the interpreter. What the script itself names stays.
fn renamed(mut message: String, source: &str) -> String {
    for (own, known) in NAMES {
        if message.contains(own) && !source.contains(own) {
            message = message.replace(own, known);
        }
    }
    for (own, known) in [(&*TOOL_ERROR_TYPE.to_string(), TOOL_ERROR), ("monty", "the interpreter")]
    {
        if !source.contains(own) {
            message = message.replace(own, known);
        }
    }
    message
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::fail;

    #[test]
    fn what_is_too_long_for_the_interpreter_is_to_be_split() {
        let source = format!("def f(x):\n  if x:\n{}", "    y = [x, x, x, x]\n".repeat(8000));
        let failure = fail(&source);
        let message = "SyntaxError: this function or expression is too long: split it";
        assert_eq!((&*failure.message, failure.line), (message, Some(2)));
        let source = format!("x = [1{} for a, *b in []]", " for i in [1]".repeat(254));
        assert!(!fail(&source).message.contains("operand"), "{}", fail(&source).message);
    }

    #[test]
    fn a_failure_contains_its_place_and_the_call_stack() {
        let failure = fail("def read():\n    return files.fail(path = 'a')\n\nread()\n");
        assert_eq!(failure.kind, FailureKind::Tool);
        assert_eq!(failure.message, "files.fail: refused");
        assert_eq!((failure.line, failure.column), (Some(2), Some(12)));
        let expected = "\
Traceback (most recent call last):
  File \"code\", line 4, in <module>
    read()
    ^^^^^^
  File \"code\", line 2, in read
    return files.fail(path = 'a')
           ^^^^^^^^^^^^^^^^^^^^^^
ToolError: files.fail: refused (kind: denied)
";
        assert_eq!(failure.rendered, expected);
    }

    #[test]
    fn the_further_lines_of_a_tools_message_are_shown() {
        let failure = fail("files.fail_with(text = 'bad request\\nfield: city\\n\\n  too long')");
        assert_eq!(failure.message, "files.fail_with: bad request");
        let end = "ToolError: files.fail_with: bad request (kind: denied)\n    field: city\n      too long\n";
        assert!(failure.rendered.ends_with(end), "{}", failure.rendered);
        let long = "é".repeat(512);
        for (text, end) in [
            ("'a' + '\\nb' * 10", "    b\n"),
            ("'a' + '\\nb' * 12", "    b\n    … 2 more lines\n"),
            ("'a\\n' + 'é' * 512", &format!("    {long}\n")),
            ("'a\\n' + 'é' * 513", &format!("    {long}…\n")),
        ] {
            let rendered = fail(&format!("files.fail_with(text = {text})")).rendered;
            assert!(rendered.ends_with(end), "{text}: {rendered}");
        }
    }

    #[test]
    fn names_of_the_executor_itself_are_not_shown() {
        for (source, message) in [
            (
                "import asyncio\nx = await asyncio.gather(files.read_file(), wrong=True)",
                "TypeError: gather() got an unexpected keyword argument 'wrong'",
            ),
            (
                "import statistics\nstatistics.wrong([1])",
                "AttributeError: module 'statistics' has no attribute 'wrong'",
            ),
            (
                "import re\nre.split('(a)')",
                "TypeError: re.split() missing 1 required positional argument: 'string'",
            ),
            ("def f(*a): pass\nf(*[1], **{'_airlock_x': 1})", "_airlock_x"),
        ] {
            assert!(fail(source).message.contains(message), "{source}: {}", fail(source).message);
        }
        assert!(!fail("raise SystemExit(1)").rendered.contains("monty"));
    }

    #[test]
    fn an_awaited_call_fails_where_it_is_awaited() {
        let failure = fail("import asyncio\nx = 1; y = await files.fail(path = 'a')\n");
        assert_eq!(
            (failure.kind, failure.line, failure.column),
            (FailureKind::Tool, Some(2), Some(12))
        );
        assert!(failure.rendered.contains("\n               ^^^^^"), "{}", failure.rendered);
    }

    #[test]
    fn only_a_source_that_cannot_start_is_a_syntax_failure() {
        for (source, kind) in [
            ("x = (", FailureKind::Syntax),
            ("def f(:", FailureKind::Syntax),
            ("def f():\n  yield 1", FailureKind::Syntax),
            ("x = y", FailureKind::Runtime),
            ("x = int('a')", FailureKind::Runtime),
            ("x = 1 // 0", FailureKind::Runtime),
            ("raise ValueError('no')", FailureKind::Runtime),
            (
                "import asyncio\nawait asyncio.gather(files.read_file(), files.fail())",
                FailureKind::Tool,
            ),
        ] {
            assert_eq!(fail(source).kind, kind, "{source}");
        }
    }

    #[test]
    fn the_middle_of_a_long_call_stack_is_left_out() {
        let failure = fail("def f(n):\n    return f(n + 1)\nf(0)\n");
        assert_eq!(failure.message, "RecursionError: maximum recursion depth exceeded");
        assert!(failure.rendered.contains("\n  … 18"), "{}", failure.rendered);
        assert!(failure.rendered.len() < 2_000, "{}", failure.rendered);
    }

    #[test]
    fn a_place_behind_the_script_is_its_end() {
        let failure = fail("x = 1\nif x:");
        assert_eq!((failure.line, failure.column), (Some(2), Some(6)), "{}", failure.rendered);
        let failure = fail("x = [1,");
        assert_eq!(failure.line, Some(1), "{}", failure.rendered);
    }

    #[test]
    fn a_long_line_is_shown_around_the_place() {
        let failure = fail(&format!("x = [{} y]", "1, ".repeat(500)));
        assert!(failure.rendered.contains("    …1, 1, "), "{}", failure.rendered);
        assert!(failure.rendered.contains("y]\n"), "{}", failure.rendered);
        let marked = failure.rendered.lines().rev().find(|line| line.contains('^'));
        let shown = failure.rendered.lines().find(|line| line.contains("y]"));
        let marked = marked.and_then(|line| line.chars().position(|c| c == '^'));
        let shown = shown.and_then(|line| line.chars().position(|c| c == 'y'));
        assert_eq!(marked, shown, "{}", failure.rendered);
        let failure = fail(&format!("y + [{} 1]", "1, ".repeat(500)));
        assert!(failure.rendered.contains("1,…\n"), "{}", failure.rendered);
        assert!(failure.rendered.len() < 600, "{}", failure.rendered);
    }
}
