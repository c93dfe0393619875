//! Output of the commands.

use std::io::{self, IsTerminal as _, Write as _};

use anyhow::Context as _;
use serde::Serialize;
use serde_json::{Value, json};

use super::outcome::CommandOutcome;
use airlock_config::ConfigError;
use airlock_core::tool::{CallError, CallFailure, Content, Details, ErrorKind, HostCode};
pub use airlock_strings::shell_word as quoted;
use airlock_strings::{causes, visible, visible_json, visible_line};

/// Reason for a missing result, in machine-readable form.
#[derive(Debug, Clone, Serialize)]
pub struct CommandFailure {
    /// Short, stable error code: with [`HostCode::PREFIX`] before it if Airlock made the error, and a tool's
    /// own otherwise.
    pub code: String,
    /// The message, without causes.
    pub message: String,
    /// Structured details that a tool attached to its error; for a script, the position of the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Kind of the failed call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<ErrorKind>,
    /// Time to wait before the next try, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Further parts of a tool's error, such as a screenshot.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub content: Vec<Content>,
    /// Causes of the failure, nearest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl CommandFailure {
    /// Creates a failure of Airlock's own, without details. `code` has no prefix.
    pub fn new(code: &str, message: String) -> Self {
        Self {
            code: format!("{}{code}", HostCode::PREFIX),
            message,
            details: None,
            kind: None,
            retry_after_ms: None,
            content: Vec::new(),
            causes: Vec::new(),
        }
    }

    /// Creates the failure of a call, without details.
    pub fn from_call(failure: CallFailure, message: String) -> Self {
        let CallFailure { code, kind, retry_after_ms } = failure;
        Self { code, kind: Some(kind), retry_after_ms, ..Self::new("", message) }
    }
}

impl From<&CallError> for CommandFailure {
    fn from(error: &CallError) -> Self {
        let message = match error.details() {
            Details::Unapproved { arguments } => {
                format!("{error}; it was called with {arguments}")
            }
            _ => error.to_string(),
        };
        let common = Self::from_call(error.into(), message);
        match error.details() {
            Details::Tool(tool) => {
                Self { details: tool.details.clone(), content: tool.content.clone(), ..common }
            }
            Details::Suspended(suspension) => {
                Self { details: Some(suspension.to_json()), ..common }
            }
            _ => Self { causes: new_causes(error), ..common },
        }
    }
}

impl From<&anyhow::Error> for CommandFailure {
    fn from(error: &anyhow::Error) -> Self {
        let code = match error.downcast_ref::<CallError>() {
            Some(error) => error.code().as_str(),
            None if error.is::<ConfigError>() => "config",
            None => error.downcast_ref::<CodedFailure>().map_or("failed", |coded| coded.code),
        };
        Self { causes: new_causes(error.as_ref()), ..Self::new(code, error.to_string()) }
    }
}

/// A failure of a command with a code of its own.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct CodedFailure {
    code: &'static str,
    message: String,
}

impl CodedFailure {
    /// Creates a failure. `code` has no prefix.
    pub fn new(code: &'static str, message: String) -> Self {
        Self { code, message }
    }
}

/// Returns the causes of an error, nearest first. A cause that was printed before is left out, because
/// many libraries repeat the cause in their own message.
fn new_causes(error: &(dyn std::error::Error + 'static)) -> Vec<String> {
    let mut printed = vec![error.to_string()];
    for cause in causes(error).map(ToString::to_string) {
        if !printed.iter().any(|text| text.contains(&cause)) {
            printed.push(cause);
        }
    }
    printed.split_off(1)
}

/// The reader of standard output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("standard output was closed by its reader")]
pub struct StdoutClosed;

/// Prints a line as it is. Text from a tool or a server must pass through [`for_stdout`] first.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        written => written.context("standard output cannot be written to"),
    }
}

/// Prints the one JSON document of a command. Invisible characters, which texts from outside may have, are escaped:
/// the values stay the same, and none of them acts on a terminal.
pub fn document(document: &impl Serialize) -> anyhow::Result<()> {
    line(&document_text(document)?)
}

