//! Reports a script's run as text for the model. The fixed phrases are kept for existing scripts
//! that search for them.
//!
//! Results of tools are not in the text unless the script printed them. Code mode exists so that a
//! script can process results without passing them to the model.

use std::{borrow::Cow, collections::BTreeMap, fmt::Write as _, io};

use serde_json::{Map, Value, json};

use super::{
    language::LanguageTexts,
    names::{Namespace, every_function},
    text::{self, MAX_NAMES},
};
use airlock_core::{
    door::{Chain, NESTED_CALLS},
    tool::{CallError, Content, ErrorKind, HostCode, ReachedLimit, ToolError, ToolOutput},
};
use airlock_sandbox::{FailureKind, ScriptFailure};
use airlock_strings::{MAX_MESSAGE_BYTES, cut};

/// Maximum bytes of a script's result as JSON: as many as the result of a plugin has by default. A program gets it
/// whole as structured content, and its run stores it; a model gets [`MAX_SHOWN`] of it.
pub(super) const MAX_RESULT: usize = 1 << 20;
/// Maximum bytes of the printed text in the report of a failure: about 16,000 tokens. It is more than
/// after a success: of a script that failed, the printed text is all that remains.
const MAX_PRINTED: usize = 64 << 10;
/// Maximum bytes of the printed text and the result together, as the model receives them: about 6,000
/// tokens, which stay in the conversation.
const MAX_SHOWN: usize = 24_000;
/// Maximum bytes of a failure with its call stack and source: about 4,000 tokens. A script may fail with any text, such
/// as a whole result.
const MAX_FAILURE: usize = 16 << 10;

/// Output of a run besides its result.
pub(super) struct ScriptReport<'a> {
    printed: String,
    /// Tools of the calls that have succeeded.
    succeeded: Vec<String>,
    /// Tools of the calls that were sent, may have changed something and have not succeeded.
    failed: Vec<String>,
    namespaces: &'a [Namespace],
    language: &'static LanguageTexts,
}

impl<'a> ScriptReport<'a> {
    /// Collects the printed text of a run and its calls, by the full names of their tools: those that have
    /// `succeeded`, and those that may have changed something although they `failed`.
    pub(super) fn new(
        chain: &Chain,
        namespaces: &'a [Namespace],
        language: &'static LanguageTexts,
        succeeded: Vec<String>,
        failed: Vec<String>,
    ) -> Self {
        Self { printed: printed(chain), succeeded, failed, namespaces, language }
    }

    /// Returns the output of a script that ran to its end; `None` if its result is larger than
    /// [`MAX_RESULT`].
    pub(super) fn success(&self, result: Option<Value>) -> Option<ToolOutput> {
        let result = result.filter(|value| !value.is_null());
        let mut text = String::new();
        if result.is_none() && self.printed.is_empty() {
            text.push_str(&self.no_data());
        } else {
            if !self.printed.is_empty() {
                let limit = if result.is_some() { MAX_SHOWN / 2 } else { MAX_SHOWN };
                let printed = shown(&self.printed, limit, "print less");
                let _ = write!(text, "Print output:\n{printed}\n\n");
            }
            text.push_str("Execution completed successfully.\n");
        }
        if let Some(value) = &result {
            let limit = MAX_SHOWN.saturating_sub(self.printed.len()).max(MAX_SHOWN / 2);
            let value = to_json(value)?;
            let hint = "return less: a part, a sum, or only the keys that you need";
            let _ = writeln!(text, "Return value: {}", shown(&value, limit, hint));
        }
        let _ = write!(text, "\n{}{}", self.environment(), self.language.note);
        // Moved: as a tree, a result of 1 MiB takes up to 90 MiB.
        let structured = Map::from_iter([("result".to_owned(), result.unwrap_or_default())]);
        Some(ToolOutput {
            content: vec![Content::text(text)],
            structured: Some(structured.into()),
            ..ToolOutput::default()
        })
    }

