//! A script's run as text for the model, with the words that scripts around the gateway already
//! look for.
//!
//! What a tool answered is not in the text unless the script printed it: that a script can keep
//! most of it to itself is what code mode is for.

use std::{collections::BTreeMap, fmt::Write as _, io};

use serde_json::{Value, json};

use super::{language, names::Namespace};
use crate::{
    door::Chain,
    sandbox::{FailureKind, ScriptFailure},
    text::cut,
    tool::{CallError, Content, ErrorKind, ToolError, ToolName, ToolOutput},
};

/// Bytes of a script's result, as JSON.
pub(super) const MAX_RESULT: usize = 1 << 20;
/// Bytes of what a script printed that are repeated to the model.
const MAX_PRINTED: usize = 64 << 10;
/// Bytes of a failure with its call stack and source.
const MAX_FAILURE: usize = 16 << 10;
/// Bytes of a failure in one line.
const MAX_MESSAGE: usize = 4 << 10;
/// Bytes of a list of names.
const MAX_NAMES: usize = 4 << 10;

/// What a run leaves besides its result.
pub(super) struct Report {
    printed: String,
    /// Calls that ended well, as a script writes them, with how often.
    completed: BTreeMap<String, usize>,
    servers: Vec<String>,
}

impl Report {
    /// Gathers what a run printed and called.
    pub(super) fn new(chain: &Chain, namespaces: &[Namespace]) -> Self {
        Self {
            printed: printed(chain),
            completed: completed(chain, namespaces),
            servers: namespaces.iter().map(|namespace| namespace.identifier.clone()).collect(),
        }
    }

    /// The answer of a script that ran to its end; none if its result is larger than
    /// [`MAX_RESULT`].
    pub(super) fn success(&self, result: Option<Value>) -> Option<ToolOutput> {
        let result = result.filter(|value| !value.is_null());
        let mut text = String::new();
        if result.is_none() && self.printed.is_empty() {
            text.push_str(&self.no_data());
        } else {
            if !self.printed.is_empty() {
                let _ = write!(text, "Print output:\n{}\n\n", self.printed);
            }
            text.push_str("Execution completed successfully.\n");
        }
        if let Some(value) = &result {
            let _ = writeln!(text, "Return value: {}", to_json(value)?);
        }
        let _ = write!(text, "\n{}{}", self.environment(), language::NOTE);
        Some(ToolOutput {
            content: vec![Content::Text { text }],
            structured: Some(json!({ "result": result })),
            meta: None,
        })
    }

    /// The error of a script that failed.
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
        let hints = self.hints();
        if !hints.is_empty() {
            let _ = write!(text, "\nHints:\n{hints}");
        }
        if !self.printed.is_empty() {
            let _ = write!(text, "\nPrint Output:\n{}\n", self.printed);
        }
        let _ = write!(text, "\n{}", self.environment());
        let message = cut(failure.message.clone(), MAX_MESSAGE);
        let details = json!({
            "line": failure.line, "column": failure.column, "message": message, "kind": failure.kind,
        });
        let code = Some(code.to_owned());
        CallError::Tool(ToolError {
            code,
            details: Some(details),
            ..ToolError::new(kind, text.trim_end())
        })
    }

    fn no_data(&self) -> String {
        let mut text = String::from(
            "Execution completed but produced no data: nothing was printed, and `result` was not set or is None.\n\n\
             Hints:\n  - Assign what you want to see to the global `result`, or print it\n",
        );
        if !self.completed.is_empty() {
            text.push_str("  - Its calls did run: do not repeat those that change something\n");
        }
        text
    }

    /// What only the host knows; what the language has to say is in the failure itself.
    fn hints(&self) -> String {
        let mut hints = String::new();
        if !self.completed.is_empty() {
            let calls = self.completed.iter().map(|(call, times)| {
                if *times > 1 { format!("{call} ({times} times)") } else { call.clone() }
            });
            let calls = cut(calls.collect::<Vec<_>>().join(", "), MAX_NAMES);
            let _ = writeln!(
                hints,
                "  - These calls ran before the failure and are not undone; do not repeat those that change something: {calls}"
            );
        }
        hints
    }

    fn environment(&self) -> String {
        format!("Environment:\n  Available server keys: {}\n", self.servers_in_a_row())
    }

    fn servers_in_a_row(&self) -> String {
        cut(self.servers.join(", "), MAX_NAMES)
    }
}

/// What the script printed so far, as far as there is room.
fn printed(chain: &Chain) -> String {
    let mut out = String::new();
    let mut left_out = 0;
    for part in chain.reporter().emitted() {
        let Content::Text { text } = part else { continue };
        if left_out > 0 || out.len() + text.len() >= MAX_PRINTED {
            left_out += 1;
            continue;
        }
        out.push_str(&text);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    if left_out > 0 {
        let _ = write!(out, "\n[{left_out} more lines were printed and are left out]");
    }
    out
}

fn completed(chain: &Chain, namespaces: &[Namespace]) -> BTreeMap<String, usize> {
    let mut times: BTreeMap<ToolName, usize> = BTreeMap::new();
    for tool in chain.ledger().completed_below(chain.id()) {
        *times.entry(tool).or_default() += 1;
    }
    if times.is_empty() {
        return BTreeMap::new();
    }
    let functions = namespaces
        .iter()
        .flat_map(|namespace| namespace.functions.iter().map(move |it| (namespace, it)));
    let called = functions.filter_map(|(namespace, function)| {
        let times = *times.get(&function.tool.name)?;
        Some((format!("{}.{}", namespace.identifier, function.identifier), times))
    });
    called.collect()
}

/// A value as JSON: indented where that fits, since an array in an array in an array can grow a
/// hundredfold by blanks alone, else on one line. None if it is larger than a result may be. Keys
/// stay in the order that the script gave them.
fn to_json(value: &Value) -> Option<String> {
    let mut indented = Bounded::default();
    let mut compact = Bounded::default();
    let written = if serde_json::to_writer_pretty(&mut indented, value).is_ok() {
        indented
    } else {
        serde_json::to_writer(&mut compact, value).ok()?;
        compact
    };
    Some(String::from_utf8(written.0).expect("JSON is written as text"))
}

/// Takes as many bytes as a result may have.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl io::Write for Bounded {
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