fn document_text(document: &impl Serialize) -> anyhow::Result<String> {
    let json = serde_json::to_string_pretty(document);
    Ok(visible_json(&json.context("the result cannot be written as JSON")?))
}

/// Prints the response of the management API to a change: the document, or a line for people.
pub fn response(document: &Value, as_json: bool, text: &str) -> anyhow::Result<CommandOutcome> {
    if as_json {
        self::document(document)?;
    } else {
        line(text)?;
    }
    Ok(CommandOutcome::Success)
}

/// Prints a response of the management API that has a credential, which is shown only now. `hint` says so
/// to people.
pub fn credential(
    document: &Value,
    as_json: bool,
    hint: &str,
    pointer: &str,
) -> anyhow::Result<CommandOutcome> {
    if !as_json {
        self::hint(hint);
    }
    let value = document.pointer(pointer).and_then(Value::as_str);
    response(document, as_json, value.unwrap_or_default())
}

/// Prints a list of the management API, which is in the member `member`: the document, or for people a line
/// for each element, or `none`.
pub fn list(
    document: &Value,
    as_json: bool,
    member: &str,
    none: &str,
    shown: fn(&Value) -> String,
) -> anyhow::Result<CommandOutcome> {
    if as_json {
        self::document(document)?;
        return Ok(CommandOutcome::Success);
    }
    let elements = document[member].as_array().map(Vec::as_slice).unwrap_or_default();
    if elements.is_empty() {
        hint(none);
    }
    elements.iter().try_for_each(|element| line(&shown(element)))?;
    Ok(CommandOutcome::Success)
}

/// Returns a text of a response on one line, after `before`; empty if there is none.
pub fn optional(before: &str, text: &Value) -> String {
    text.as_str().map_or_else(String::new, |text| format!("{before}{}", one_line(text, 64)))
}

/// Prints the failure of a command: `error: …` for people, `{"ok": false, "error": …}` for
/// machines.
pub fn failure(error: &anyhow::Error, as_json: bool) {
    let failure = CommandFailure::from(error);
    if as_json && document(&json!({"ok": false, "error": failure})).is_ok() {
        return;
    }
    complain(&failure);
}

/// Prints a failure for people.
pub fn complain(failure: &CommandFailure) {
    let mut text = shown(&failure.message);
    for cause in &failure.causes {
        text.push_str("\n  caused by: ");
        text.push_str(&shown(cause));
    }
    labelled("1;31", "error", &text);
}

/// Prints that a run waits for a decision, which is not a failure.
pub fn waiting(text: &str) {
    labelled("1;33", "waiting", &shown(text));
}

/// Prints a warning for people to standard error. The text may have several lines.
pub fn warning(text: &str) {
    labelled("1;33", "warning", &shown(text));
}

/// Prints text to standard error after a label in a colour, which is an ANSI code.
fn labelled(colour: &str, label: &str, text: &str) {
    // A failure to write is ignored: no other stream is left to report it on.
    let _ = writeln!(io::stderr(), "{}{label}:{} {text}", ansi(colour), ansi("0"));
}

/// Returns the escape sequence of an ANSI code; nothing without colours.
fn ansi(code: &str) -> String {
    if is_colourful() { format!("\x1b[{code}m") } else { String::new() }
}

/// Prints an indented hint to standard error.
pub fn hint(text: &str) {
    let _ = writeln!(io::stderr(), "  {text}");
}

