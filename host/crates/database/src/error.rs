//! Reasons that the database cannot be opened, or an operation cannot be carried out.

use std::fmt;

use crate::{
    seal::SealError,
    sql::{FaultKind, SqlError},
};

/// Reason that the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be made, opened or written, or the server cannot be reached or refuses the gateway.
    #[error("the database {store} cannot be opened")]
    Unusable {
        /// The file or the server.
        store: String,
        /// The cause.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no database, or its contents are damaged.
    #[error("{store} is not a database, or is damaged")]
    Damaged {
        /// The file or the server.
        store: String,
        /// The error of the database.
        #[source]
        cause: SqlError,
    },
    /// The database is one that Airlock did not make.
    #[error("{store} is the database of another program")]
    Foreign {
        /// The file or the server.
        store: String,
    },
    /// The database was written by a newer Airlock.
    #[error(
        "the database {store} has schema {found}, and this version of Airlock supports schemas up to {known}; use a newer version"
    )]
    Newer {
        /// The file or the server.
        store: String,
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
    Failed(#[source] SqlError),
    /// The database server cannot be reached, or did not carry out the operation in time. A change may
    /// have been made if the connection was lost at its very end.
    #[error("the database server cannot be reached; try again in a moment")]
    Unreachable,
    /// A stored secret cannot be opened, or a new one cannot be sealed.
    #[error("a secret of the database cannot be used")]
    Sealed(#[source] SealError),
    /// The operation was aborted: the gateway is shutting down, or the operation panicked.
    #[error("the operation was interrupted")]
    Lost,
}

impl OpenError {
    /// Maps an error of the database: it is damaged, or cannot be used for another reason.
    pub(crate) fn new(store: impl fmt::Display, cause: impl Into<SqlError>) -> Self {
        let cause = cause.into();
        match cause.kind() {
            FaultKind::Damaged => Self::Damaged { store: store.to_string(), cause },
            _ => Self::unusable(store, cause),
        }
    }

    /// Creates the error of a database that cannot be used.
    pub fn unusable(
        store: impl fmt::Display,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Unusable { store: store.to_string(), cause: cause.into() }
    }
}
