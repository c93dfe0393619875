//! What a script cannot use, and what to write instead.

use ruff_python_parser::ParseError;
use ruff_text_size::TextRange;

use super::map::Place;
use crate::failure::{Failure, FailureKind};

/// Most refusals that one failure shows; a script with more gets their number.
const SHOWN: usize = 12;

/// The last line of a failure. The other executor runs nearly all of these.
const OTHER: &str = "note: the Python executor runs most of these; the operator selects it with `code_mode_language: python`\n";

/// One construct that cannot run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(super) range: TextRange,
    /// The construct, or the message of the parser.
    what: String,
    /// What to write instead; `None` if the script is no Python.
    instead: Option<String>,
}

impl Refusal {
    pub(super) fn new(range: TextRange, what: &str, instead: &str) -> Self {
        Self { range, what: what.into(), instead: Some(instead.into()) }
    }

    /// Creates the refusal of a script that is no Python.
    pub(super) fn parse(error: &ParseError) -> Self {
        Self { range: error.location, what: error.error.to_string(), instead: None }
    }

    fn message(&self) -> String {
        match &self.instead {
            Some(instead) => format!("there is no {} here: {instead}", self.what),
            None => self.what.clone(),
        }
    }
}

/// Converts refusals, of which there is at least one, to a failure that shows all of them.
pub(crate) fn failure(file: &str, source: &str, refusals: &[Refusal]) -> Failure {
    let mut rendered = String::new();
    for refusal in refusals.iter().take(SHOWN) {
        let place = Place::of(source, refusal.range.start().to_usize());
        let snippet = place.snippet(file, refusal.range.len().to_usize());
        rendered.push_str(&format!("error: {}\n{snippet}", refusal.message()));
    }
    let more = refusals.len().saturating_sub(SHOWN);
    if more > 0 {
        rendered.push_str(&format!("… and {more} more\n"));
    }
    if refusals.iter().any(|refusal| refusal.instead.is_some()) {
        rendered.push_str(OTHER);
    }
    let first = &refusals[0];
    let place = Place::of(source, first.range.start().to_usize());
    let message = match refusals.len() - 1 {
        0 => first.message(),
        more => format!("{} (and {more} more in this script)", first.message()),
    };
    Failure {
        kind: FailureKind::Syntax,
        message,
        line: u32::try_from(place.line).ok(),
        column: u32::try_from(place.column).ok(),
        rendered,
    }
}
