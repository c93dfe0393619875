//! The end of a run, as it is stored.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::codes::EXECUTOR_LOADING;
use crate::report;
use airlock_core::{
    door::Chain,
    tool::{CallError, Details, HostCode, ToolOutput},
};
use airlock_sandbox::WrongCall;
use airlock_strings::cut;

/// Maximum bytes of the printed text that is stored: a quarter of the largest result. A person reads it
/// in the list of runs; a model has had its part.
const MAX_OUTPUT: usize = 256 << 10;

/// Maximum bytes of each side of a difference: a few lines of a terminal, which a person compares. A result may be one
/// line of 1 MiB.
const MAX_EXCERPT: usize = 500;

/// Status of a run that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunEnding {
    /// The script ran to its end.
    Completed,
    /// The script failed, or was stopped by a limit.
    Failed,
    /// Its caller cancelled it or has gone.
    Cancelled,
}

/// End of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunOutcome {
    /// Status of the run.
    pub status: RunEnding,
    /// Value of `result`.
    #[serde(default)]
    pub(crate) result: Value,
    /// Text that the script printed.
    #[serde(default)]
    pub(crate) output: String,
    /// Text for the model: that of the result, or of the error.
    #[serde(default)]
    pub(crate) text: String,
    /// Code and message of the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<(String, String)>,
    /// Line of the script at which it failed, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// Fuel that the script used when it last ran, from its start to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fuel: Option<u64>,
    /// Calls of its source for which the script did not run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) wrong_calls: Vec<WrongCall>,
    /// Whether the executor has looked for what the arguments of calls may come from, which takes fuel.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) follows_values: bool,
}

/// The first difference of the ends of two runs of one script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EndDifference {
    /// The part that differs: `error`, `output`, `result`, `status` or `fuel`.
    pub part: &'static str,
    /// Line, from 1: of the script for an error that names one, of the text for output and result.
    pub line: Option<u64>,
    /// This line, or the part, of the stored end; empty if it has none.
    pub stored: String,
    /// The same of the other end.
    pub derived: String,
}

impl RunOutcome {
    /// Creates an outcome without a result.
    pub(crate) fn without_result(status: RunEnding) -> Self {
        let output = String::new();
        let text = String::new();
        let wrong_calls = Vec::new();
        let result = Value::Null;
        Self {
            status,
            result,
            output,
            text,
            error: None,
            line: None,
            fuel: None,
            wrong_calls,
            follows_values: false,
        }
    }

    /// Creates the outcome of a script that has ended.
    pub(crate) fn new(result: &Result<ToolOutput, CallError>, chain: &Chain) -> Self {
        let fuel = chain.reporter().fuel();
        let output = printed(chain);
        match result {
            Ok(returned) => {
                let structured = returned.structured.as_ref();
                let value = structured.and_then(|structured| structured.get("result"));
                let result = value.cloned().unwrap_or_default();
                let text = returned.to_text();
                Self { result, output, text, fuel, ..Self::without_result(RunEnding::Completed) }
            }
            Err(error) => {
                let is_cancelled = error.code() == HostCode::Cancelled;
                let status = if is_cancelled { RunEnding::Cancelled } else { RunEnding::Failed };
                let text = error.to_text();
                let line = line(error);
                let error = Some((code(error), message(error)));
                Self { output, text, error, line, fuel, ..Self::without_result(status) }
            }
        }
    }

    /// Returns the parts in which another run of the same script with the same answers differs.
    pub fn differences(&self, other: &Self) -> Vec<&'static str> {
        let parts = [
            ("status", self.status == other.status),
            ("result", self.result == other.result),
            ("output", self.output == other.output),
            ("error", (&self.error, self.line) == (&other.error, other.line)),
            ("fuel", self.fuel == other.fuel),
        ];
        parts.into_iter().filter(|(_, is_same)| !is_same).map(|(part, _)| part).collect()
    }

    /// Returns the first difference of another run of the same script with the same answers; `None` if both ended alike.
    /// An error comes first, because it is the reason of other differences.
    pub fn first_difference(&self, other: &Self) -> Option<EndDifference> {
        let differences = self.differences(other);
        let part = ["error", "output", "result", "status", "fuel"]
            .into_iter()
            .find(|part| differences.contains(part))?;
        let stored = self.text_of(part);
        let derived = other.text_of(part);
        let is_text = matches!(part, "output" | "result");
        let at = if is_text { first_line(&stored, &derived) } else { 0 };
        let line = match part {
            "error" => other.line.or(self.line),
            _ => is_text.then_some(at as u64 + 1),
        };
        let stored = excerpt(&stored, at, is_text);
        let derived = excerpt(&derived, at, is_text);
        Some(EndDifference { part, line, stored, derived })
    }

    /// Returns a part of the end as text.
    fn text_of(&self, part: &str) -> String {
        match part {
            "error" => match &self.error {
                Some((code, message)) => format!("{code}: {message}"),
                None => String::new(),
            },
            "output" => self.output.clone(),
            "result" => {
                let text = report::to_json(&self.result);
                text.unwrap_or_else(|| self.result.to_string())
            }
            "status" => json!(self.status).as_str().unwrap_or_default().to_owned(),
            _ => self.fuel.map(|fuel| fuel.to_string()).unwrap_or_default(),
        }
    }

    /// Returns whether the script got nowhere for a reason that passes, such as too many others that run.
    pub fn has_not_run(&self) -> bool {
        let passing = [HostCode::Busy.as_str(), HostCode::Unavailable.as_str(), EXECUTOR_LOADING];
        self.error.as_ref().is_some_and(|(code, _)| passing.contains(&code.as_str()))
    }

    /// Returns the message of the error; `None` if there is none.
    pub fn reason(&self) -> Option<&str> {
        self.error.as_ref().map(|(_, message)| message.as_str())
    }

    pub(crate) fn to_stored(&self) -> String {
        serde_json::to_string(self).expect("keys are strings, and writing to memory does not fail")
    }

    /// Reads a stored outcome; `None` if another version of this program wrote it.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
}

