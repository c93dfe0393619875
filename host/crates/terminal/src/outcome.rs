//! Outcome of a command, and the exit code for it.

use std::process::ExitCode;

/// Exit code of a command whose run waits for a decision.
const WAITS: u8 = 3;

/// Outcome of a command. A command that ends with `No` has already printed the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// It has done all that was asked for.
    Yes,
    /// It has not.
    No,
    /// A run waits for a decision about its calls.
    Waits,
}

impl From<bool> for Done {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Yes } else { Self::No }
    }
}

impl From<Done> for ExitCode {
    fn from(done: Done) -> Self {
        match done {
            Done::Yes => Self::SUCCESS,
            Done::No => Self::FAILURE,
            Done::Waits => Self::from(WAITS),
        }
    }
}
