//! Resumes a run: how a request names it, and which errors leave it as it was.

use std::{collections::BTreeMap, fmt};

use serde_json::json;

use super::{
    EXECUTE,
    codes::{EXECUTOR_LOADING, TOOL_ABSENT},
};
use airlock_core::{
    door::{Caller, Resumed},
    tool::{Answers, CallError, HostCode},
};

/// State that a request names a run with.
///
/// `Display` and [`RunToken::parse`] use the forms `run_…` and `run_….3`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunToken {
    /// The run, about whose calls the decisions are stored.
    Decided(String),
    /// The run as it was shown in an epoch: the request decides about the calls that were shown.
    Shown {
        /// Identifier of the run.
        run: String,
        /// The epoch.
        epoch: i64,
    },
}

impl RunToken {
    /// Returns the identifier of the run.
    pub(crate) fn run(&self) -> &str {
        match self {
            Self::Decided(run) | Self::Shown { run, .. } => run,
        }
    }
}

impl fmt::Display for RunToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decided(run) => f.write_str(run),
            Self::Shown { run, epoch } => write!(f, "{run}.{epoch}"),
        }
    }
}

impl RunToken {
    /// Reads a state; `None` if it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Some(match text.split_once('.') {
            Some((run, epoch)) => {
                let token = Self::Shown { run: run.to_owned(), epoch: epoch.parse().ok()? };
                // Each state has one spelling.
                return (token.to_string() == text && !epoch.starts_with('-')).then_some(token);
            }
            None => Self::Decided(text.to_owned()),
        })
    }
}

/// Returns whether answers decide about the calls that a run has shown, without a decision that was stored
/// before.
pub fn decides_what_was_shown(answers: &Answers) -> bool {
    matches!(RunToken::parse(&answers.token), Some(RunToken::Shown { .. }))
}

/// Admits the continuation of a run whose decisions are stored before it runs. Fails if the caller may
/// not use code mode.
pub fn resume(caller: &Caller, run: &str, script: &str) -> Result<Resumed, CallError> {
    let arguments = json!({"code": script}).to_string();
    let token = RunToken::Decided(run.to_owned()).to_string();
    caller.resume(EXECUTE, &arguments, Answers { token, given: BTreeMap::new() })
}

/// Returns whether an error has stopped a script before it got anywhere, for a reason that passes. A
/// run that was resumed is then as it was before.
pub fn can_wait(error: &CallError) -> bool {
    match error.code() {
        HostCode::Busy => true,
        HostCode::Unavailable => error.tool().is_some_and(|tool| tool.as_str() == EXECUTE),
        _ => matches!(error.tool_code(), Some(EXECUTOR_LOADING | TOOL_ABSENT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_form() {
        let shown = RunToken::Shown { run: "run_1".to_owned(), epoch: 3 };
        for (text, token) in [("run_1", RunToken::Decided("run_1".to_owned())), ("run_1.3", shown)]
        {
            assert_eq!(RunToken::parse(text), Some(token.clone()));
            assert_eq!((token.to_string().as_str(), token.run()), (text, "run_1"));
        }
        for text in [
            "run_1.",
            "run_1.x",
            "run_1.-1",
            "run_1.+1",
            "run_1.01",
            "run_1.1.1",
            "run_1.9223372036854775808",
        ] {
            assert_eq!(RunToken::parse(text), None, "{text}");
        }
    }
}
