//! A script that has stopped at calls that a person must decide about.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};

use super::argument_lines;
use crate::run::Position;
use airlock_strings::{cut, visible_line};

/// Longest list of calls in instructions, in bytes: some 250 lines, which a person reads before
/// deciding. The others are counted.
const MAX_INSTRUCTIONS: usize = 16 << 10;

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

    /// Returns the calls to decide about with their arguments, and how a person decides. For a caller
    /// that gets text alone.
    pub fn instructions(&self) -> String {
        let mut text = String::new();
        for (title, calls) in
            [("Waits for an approval", &self.pending), ("May have been made", &self.in_doubt)]
        {
            let mut left_out = 0;
            for call in calls {
                let lines = argument_lines(&call.arguments).join("\n  ");
                let call =
                    format!("{title}: {} ({})\n  {lines}", visible_line(&call.tool), call.position);
                if left_out > 0 || text.len() + call.len() > MAX_INSTRUCTIONS {
                    left_out += 1;
                } else {
                    text.push_str(call.trim_end());
                    text.push('\n');
                }
            }
            if left_out > 0 {
                let _ = writeln!(text, "{title}: {left_out} more calls, which are not shown here");
            }
        }
        let run = &self.run;
        let (action, command) = if self.in_doubt.is_empty() {
            ("approve` or `/deny", "approve")
        } else {
            ("resolve", "show")
        };
        let _ = write!(
            text,
            "\nNothing runs until a person decides: `POST /v1/runs/{run}/{action}` of the gateway, or \
             `airlock runs {command} {run}` for a run without a virtual key. The run then goes on from where it \
             stopped; `GET /v1/runs/{run}` has its result. Do not run the script again: that begins a second run."
        );
        text
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
/// takes up to eighty times the memory of its text, which is 1.3 MB for these.
const MAX_PARSED: usize = 16 << 10;

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

    fn calls(arguments: &[String]) -> Vec<RunCall> {
        (1..)
            .zip(arguments)
            .map(|(block, arguments)| RunCall {
                position: Position { block, branch: 0 },
                tool: "rec-write".to_owned(),
                arguments: arguments.clone(),
            })
            .collect()
    }

    fn suspension(pending: Vec<RunCall>, in_doubt: Vec<RunCall>) -> Suspension {
        let run = "run_1".to_owned();
        let token = "run_1.1".to_owned();
        Suspension { run, token, completed: Vec::new(), pending, in_doubt }
    }

    #[test]
    fn instructions_have_the_arguments_and_the_ways_to_decide() {
        let pending = calls(&[r#"{"n":3}"#.to_owned(), "{}".to_owned()]);
        let text = suspension(pending, Vec::new()).instructions();
        let expected = "Waits for an approval: rec-write (1)\n  n: 3\nWaits for an approval: rec-write (2)\n\n";
        assert!(text.starts_with(expected), "{text}");
        for part in ["/v1/runs/run_1/approve`", "`airlock runs approve run_1`"] {
            assert!(text.contains(part), "{text}");
        }
        let text = suspension(Vec::new(), calls(&[r#"{"n":3}"#.to_owned()])).instructions();
        assert!(text.starts_with("May have been made: rec-write (1)\n  n: 3\n"), "{text}");
        assert!(text.contains("/v1/runs/run_1/resolve`"), "{text}");
    }

    #[test]
    fn instructions_are_bounded_and_count_the_calls_that_are_left_out() {
        let long: Vec<_> = (0..60).map(|_| format!(r#"{{"a":{}}}"#, "7".repeat(1_000))).collect();
        let text = suspension(calls(&long), Vec::new()).instructions();
        assert!(text.len() < MAX_INSTRUCTIONS + 1_000, "{}", text.len());
        let shown = text.matches("rec-write").count();
        assert!(text.contains(&format!(": {} more calls, which are not shown here", 60 - shown)));
    }
}
