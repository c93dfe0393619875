//! Translates the configuration of another program into one of the gateway's own, and reports what
//! became of each setting.
//!
//! The translation only moves and renames settings. What the result may contain is decided by the
//! same reading as for every file: a setting that it refuses is removed and reported with the reason.

mod bifrost;
mod desktop;
mod draft;
mod relaxed;

use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use self::draft::Draft;
use super::{KeyPath, Problem, environment, file::File, json, read, resolve};

/// Maximum number of times that a draft is read. Each reading removes what the one before refused.
const MAX_READINGS: usize = 8;

/// Maximum number of values in a file, so that each can be compared with all others.
const MAX_VALUES: usize = 10_000;

/// A translated configuration.
#[derive(Debug)]
pub struct Imported {
    /// The program whose configuration it was.
    pub program: &'static str,
    /// The configuration of the gateway.
    pub file: Value,
    /// The outcome of each setting.
    pub lines: Vec<Line>,
    /// Environment variables that the configuration names and that are not set now.
    pub variables: Vec<String>,
}

impl Imported {
    /// Returns whether the result has neither a server nor a provider.
    pub fn is_empty(&self) -> bool {
        let has_servers = self.file["mcp"]["client_configs"]
            .as_array()
            .is_some_and(|clients| !clients.is_empty());
        let has_providers =
            self.file["providers"].as_object().is_some_and(|providers| !providers.is_empty());
        !has_servers && !has_providers
    }
}

/// The outcome of one setting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Line {
    /// Key in the file that was read, or in the result for what was not in it.
    pub key: KeyPath,
    /// The outcome.
    pub outcome: Outcome,
    /// The reason, or the new form of the setting.
    pub message: String,
}

/// Outcome of one setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in the result with its meaning.
    Taken,
    /// It is in the result in another form.
    Changed,
    /// It is not in the result because it has no meaning for the gateway.
    NoMeaning,
    /// It is not in the result, and the gateway behaves differently without it.
    Refused,
    /// It is in the result, and the gateway does not start before it is corrected.
    Invalid,
}

impl Outcome {
    /// Returns the outcome as one or two words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::Changed => "changed",
            Self::NoMeaning => "no meaning",
            Self::Refused => "refused",
            Self::Invalid => "invalid",
        }
    }
}

/// Translates the text of a configuration file of Bifrost, or of a desktop agent. `directory` is
/// where the result will be: its relative paths are checked there.
pub fn import(text: &str, directory: &Path) -> Result<Imported, Problem> {
    // Files of editors may have comments and a comma after the last element.
    let source = json::parse(text)
        .or_else(|problem| json::parse(&relaxed::strict(text)).map_err(|_| problem))
        .map_err(|problem| with_form(problem, text))?;
    let found = values(&source);
    if found > MAX_VALUES {
        let message = format!("has {found} values, more than the {MAX_VALUES} that are translated");
        return Err(Problem::of_file(&message));
    }
    let (program, mut draft) = if let Some(agent) = desktop::agent(&source) {
        (agent, desktop::translate(&source))
    } else if bifrost::is_of_bifrost(&source) {
        ("Bifrost", bifrost::translate(&source))
    } else {
        return Err(Problem::of_file(
            "is neither a configuration of Bifrost (with `mcp.client_configs` or `providers`) nor of a desktop agent (with \
             an object `mcpServers`, `servers` of VS Code, or `context_servers` of Zed)",
        ));
    };
    let variables = correct(&mut draft, directory);
    draft.note_taken();
    Ok(Imported { program, file: draft.file, lines: draft.lines, variables })
}

/// Adds the form that can be read to the problem of a text that does not begin as it.
fn with_form(problem: Problem, text: &str) -> Problem {
    if relaxed::strict(text).trim_start().starts_with('{') {
        return problem;
    }
    Problem::of_file(format!(
        "{}; only JSON can be read: write servers that are in YAML or TOML, such as those of goose and Codex, as \
         {{\"mcpServers\": {{\"NAME\": {{\"command\": …, \"args\": […]}}}}}} first",
        problem.message
    ))
}

/// Returns the number of values in a value, itself included.
fn values(value: &Value) -> usize {
    1 + match value {
        Value::Array(elements) => elements.iter().map(values).sum(),
        Value::Object(members) => members.values().map(values).sum(),
        _ => 0,
    }
}

/// Removes what the gateway refuses, and notes what has to be corrected by hand. Returns the
/// environment variables that are not set.
fn correct(draft: &mut Draft, directory: &Path) -> Vec<String> {
    for _ in 0..MAX_READINGS {
        let reading = read::read::<File>(&draft.file);
        let Some(file) = reading.value.filter(|_| reading.problems.is_empty()) else {
            let unusable = reading.skipped.into_keys();
            if !draft.refuse(reading.problems, unusable) {
                break;
            }
            continue;
        };
        let (_, problems) = resolve::resolve(file, directory, &environment);
        let (unset, invalid): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(|problem| unset_variable(problem).is_some());
        for problem in invalid {
            let message = format!("{}{}", draft.label(&problem.key), problem.message);
            draft.note(problem.key, Outcome::Invalid, message);
        }
        let mut variables: Vec<_> =
            unset.iter().filter_map(unset_variable).map(str::to_owned).collect();
        variables.sort_unstable();
        variables.dedup();
        return variables;
    }
    Vec::new()
}

/// Returns the variable if the problem is that it has no value.
fn unset_variable(problem: &Problem) -> Option<&str> {
    problem.message.strip_prefix(resolve::VARIABLE)?.split_once(' ').map(|(name, _)| name)
}

#[cfg(test)]
mod tests;