    /// Returns the error of a script that failed.
    pub(super) fn failure(&self, failure: &ScriptFailure) -> CallError {
        let (class, kind, code) = match failure.kind {
            FailureKind::Syntax => ("syntax", ErrorKind::InvalidInput, "script_syntax"),
            FailureKind::Runtime => ("runtime", ErrorKind::InvalidInput, "script_runtime"),
            FailureKind::Tool => ("runtime", ErrorKind::Internal, "script_tool"),
        };
        let mut text = format!(
            "Execution {class} error:\n\n{}\n",
            cut(failure.rendered.trim().to_owned(), MAX_FAILURE)
        );
        self.finish(&mut text);
        let message = cut(failure.message.clone(), MAX_MESSAGE_BYTES);
        let details = json!({
            "line": failure.line, "column": failure.column, "message": message, "kind": failure.kind,
        });
        let code = Some(code.to_owned());
        CallError::from(ToolError { code, details: Some(details), ..ToolError::new(kind, text) })
    }

    /// Returns the error of a script that a limit has ended.
    pub(super) fn limit(&self, limit: CallError) -> CallError {
        let reason = reason(&limit);
        let mut report = format!("Execution stopped at a limit:\n\n{reason}\n");
        self.finish(&mut report);
        limit.with_report(reason, report)
    }

    /// Returns the error of a script that its journal has stopped.
    pub(super) fn stopped(&self, error: ToolError) -> CallError {
        let mut message = format!("Execution stopped:\n\n{}\n", error.message);
        self.finish(&mut message);
        let details = Some(json!({"message": error.message}));
        CallError::from(ToolError { message, details, ..error })
    }

    /// Adds what the script did before it ended without a result.
    fn finish(&self, text: &mut String) {
        let hints = self.hints();
        if !hints.is_empty() {
            let _ = write!(text, "\nHints:\n{hints}");
        }
        if !self.printed.is_empty() {
            let _ = write!(text, "\nPrint Output:\n{}\n", self.printed);
        }
        let _ = write!(text, "\n{}", self.environment());
        text.truncate(text.trim_end().len());
    }

    fn no_data(&self) -> String {
        let mut text = String::from(
            "Execution completed but produced no data: nothing was printed, and `result` was not set or is None.\n\n\
             Hints:\n  - Assign what you want to see to the global `result`, or print it\n",
        );
        if !self.succeeded.is_empty() {
            text.push_str("  - Its calls did run: do not repeat those that change something\n");
        }
        text
    }

    /// Returns hints that only the host can give. Hints about the language are part of the failure
    /// itself.
    fn hints(&self) -> String {
        let mut hints = String::new();
        let succeeded = calls(&self.succeeded, self.namespaces);
        if !succeeded.is_empty() {
            let _ = writeln!(
                hints,
                "  - These calls succeeded before the failure and are not undone; do not repeat those that change something: {succeeded}"
            );
        }
        let failed = calls(&self.failed, self.namespaces);
        if !failed.is_empty() {
            let _ = writeln!(
                hints,
                "  - A call that failed may also have had an effect; check before you repeat it: {failed}"
            );
        }
        hints
    }

    fn environment(&self) -> String {
        format!("Environment:\n  Available server keys: {}\n", self.servers_in_a_row())
    }

    fn servers_in_a_row(&self) -> String {
        let names = self.namespaces.iter().map(|namespace| namespace.identifier.as_str());
        cut(names.collect::<Vec<_>>().join(", "), MAX_NAMES)
    }
}

/// Returns the limit that has ended a script, and the remedy.
fn reason(error: &CallError) -> String {
    match error.limit() {
        Some(ReachedLimit::Budget { what: NESTED_CALLS, most }) => format!(
            "the script reached its limit of {most} tool calls; make fewer calls, or split the script (operator: max_nested_calls)"
        ),
        Some(ReachedLimit::Budget { what, most }) => {
            format!("the script reached its limit of {most} {what}")
        }
        Some(ReachedLimit::Amount(bytes)) if error.code() == HostCode::ResultTooLarge => format!(
            "the result of the script is larger than {bytes} bytes; return less: a part, a sum, or only the keys that you need"
        ),
        _ => error.message(),
    }
}

