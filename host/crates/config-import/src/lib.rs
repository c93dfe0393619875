//! Translates the configuration of another program into one of the gateway's own, and reports what
//! became of each setting.
//!
//! The translation only moves and renames settings. What the result may contain is decided by the
//! same reading as for every file: a setting that it refuses is removed and reported with the reason.

mod bifrost;
mod client_name;
mod clouds;
mod desktop;
mod draft;
mod limits;
mod relaxed;
mod report;

use std::{collections::BTreeSet, path::Path};

use serde_json::Value;

use self::draft::Draft;
pub use self::report::{Imported, SettingOutcome, SettingReport};
use airlock_config::refused_values;
use airlock_config_file::{error::Problem, file::File, json, read, refused::Referent};

/// Maximum number of times that a draft is read. Each reading removes what the one before refused, and the next one refuses
/// an element that has lost a member which it needs; elements of the file nest less deeply.
const MAX_READINGS: usize = 8;

/// Maximum number of values in a file, so that each can be compared with all others: a hundred million comparisons.
const MAX_VALUES: usize = 10_000;

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
        let mut variables = BTreeSet::new();
        for value in refused_values(file, directory) {
            if let Some(Referent::Variable(name)) = value.reason.absent {
                variables.insert(name);
            } else {
                let Problem { key, message } = Problem::from(value);
                let message = format!("{}{message}", draft.label(&key));
                draft.note(key, SettingOutcome::Invalid, message);
            }
        }
        return variables.into_iter().collect();
    }
    Vec::new()
}

#[cfg(test)]
mod tests;
