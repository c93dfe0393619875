//! The protocol of a run's journal: which calls a script has made, and which it may make now.
//!
//! A run is one script that calls tools. It can stop at any of its calls, because the call needs an
//! approval or because the gateway ended, and be resumed later in another process: the same script
//! runs again, and calls with a stored answer get that answer and are not made again. So the script
//! sees the same as before.
//!
//! This module decides, and does no I/O. A [`Lease`] decides which process runs the script. A
//! [`Call`] is one call at its [`Position`], and each function of it is one step of the protocol. A
//! store makes each step in a transaction, and a model checker makes the same steps in every order
//! (`model`):
//!
//! - A call that is not repeatable is sent at most once, and once more for each time that a person
//!   decided to retry it: its intent is stored before it is sent, and only one process can store it.
//! - An approval is used at most once, before it expires, for the call that was shown.
//! - A call that was answered keeps its answer.
//! - From every state, a run can end.

mod answer_error;
mod call;
mod lease;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;

use std::{fmt, str::FromStr};

pub use self::{
    answer_error::{AnswerError, MAX_REASON_BYTES, denial_reason},
    call::{Call, Called, Stage},
    lease::{Cancelled, Lease, Phase},
};

/// Place of a call in its run. The order of positions is the order in which the script asks for the
/// calls.
///
/// `Display` and `FromStr` use the form `7`, or `7.2` for the second call of a block of calls that
/// run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the block among those of the run, from 1. A single call is a block of its own.
    pub block: u32,
    /// Number of the call in its block, from 1; 0 for a single call.
    pub branch: u32,
}

/// Reason that a step is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The run has ended.
    #[error("the run has ended")]
    Ended,
    /// A process runs the script.
    #[error("the script is running")]
    Running,
    /// Another process has resumed the run.
    #[error("another process has resumed the run")]
    Superseded,
    /// Its caller has cancelled the run.
    #[error("the run was cancelled")]
    Cancelled,
    /// The script makes another call than before, at the same position.
    #[error("the script makes another call than the journal has at this position")]
    Diverged,
    /// The run has been resumed since it was shown to the person who decides.
    #[error(
        "the run has been resumed since it was shown; show it again and decide about its calls"
    )]
    Changed,
    /// The definition of the tool, or what guards leave of the arguments, has changed since the call was shown to a
    /// person.
    #[error(
        "the definition of the tool or the arguments have changed since the approval was given"
    )]
    Redefined,
    /// The approval has expired.
    #[error("the approval has expired")]
    Expired,
    /// The call waits for an approval, was denied, was answered or is in doubt.
    #[error("the call cannot be made now")]
    NotDue,
    /// The call does not wait for an approval.
    #[error("the call does not wait for an approval")]
    NotPending,
    /// The call is not in doubt.
    #[error("the call is not in doubt")]
    NotInDoubt,
    /// The answer belongs to an earlier attempt, or the call is already answered.
    #[error("the call does not wait for this answer")]
    Stale,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.branch {
            0 => write!(f, "{}", self.block),
            branch => write!(f, "{}.{branch}", self.block),
        }
    }
}

/// Error: a text is no position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a position is a number such as \"7\", or two such as \"7.2\"")]
pub struct BadPosition;

impl FromStr for Position {
    type Err = BadPosition;

    fn from_str(text: &str) -> Result<Self, BadPosition> {
        let (block, branch) = text.split_once('.').unwrap_or((text, "0"));
        let position = Self { block: number(block)?, branch: number(branch)? };
        // Blocks count from 1, and each position has only one spelling.
        let is_position = position.block > 0 && position.to_string() == text;
        is_position.then_some(position).ok_or(BadPosition)
    }
}

fn number(digits: &str) -> Result<u32, BadPosition> {
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(BadPosition);
    }
    digits.parse().map_err(|_| BadPosition)
}