/// Returns the text that the script printed so far, up to [`MAX_PRINTED`] bytes, with the number of
/// omitted lines.
fn printed(chain: &Chain) -> String {
    let emitted = chain.reporter().emitted();
    let (mut out, left_out) =
        text::fitting(emitted.iter().filter_map(|part| part.as_text()), MAX_PRINTED);
    out.truncate(out.trim_end().len());
    if left_out > 0 {
        let _ = write!(out, "\n[{left_out} more lines were printed and are left out]");
    }
    out
}

/// Returns calls of tools as a script writes them, with their number, in a row.
fn calls(tools: &[String], namespaces: &[Namespace]) -> String {
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for tool in tools {
        *times.entry(tool).or_default() += 1;
    }
    if times.is_empty() {
        return String::new();
    }
    let called = every_function(namespaces).filter_map(|(namespace, function)| {
        let times = *times.get(function.tool.full_name.as_str())?;
        Some((format!("{}.{}", namespace.identifier, function.identifier), times))
    });
    let called: BTreeMap<String, usize> = called.collect();
    let called = called
        .into_iter()
        .map(|(call, times)| if times > 1 { format!("{call} ({times} times)") } else { call });
    cut(called.collect::<Vec<_>>().join(", "), MAX_NAMES)
}

/// Returns a text, cut at the end of a line if there is one in the second half of `limit` bytes. A
/// marker tells how long the text is, and how to get less.
fn shown<'t>(text: &'t str, limit: usize, hint: &str) -> Cow<'t, str> {
    if text.len() <= limit {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(limit)];
    let end = head.rfind('\n').filter(|end| *end >= limit / 2).unwrap_or(head.len());
    let bytes = text.len();
    Cow::Owned(format!("{}\n[cut after {end} of {bytes} bytes; {hint}]", &text[..end]))
}

/// Renders a value as JSON: indented if that fits, otherwise on one line, because indentation can
/// make nested arrays a hundred times larger. `None` if the value is larger than a result may be.
/// Keys keep the order of the script.
pub(super) fn to_json(value: &Value) -> Option<String> {
    let mut indented = BoundedWriter::default();
    let mut compact = BoundedWriter::default();
    let written = if serde_json::to_writer_pretty(&mut indented, value).is_ok() {
        indented
    } else {
        serde_json::to_writer(&mut compact, value).ok()?;
        compact
    };
    Some(String::from_utf8(written.0).expect("JSON is written as text"))
}

/// Buffer that accepts at most [`MAX_RESULT`] bytes.
#[derive(Default)]
struct BoundedWriter(Vec<u8>);

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_RESULT {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use airlock_core::tool::ToolName;

    use super::*;

    #[test]
    fn each_limit_of_a_script_has_a_remedy() {
        let calls = CallError::budget(NESTED_CALLS, 64);
        assert_eq!(calls.to_string(), "the call reached its limit of 64 nested tool calls");
        assert_eq!(
            reason(&calls),
            "the script reached its limit of 64 tool calls; make fewer calls, or split the script (operator: max_nested_calls)"
        );
        let result = CallError::result_too_large(ToolName::alias("a"), 7);
        assert!(reason(&result).contains("larger than 7 bytes; return less"));
        let handles = CallError::budget("handles at a time", 3);
        assert_eq!(reason(&handles), "the script reached its limit of 3 handles at a time");
    }

    #[test]
    fn a_text_beyond_the_limit_is_cut_at_a_line_and_says_how_long_it_is() {
        assert_eq!(shown("abcd", 4, "less"), "abcd");
        assert_eq!(shown("ab\ncde", 5, "less"), "ab\n[cut after 2 of 6 bytes; less]");
        assert_eq!(shown("a\nbcdef", 5, "less"), "a\nbcd\n[cut after 5 of 7 bytes; less]");
        assert_eq!(shown("äöü", 3, "less"), "ä\n[cut after 2 of 6 bytes; less]");
    }
}
