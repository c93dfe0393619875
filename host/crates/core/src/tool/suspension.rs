//! A script that has stopped at calls that a person must decide about.

use serde::Serialize;
use serde_json::{Value, json};

use super::{GuardQuestions, SourceSet, SourcesByPath, argument_lines};
use crate::run::Position;
use airlock_strings::cut;

/// A run that stopped, and can go on once a person has decided about its calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspension {
    /// Identifier of the run.
    pub run: String,
    /// Names the run as it was shown. A caller that sends it back approves the pending calls.
    pub token: String,
    /// Calls that were made, in the order in which the script asked for them.
    pub completed: Vec<RunCall>,
    /// Calls that wait for an approval. None of them was made.
    pub pending: Vec<RunCall>,
    /// Calls that may have been made, and whose answers are lost.
    pub in_doubt: Vec<RunCall>,
}

/// A call of a run, as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunCall {
    /// Position in the run.
    #[serde(serialize_with = "shown")]
    pub position: Position,
    /// Name of the tool.
    pub tool: String,
    /// Arguments, as JSON text.
    #[serde(serialize_with = "parsed")]
    pub arguments: String,
    /// Sources of untrusted content that the script had read before.
    #[serde(skip_serializing_if = "SourceSet::is_empty")]
    pub sources: SourceSet,
    /// Sources of its arguments; `None` if they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_sources: Option<SourcesByPath>,
    /// Reasons for which guards require an approval of the call.
    #[serde(skip_serializing_if = "GuardQuestions::is_empty")]
    pub asked_by: GuardQuestions,
    /// Lines of the manifest that the call is, for the person who decides; none for a call of a tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub manifest: Vec<String>,
}

impl RunCall {
    /// Returns the lines of the call for the person who decides about it: those of a manifest, or of its
    /// [arguments](argument_lines).
    pub fn lines(&self) -> Vec<String> {
        if self.manifest.is_empty() {
            return argument_lines(&self.arguments);
        }
        self.manifest.clone()
    }

    /// Returns a [line](SourcesByPath::lines) for the sources of each argument; none if they are not known.
    pub fn source_lines(&self) -> Vec<String> {
        self.argument_sources.as_ref().map(SourcesByPath::lines).unwrap_or_default()
    }
}

impl Suspension {
    /// Returns the run as the `airlock` object of a response has it.
    pub fn to_json(&self) -> Value {
        let mut out = json!({
            "id": self.run,
            "request_state": self.token,
            "completed": self.completed,
            "pending": self.pending,
        });
        if !self.in_doubt.is_empty() {
            out["in_doubt"] = json!(self.in_doubt);
        }
        out
    }

    /// Names the calls to decide about, as a part of a sentence on one line.
    pub fn described(&self) -> String {
        let mut parts = Vec::new();
        if !self.pending.is_empty() {
            parts.push(format!("waits for the approval of {}", named(&self.pending)));
        }
        if !self.in_doubt.is_empty() {
            parts.push(format!(
                "needs a decision about calls that may have been made: {}",
                named(&self.in_doubt)
            ));
        }
        parts.join(", and ")
    }
}

fn named(calls: &[RunCall]) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<_> =
        calls.iter().take(SHOWN).map(|call| format!("{} ({})", call.tool, call.position)).collect();
    if calls.len() > SHOWN {
        names.push(format!("{} more", calls.len() - SHOWN));
    }
    names.join(", ")
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
fn shown<S: serde::Serializer>(position: &Position, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(position)
}

fn parsed<S: serde::Serializer>(arguments: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match shown_arguments(arguments) {
        Value::String(text) => serializer.serialize_str(&text),
        value => value.serialize(serializer),
    }
}

/// Longest arguments that are shown as data, in bytes. Longer ones are shown as text and cut: a tree
/// takes up to 150 times the memory of its text, which is 2.5 MB for these.
pub const MAX_PARSED: usize = 16 << 10;

/// Returns the arguments of a call as people see them.
pub fn shown_arguments(arguments: &str) -> Value {
    if arguments.len() > MAX_PARSED {
        return cut(arguments.to_owned(), MAX_PARSED).into();
    }
    serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into())
}
