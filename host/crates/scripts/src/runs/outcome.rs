//! The end of a run, as it is stored.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use airlock_core::{
    door::Chain,
    tool::{CallError, Details, HostCode, ToolOutput},
};
use airlock_strings::cut;

/// Maximum bytes of the printed text that is stored: a quarter of the largest result. A person reads it
/// in the list of runs; a model has had its part.
const MAX_OUTPUT: usize = 256 << 10;

/// How a run ended.
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
    /// How the run ended.
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
}

impl RunOutcome {
    /// Creates an outcome without a result.
    pub(crate) fn of(status: RunEnding) -> Self {
        let output = String::new();
        let text = String::new();
        Self { status, result: Value::Null, output, text, error: None, line: None, fuel: None }
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
                Self { result, output, text, fuel, ..Self::of(RunEnding::Completed) }
            }
            Err(error) => {
                let is_cancelled = error.code() == HostCode::Cancelled;
                let status = if is_cancelled { RunEnding::Cancelled } else { RunEnding::Failed };
                let text = error.to_text();
                let line = line(error);
                let error = Some((code(error), message(error)));
                Self { output, text, error, line, fuel, ..Self::of(status) }
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

    pub(crate) fn to_stored(&self) -> String {
        json!(self).to_string()
    }

    /// Reads a stored outcome; `None` if another version of this program wrote it.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }
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