/// Returns whether standard error is a terminal and its user wants colours.
pub fn is_colourful() -> bool {
    io::stderr().is_terminal()
        && airlock_config::environment("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Prepares text for standard output: [`shown`] on a terminal, unchanged for a file or a pipe.
pub fn for_stdout(text: &str) -> String {
    if io::stdout().is_terminal() { shown(text) } else { text.to_owned() }
}

/// Makes the invisible characters of a text from outside visible. Tabs and both kinds of line
/// breaks are kept, because results have columns and lines.
fn shown(text: &str) -> String {
    let lines = text.replace("\r\n", "\n");
    lines.split('\t').map(visible).collect::<Vec<_>>().join("\t")
}

/// Returns `text` on one line with its invisible characters made visible, cut to at most `width`
/// characters.
pub fn one_line(text: &str, width: usize) -> String {
    // Every run of spaces becomes one, except for look-alikes that a person should know of.
    let words: Vec<_> =
        text.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty()).collect();
    let line = visible_line(&words.join(" "));
    match line.char_indices().nth(width) {
        None => line,
        Some(_) => line.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Returns `text` as [`one_line`] does, without a part of its middle if it is too long: the remedy
/// of a failure is at the end of its text.
pub fn both_ends(text: &str, width: usize) -> String {
    let line = one_line(text, usize::MAX);
    let length = line.chars().count();
    if length <= width {
        return line;
    }
    let end = width / 2;
    let start = width.saturating_sub(end + 1);
    line.chars().take(start).chain(['…']).chain(line.chars().skip(length - end)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::ToolError;

    #[test]
    fn only_codes_of_airlock_have_its_prefix() {
        assert_eq!(CommandFailure::from(&CallError::busy()).code, "airlock.busy");
        assert_eq!(
            CommandFailure::from(&anyhow::Error::new(CallError::busy())).code,
            "airlock.busy"
        );
        assert_eq!(CommandFailure::from(&anyhow::anyhow!("no")).code, "airlock.failed");
        let coded = anyhow::Error::new(CodedFailure::new("run_not_found", "no".to_owned()));
        assert_eq!(CommandFailure::from(&coded).code, "airlock.run_not_found");
        assert_eq!(code_of_tool(Some("no_such_city")), "no_such_city");
        assert_eq!(code_of_tool(None), "airlock.tool_error");
    }

    fn code_of_tool(code: Option<&str>) -> String {
        let error =
            ToolError { code: code.map(str::to_owned), ..ToolError::new(ErrorKind::Other, "no") };
        CommandFailure::from(&CallError::from(error)).code
    }

    #[test]
    fn a_cause_that_the_message_contains_is_not_printed_again() {
        let error = anyhow::anyhow!("no such file").context("no such file").context("it failed");
        let CommandFailure { message, causes, .. } = CommandFailure::from(&error);
        assert_eq!(
            (message.as_str(), causes.as_slice()),
            ("it failed", &["no such file".into()][..])
        );
        let error = anyhow::anyhow!("no such file").context("it failed: no such file");
        assert!(CommandFailure::from(&error).causes.is_empty());
    }

    #[test]
    fn a_line_is_cut_to_its_width() {
        assert_eq!(one_line("a  b\nc", 5), "a b c");
        assert_eq!(one_line("äöüäöü", 5), "äöüä…");
        assert_eq!(both_ends("äöüäöü", 5), "äö…öü");
        assert_eq!((both_ends("abc  d", 5).as_str(), both_ends("abc", 0).as_str()), ("abc d", "…"));
    }

    #[test]
    fn a_document_has_no_character_that_acts_on_a_terminal() {
        let document = json!({"text": "a\u{9b}2J\u{202e}\u{1b}b\u{7f}"});
        let text = document_text(&document).expect("JSON");
        assert_eq!(text, "{\n  \"text\": \"a\\u009b2J\\u202e\\u001bb\\u007f\"\n}");
        assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), document);
    }

    #[test]
    fn text_from_outside_is_shown_with_its_invisible_characters() {
        let text = "a\u{200b}b\tc\r\n\u{1b}[2J\u{a0}";
        assert_eq!(shown(text), "a⟨U+200B⟩b\tc\n⟨U+001B⟩[2J⟨U+00A0⟩");
        assert_eq!(one_line(text, 100), "a⟨U+200B⟩b c ⟨U+001B⟩[2J⟨U+00A0⟩");
    }
}
