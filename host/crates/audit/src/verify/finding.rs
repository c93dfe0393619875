//! Findings of a verification.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::{checkpoint::BadCheckpoint, key::PublicKey};

/// Something that is wrong with a log. Lines are numbered from 0, as they number themselves.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// The first line does not say what it follows.
    #[error("line {line} {reason}")]
    Start {
        /// Number of the line.
        line: u64,
        /// The finding, as the end of a sentence.
        reason: &'static str,
    },
    /// A line does not have the form of one.
    #[error("line {line} was changed: row {row} of {file} does not have the form of a line")]
    Malformed {
        /// Number of the line.
        line: u64,
        /// The file.
        file: String,
        /// Number of the line in the file, from 1.
        row: u64,
    },
    /// The bytes of a line are not those whose hash the next line has.
    #[error("line {line} was changed")]
    Changed {
        /// Number of the line.
        line: u64,
    },
    /// Lines are not those that were signed, and their numbers and hashes fit: they were written anew.
    #[error(
        "lines {from} to {to} are not those that were signed: one of them or more were changed"
    )]
    ChangedBetween {
        /// Number of the first line after those that match a checkpoint.
        from: u64,
        /// Number of the last line that was signed.
        to: u64,
    },
    /// Lines are missing between others.
    #[error("{}", missing(*first, *last))]
    Removed {
        /// Number of the first one.
        first: u64,
        /// Number of the last one.
        last: u64,
    },
    /// A line is not at its place.
    #[error("line {line} is not at its place: lines were reordered")]
    Reordered {
        /// Number of the line.
        line: u64,
    },
    /// There is another line with the same number.
    #[error("there is more than one line {line}: lines were added")]
    Repeated {
        /// Number of the line.
        line: u64,
    },
    /// Lines are missing at the end.
    #[error("lines {size} to {} are missing: a checkpoint in {file} has signed {signed} lines, and there are {size}", signed - 1)]
    Cut {
        /// File of the checkpoint.
        file: String,
        /// Number of lines that there are.
        size: u64,
        /// Number of lines that were signed.
        signed: u64,
    },
    /// The key has signed two logs.
    #[error(
        "the log was forked: a checkpoint of {size} lines in {file} is signed by its key, and is of another log with the same name"
    )]
    Fork {
        /// File of the checkpoint.
        file: String,
        /// Its number of lines.
        size: u64,
    },
    /// The key of the log did not sign a checkpoint.
    #[error(
        "the checkpoint of {size} lines in {file} is forged: the key of the log has not signed it"
    )]
    Forged {
        /// File of the checkpoint.
        file: String,
        /// Number of lines that it claims.
        size: u64,
    },
    /// A checkpoint cannot be read.
    #[error("checkpoint {number} in {file} {cause}")]
    BadCheckpoint {
        /// File of the checkpoint.
        file: String,
        /// Its number in the file, from 1.
        number: usize,
        /// The finding.
        cause: BadCheckpoint,
    },
    /// A file has no checkpoint of this log, or only of lines before the first one that is here.
    #[error(
        "{file} has no checkpoint of the log {origin} that can be compared with the lines that are here"
    )]
    NoCheckpoint {
        /// The file.
        file: String,
        /// Name of the log.
        origin: String,
    },
    /// The log is signed by other keys than the one that is trusted.
    #[error("the log is not signed by the key {expected}, but by {}", listed(found))]
    OtherKey {
        /// The key that is trusted.
        expected: PublicKey,
        /// The keys of the log.
        found: Vec<PublicKey>,
    },
    /// A change of the key is not signed by both keys.
    #[error("line {line} changes the key, and is not signed by the former key and the new one")]
    Rotation {
        /// Number of the line.
        line: u64,
    },
    /// Older lines are missing, and nothing shows that those here follow them.
    #[error("the lines before line {first} are not here, and no valid checkpoint has signed them")]
    Unanchored {
        /// Number of the first line.
        first: u64,
    },
    /// There is no valid checkpoint.
    #[error("no valid checkpoint signs the log; name a file with one by --checkpoint")]
    Unsigned,
}

impl Finding {
    /// Returns a short name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Start { .. } => "bad_start",
            Self::Malformed { .. } | Self::Changed { .. } | Self::ChangedBetween { .. } => {
                "changed"
            }
            Self::Removed { .. } => "removed",
            Self::Reordered { .. } => "reordered",
            Self::Repeated { .. } => "repeated",
            Self::Cut { .. } => "cut",
            Self::Fork { .. } => "fork",
            Self::Forged { .. } => "forged_checkpoint",
            Self::BadCheckpoint { .. } => "bad_checkpoint",
            Self::NoCheckpoint { .. } => "no_checkpoint",
            Self::OtherKey { .. } => "other_key",
            Self::Rotation { .. } => "bad_rotation",
            Self::Unanchored { .. } => "unanchored",
            Self::Unsigned => "unsigned",
        }
    }

    /// Returns the number of the first line that it is about; `None` if it is about the whole log.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Start { line, .. }
            | Self::Malformed { line, .. }
            | Self::Changed { line }
            | Self::Reordered { line }
            | Self::Repeated { line }
            | Self::Rotation { line } => Some(*line),
            Self::ChangedBetween { from, .. } => Some(*from),
            Self::Removed { first, .. } => Some(*first),
            Self::Cut { size, .. } => Some(*size),
            _ => None,
        }
    }

    /// Returns the finding for programs.
    pub fn to_json(&self) -> Value {
        json!({"code": self.code(), "line": self.line(), "message": self.to_string()})
    }
}

fn missing(first: u64, last: u64) -> String {
    if first == last {
        format!("line {first} is missing")
    } else {
        format!("lines {first} to {last} are missing")
    }
}

fn listed(keys: &[PublicKey]) -> String {
    let mut text = String::new();
    for (position, key) in keys.iter().enumerate() {
        let separator = if position == 0 { "" } else { " and " };
        let _ = write!(text, "{separator}{key}");
    }
    if text.is_empty() { "none".to_owned() } else { text }
}
