//! Progress line of a step that takes time.

use std::io::{self, IsTerminal as _, Write as _};

use airlock_terminal::spinner::Spinner;

/// A line about a step. On a terminal it is a spinner that disappears with the step; elsewhere it
/// is printed once and stays.
pub(super) struct BuildStep {
    _spinner: Option<Spinner>,
}

impl BuildStep {
    pub(super) fn begin(what: &str) -> Self {
        if io::stderr().is_terminal() {
            return Self { _spinner: Some(Spinner::begin(what.to_owned())) };
        }
        // A failure to write is ignored: no other stream is left to report it on.
        let _ = writeln!(io::stderr(), "{what}");
        Self { _spinner: None }
    }
}
