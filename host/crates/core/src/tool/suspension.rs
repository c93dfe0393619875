//! A script that has stopped at calls that a person must decide about.

use serde::Serialize;
use serde_json::{Value, json};

use super::{GuardQuestions, SourceSet, SourcesByPath, argument_lines};
use crate::run::Position;
use airlock_json::{self as json, Caps};
use airlock_strings::cut;

/// Limit on the memory of the arguments of one run that are shown as data, in bytes. A run keeps 16 MiB of them, which may
/// take 150 times as much as trees.
const MAX_TREES_BYTES: usize = 8 << 20;

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

    /// Returns the call with its arguments as data if they take at most `left` bytes as a tree, which is then
    /// less; else with them as text.
    fn to_json(&self, left: &mut usize) -> Value {
        if self.arguments.len() <= MAX_PARSED
            && let Ok(cost) = json::check(self.arguments.as_bytes(), &Caps::memory(*left))
        {
            *left = left.saturating_sub(cost.tree_bytes);
            return json!(self);
        }
        let mut out = json!(Self { arguments: String::new(), ..self.clone() });
        out["arguments"] = cut(self.arguments.clone(), MAX_PARSED).into();
        out
    }

    /// Returns a [line](SourcesByPath::lines) for the sources of each argument; none if they are not known.
    pub fn source_lines(&self) -> Vec<String> {
        self.argument_sources.as_ref().map(SourcesByPath::lines).unwrap_or_default()
    }
}

impl Suspension {
    /// Returns the run as the `airlock` object of a response has it. The arguments of the first calls to decide about are
    /// shown as data. Once those of the run would take more memory than a response has for them, they are shown as
    /// text.
    pub fn to_json(&self) -> Value {
        let mut left = MAX_TREES_BYTES;
        let [pending, in_doubt, completed] = [&self.pending, &self.in_doubt, &self.completed]
            .map(|calls| calls.iter().map(|call| call.to_json(&mut left)).collect::<Vec<_>>());
        // Not by `json!`, which would copy them.
        let mut out = json!({"id": self.run, "request_state": self.token});
        out["completed"] = completed.into();
        out["pending"] = pending.into();
        if !in_doubt.is_empty() {
            out["in_doubt"] = in_doubt.into();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trees_of_a_run_are_bounded() {
        let dense = format!("[{}0]", r#"{"":0},"#.repeat(2_000));
        let call = |arguments: &str| RunCall {
            position: Position { block: 1, branch: 0 },
            tool: "a-b".to_owned(),
            arguments: arguments.to_owned(),
            sources: SourceSet::default(),
            argument_sources: None,
            asked_by: GuardQuestions::default(),
            manifest: Vec::new(),
        };
        let suspension = Suspension {
            run: "run_1".to_owned(),
            token: "run_1.1".to_owned(),
            completed: vec![call(&dense); 64],
            pending: vec![call(r#"{"a":1}"#), call("no JSON")],
            in_doubt: Vec::new(),
        };
        let shown = suspension.to_json();
        let arguments = |list: &str| -> Vec<Value> {
            let calls = shown[list].as_array().into_iter().flatten();
            calls.map(|call| call["arguments"].clone()).collect()
        };
        assert_eq!(arguments("pending"), [json!({"a": 1}), json!("no JSON")]);
        let completed = arguments("completed");
        let data = completed.iter().filter(|arguments| arguments.is_array()).count();
        assert!((1..32).contains(&data), "{data}");
        assert_eq!(completed.last(), Some(&json!(dense)));
        assert_eq!(shown["completed"][63]["tool"], "a-b");
    }
}
