//! Spinners on a terminal, for steps that take time.

use std::{sync::LazyLock, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

/// The spinners of the process, one below the other: several components are compiled at once.
static SPINNERS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);

/// A line with a message and the time since its beginning, on standard error. It disappears when it is
/// dropped. Without a terminal nothing is shown.
pub struct Spinner(ProgressBar);

impl Spinner {
    /// Shows a line with this message.
    pub fn begin(message: String) -> Self {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}")
            .unwrap_or_else(|_| ProgressStyle::default_spinner());
        let line = SPINNERS.add(ProgressBar::new_spinner().with_style(style));
        line.set_message(message);
        line.enable_steady_tick(Duration::from_millis(120));
        Self(line)
    }

    /// Replaces the message.
    pub fn update(&self, message: String) {
        self.0.set_message(message);
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows that a component is being compiled, until the returned value is dropped.
pub fn compiling(message: &str) -> Box<dyn Send> {
    Box::new(Spinner::begin(message.to_owned()))
}
