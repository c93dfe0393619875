//! Progress line of a step that takes time.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};

/// A line about a step. On a terminal it is a spinner that disappears with the step; elsewhere it
/// is printed once and stays.
pub(super) struct Step(Option<ProgressBar>);

impl Step {
    pub(super) fn begin(what: &str) -> Self {
        if !io::stderr().is_terminal() {
            // A failure to write is ignored: no other stream is left to report it on.
            let _ = writeln!(io::stderr(), "{what}");
            return Self(None);
        }
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .expect("a template that parses");
        let line = ProgressBar::new_spinner().with_style(style).with_message(what.to_owned());
        line.enable_steady_tick(Duration::from_millis(120));
        Self(Some(line))
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}
