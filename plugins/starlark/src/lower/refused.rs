//! Constructs that a script cannot use, and what to write instead.

use airlock_executor::{Failure, FailureKind};
use ruff_python_parser::ParseError;
use ruff_text_size::TextRange;

use super::map::ScriptPlace;

/// Most refusals that one failure shows; a script with more gets their number.
const SHOWN: usize = 12;

/// Marks a construct that the Python executor runs.
const MARK: &str = " [python]";

/// Follows the refusals of which at least one has the mark.
const NOTE: &str = "note: Python (`code_mode_language: python`, or the header `x-airlock-code-mode-language: python`) \
                    runs the constructs marked [python]\n";

/// One construct that cannot run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RefusedConstruct {
    pub(super) range: TextRange,
    /// The reason and what to write instead, or the message of the parser.
    message: String,
    /// Whether the Python executor runs the construct.
    runs_in_python: bool,
}

impl RefusedConstruct {
    /// Creates the refusal of a construct that the Python executor lacks, too.
    pub(super) fn new(range: TextRange, message: impl Into<String>) -> Self {
        Self { range, message: message.into(), runs_in_python: false }
    }

    /// Sets that the Python executor runs the construct.
    pub(super) fn but_in_python(mut self) -> Self {
        self.runs_in_python = true;
        self
    }

    /// Creates the refusal of a script that is no Python.
    pub(super) fn parse(error: &ParseError) -> Self {
        Self::new(error.location, error.error.to_string())
    }
}

/// Converts refusals, of which there is at least one, to a failure that shows all of them.
pub(crate) fn failure(file: &str, source: &str, refusals: &[RefusedConstruct]) -> Failure {
    let mut rendered = String::new();
    for refusal in refusals.iter().take(SHOWN) {
        let place = ScriptPlace::find(source, refusal.range.start().to_usize());
        let snippet = place.snippet(file, refusal.range.len().to_usize());
        let mark = if refusal.runs_in_python { MARK } else { "" };
        rendered.push_str(&format!("error: {}{mark}\n{snippet}", refusal.message));
    }
    let more = refusals.len().saturating_sub(SHOWN);
    if more > 0 {
        rendered.push_str(&format!("… and {more} more\n"));
    }
    if refusals.iter().take(SHOWN).any(|refusal| refusal.runs_in_python) {
        rendered.push_str(NOTE);
    }
    let first = &refusals[0];
    let place = ScriptPlace::find(source, first.range.start().to_usize());
    let message = match refusals.len() - 1 {
        0 => first.message.clone(),
        more => format!("{} (and {more} more in this script)", first.message),
    };
    Failure {
        kind: FailureKind::Syntax,
        message,
        line: u32::try_from(place.line).ok(),
        column: u32::try_from(place.column).ok(),
        rendered,
    }
}
