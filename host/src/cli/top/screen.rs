//! The alternate screen of a terminal, which shows frames in place of each other.

use std::io::{self, Write as _};

use anyhow::Context as _;
use rustix::termios::tcgetwinsize;

use super::{frame, sample::Sample};
use airlock_terminal::output::one_line;

/// Begins: alternate screen, no cursor, no automatic wrapping of lines.
const BEGIN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
/// Restores what [`BEGIN`] changes.
const END: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Moves to the upper left corner.
const HOME: &str = "\x1b[H";
/// Clears the rest of the line, and moves to the next one.
const NEXT: &str = "\x1b[K\r\n";
/// Clears everything behind the cursor.
const CLEAR: &str = "\x1b[J";
/// Width and height of a terminal that does not tell its size.
const DEFAULT: (u16, u16) = (80, 24);

/// The screen. Dropping it restores the terminal.
pub(super) struct Screen(io::Stdout);

impl Screen {
    /// Takes the terminal of standard output.
    pub(super) fn open() -> anyhow::Result<Self> {
        // Made before, so that a failure restores the terminal too.
        let mut screen = Self(io::stdout());
        screen.write(BEGIN)?;
        Ok(screen)
    }

    /// Shows a sample, and the reason if it is an old one.
    pub(super) fn draw(&mut self, sample: &Sample, problem: Option<&str>) -> anyhow::Result<()> {
        let (width, height) = self.size();
        let room = height.saturating_sub(2);
        let mut text = HOME.to_owned();
        for line in frame::lines(sample, width, room) {
            text.push_str(&line);
            text.push_str(NEXT);
        }
        if let Some(problem) = problem {
            text.push_str(&one_line(&format!("no response: {problem}"), width));
            text.push_str("\x1b[K");
        }
        text.push_str(CLEAR);
        self.write(&text)
    }

    /// Returns the size of the terminal, which may change at any time.
    fn size(&self) -> (usize, usize) {
        let told = tcgetwinsize(&self.0).map(|size| (size.ws_col, size.ws_row));
        let (width, height) = told.ok().filter(|size| *size != (0, 0)).unwrap_or(DEFAULT);
        (width.into(), height.into())
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.0.write_all(text.as_bytes()).and_then(|()| self.0.flush());
        written.context("standard output cannot be written to")
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The terminal may be gone.
        let _ = self.write(END);
    }
}
