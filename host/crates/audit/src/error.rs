//! Failures of a log that is written.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    checkpoint::BadCheckpoint,
    files::MAX_EVENT_BYTES,
    key::{BadKeyFile, PublicKey},
};

/// Reason why a log is not opened, or a line is not written.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A file cannot be used.
    #[error("{} of the audit log cannot be {action}", path.display())]
    File {
        /// The operation that failed, as a participle.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: io::Error,
    },
    /// Another process has the log open.
    #[error(
        "the audit log {} is in use by another process; each gateway needs a directory of its own",
        directory.display()
    )]
    InUse {
        /// The directory.
        directory: PathBuf,
    },
    /// The name of the gateway or of the replica cannot be used.
    #[error(
        "{name:?} cannot be the name of an audit log: it must have 1 to 256 characters, without spaces and plus signs"
    )]
    Name {
        /// The name of the log.
        name: String,
    },
    /// The log belongs to another gateway.
    #[error(
        "the audit log {} is the one of {found}, and this gateway is {expected}; use another directory, or the former name",
        directory.display()
    )]
    Origin {
        /// The directory.
        directory: PathBuf,
        /// The origin that the log has.
        found: String,
        /// The one of the settings.
        expected: String,
    },
    /// The private key cannot be read from its file.
    #[error(transparent)]
    KeyFile(#[from] BadKeyFile),
    /// The system has no random bytes for a key.
    #[error("the system returned no random bytes for the key of the audit log")]
    Random,
    /// The key of an existing log is missing.
    #[error(
        "the audit log is signed by the key {found}, and {} is missing; restore it, or configure that key",
        path.display()
    )]
    NoKey {
        /// The file.
        path: PathBuf,
        /// The key that the log has.
        found: PublicKey,
    },
    /// The log was signed by another key.
    #[error(
        "the audit log is signed by the key {found}, and the configured one is {configured}; to rotate the key, name the former one as the old key"
    )]
    OtherKey {
        /// The key that the log has.
        found: PublicKey,
        /// The key of the settings.
        configured: PublicKey,
    },
    /// A line is not one that a gateway wrote, or not at its place.
    #[error(
        "line {number} of the audit log ({}, row {row}) {reason}; check the log with `airlock audit verify`",
        path.display()
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line in its file, from 1.
        row: u64,
        /// Number of the line in the log, from 0.
        number: u64,
        /// The finding.
        reason: &'static str,
    },
    /// A checkpoint cannot be read.
    #[error("checkpoint {number} in {} {cause}", path.display())]
    Checkpoint {
        /// The file.
        path: PathBuf,
        /// Number of the checkpoint in the file, from 1.
        number: usize,
        /// The finding.
        cause: BadCheckpoint,
    },
    /// The newest checkpoint is not signed by the key of the log.
    #[error(
        "the checkpoint of {size} lines in {} is not signed by the key of the log, {key}",
        path.display()
    )]
    Forged {
        /// The file.
        path: PathBuf,
        /// Number of lines that it claims.
        size: u64,
        /// The key of the log.
        key: PublicKey,
    },
    /// Lines are missing at the end.
    #[error(
        "the audit log {} has {found} lines, and a checkpoint has signed {signed}: its end is missing; restore it, or begin a new log in another directory",
        directory.display()
    )]
    Cut {
        /// The directory.
        directory: PathBuf,
        /// Number of lines in it.
        found: u64,
        /// Number of lines that were signed.
        signed: u64,
    },
    /// Lines are not those that were signed.
    #[error(
        "the audit log {} was changed: its first {size} lines are not those that were signed; find the line with `airlock audit verify`",
        directory.display()
    )]
    Changed {
        /// The directory.
        directory: PathBuf,
        /// Size of the first checkpoint that does not match.
        size: u64,
    },
    /// An event was not written by [`line`](crate::line()).
    #[error(
        "event {position} of the batch is not a JSON object on one line of at most {MAX_EVENT_BYTES} bytes"
    )]
    Event {
        /// Position in the batch, from 0.
        position: usize,
    },
    /// A write has failed before, and what is stored is unknown.
    #[error(
        "the audit log takes no lines until it is opened again, because a write to {} has failed",
        path.display()
    )]
    Failed {
        /// The file.
        path: PathBuf,
    },
}

impl AuditError {
    /// Returns the conversion of an error of the system, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |cause| Self::File { action, path: path.to_owned(), cause }
    }
}