/// Returns the index of the first line in which two texts differ.
fn first_line(one: &str, other: &str) -> usize {
    one.split('\n').zip(other.split('\n')).take_while(|(one, other)| one == other).count()
}

/// Returns a line of a text, or all of it, cut where it is long.
fn excerpt(text: &str, line: usize, is_line: bool) -> String {
    let found = if is_line { text.split('\n').nth(line).unwrap_or_default() } else { text };
    cut(found.to_owned(), MAX_EXCERPT)
}

/// Returns the text that the script printed.
fn printed(chain: &Chain) -> String {
    let emitted = chain.reporter().emitted();
    let lines: Vec<_> = emitted.iter().filter_map(|part| part.as_text()).collect();
    cut(lines.join("\n"), MAX_OUTPUT)
}

fn code(error: &CallError) -> String {
    error.tool_code().unwrap_or_else(|| error.code().as_str()).to_owned()
}

/// Returns the line of the script that an error names.
fn line(error: &CallError) -> Option<u64> {
    error.tool_error()?.details.as_ref()?["line"].as_u64()
}

/// Returns the message of an error, without what surrounds it in the text for the model.
fn message(error: &CallError) -> String {
    let own = match error.details() {
        Details::Tool(tool) => {
            tool.details.as_ref().and_then(|details| details["message"].as_str())
        }
        Details::Report { reason } => Some(reason.as_str()),
        _ => None,
    };
    own.map_or_else(|| error.message(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(output: &str, result: Value) -> RunOutcome {
        let output = output.to_owned();
        RunOutcome {
            output,
            result,
            fuel: Some(7),
            ..RunOutcome::without_result(RunEnding::Completed)
        }
    }

    fn difference(one: &RunOutcome, other: &RunOutcome) -> (&'static str, Option<u64>, String) {
        let found = one.first_difference(other).expect("they differ");
        (found.part, found.line, format!("{} | {}", found.stored, found.derived))
    }

    #[test]
    fn the_first_difference_names_the_line_and_both_sides() {
        let stored = ended("a\nb", json!([1, 2]));
        assert_eq!(stored.first_difference(&stored.clone()), None);
        let found = difference(&stored, &ended("a\nc", json!([1, 3])));
        assert_eq!(found, ("output", Some(2), "b | c".to_owned()));
        let found = difference(&stored, &ended("a\nb\nc", json!([1, 2])));
        assert_eq!(found, ("output", Some(3), " | c".to_owned()));
        let found = difference(&stored, &ended("a\nb", json!([1, 3])));
        assert_eq!(found, ("result", Some(3), "  2 |   3".to_owned()));
        let fuel = RunOutcome { fuel: Some(8), ..stored.clone() };
        assert_eq!(difference(&stored, &fuel), ("fuel", None, "7 | 8".to_owned()));
        let error = Some(("run_diverged".to_owned(), "another call".to_owned()));
        let failed =
            RunOutcome { error, line: Some(4), ..RunOutcome::without_result(RunEnding::Failed) };
        let found = difference(&stored, &failed);
        assert_eq!(found, ("error", Some(4), " | run_diverged: another call".to_owned()));
    }

    #[test]
    fn nested_results_are_compared_without_their_indentation() {
        let elements = Value::from(vec![1; 50_000]);
        let deep = (0..100).fold(elements, |inner, _| Value::from(vec![inner]));
        let text = ended("", deep).text_of("result");
        assert!(text.len() <= report::MAX_RESULT, "{} bytes", text.len());
    }

    #[test]
    fn a_script_that_found_no_place_has_not_run() {
        let busy = Some((HostCode::Busy.as_str().to_owned(), String::new()));
        let busy = RunOutcome { error: busy, ..RunOutcome::without_result(RunEnding::Failed) };
        assert!(busy.has_not_run() && !ended("", json!(1)).has_not_run());
    }
}
