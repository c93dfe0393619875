//! Outcome of a command, and the exit code for it.

use std::process::ExitCode;

/// Exit code of a command whose run waits for a decision.
const WAITING: u8 = 3;

/// Outcome of a command. A command that ends with `Failure` has already printed the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandOutcome {
    /// It has done all that was asked for.
    Success,
    /// It has not.
    Failure,
    /// A run waits for a decision about its calls.
    Waiting,
}

impl From<bool> for CommandOutcome {
    fn from(is_success: bool) -> Self {
        if is_success { Self::Success } else { Self::Failure }
    }
}

impl From<CommandOutcome> for ExitCode {
    fn from(outcome: CommandOutcome) -> Self {
        match outcome {
            CommandOutcome::Success => Self::SUCCESS,
            CommandOutcome::Failure => Self::FAILURE,
            CommandOutcome::Waiting => Self::from(WAITING),
        }
    }
}
