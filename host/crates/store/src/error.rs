//! Reasons that the database cannot be opened, or an operation cannot be carried out.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Reason that the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be made, opened or written.
    #[error("the database {path} cannot be opened")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no database, or its contents are damaged.
    #[error("{path} is not a database, or is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error of `SQLite`.
        #[source]
        cause: rusqlite::Error,
    },
    /// The file is a database that Airlock did not make.
    #[error("{path} is the database of another program")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer Airlock.
    #[error(
        "the database {path} has schema {found}, and this version of Airlock supports schemas up to {known}; use a newer version"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its schema.
        found: i32,
        /// Newest version that this build knows.
        known: i32,
    },
}

/// Reason that an operation was not carried out. `Display` contains no paths and is safe to show to
/// guests. Details for the operator are logged where the error occurs.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Too many operations wait already, or this one waited for too long.
    #[error("too many operations are waiting; try again in a moment")]
    Busy,
    /// Another process was writing for longer than `busy_timeout`.
    #[error("another process is writing; try again in a moment")]
    Locked,
    /// There is no room on the disk.
    #[error("the disk is full")]
    DiskFull,
    /// The file was deleted or replaced since it was opened.
    #[error("the database was deleted or replaced")]
    Gone,
    /// The database failed.
    #[error("the database failed")]
    Failed(#[source] rusqlite::Error),
    /// The operation was aborted: the gateway is shutting down, or the operation panicked.
    #[error("the operation was interrupted")]
    Lost,
}

impl OpenError {
    /// Maps an error of `SQLite`: the file is damaged, or cannot be used for another reason.
    pub(crate) fn new(path: &Path, cause: rusqlite::Error) -> Self {
        match cause.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                Self::Damaged { path: path.to_owned(), cause }
            }
            _ => Self::unusable(path, cause),
        }
    }

    pub(crate) fn unusable(
        path: &Path,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unusable { path: path.to_owned(), cause: cause.into() }
    }
}
