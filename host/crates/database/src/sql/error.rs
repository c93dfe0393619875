//! Reasons that a statement fails, in terms of both databases.

use std::fmt;

use rusqlite::ErrorCode;

use super::postgres::ServerFault;
use crate::seal::SealError;

/// Reason that a statement failed. `Display` is for the operator: it names the database's own reason,
/// but no value of a parameter or column.
#[derive(Debug)]
pub struct SqlError(SqlFault);

/// Result of a statement.
pub type SqlResult<T> = Result<T, SqlError>;

/// Kinds of failures that are handled in different ways.
#[derive(Debug)]
pub(crate) enum SqlFault {
    /// `SQLite` refused the statement.
    Sqlite(rusqlite::Error),
    /// The statement failed on a server.
    Server(ServerFault),
    /// The statement returned no row, where it always returns one.
    NoRow,
    /// The column has a value of another type.
    Column(usize),
    /// A secret cannot be sealed or opened.
    Sealed(SealError),
}

/// The ways in which a failure is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultKind {
    /// Another transaction held a lock for too long, or the two waited for each other.
    Locked,
    DiskFull,
    /// The file is no database, or is damaged.
    Damaged,
    /// No server can be reached, or it did not respond, or the connection is of no use any more.
    Unreachable,
    /// A secret cannot be sealed or opened.
    Sealed(SealError),
    /// Everything else.
    Other,
}

impl SqlError {
    pub(crate) fn new(fault: SqlFault) -> Self {
        Self(fault)
    }

    pub(crate) fn kind(&self) -> FaultKind {
        match &self.0 {
            SqlFault::Sqlite(error) => kind_of_sqlite(error),
            SqlFault::Server(fault) if fault.is_unreachable() => FaultKind::Unreachable,
            SqlFault::Server(fault) => fault.kind(),
            SqlFault::Sealed(error) => FaultKind::Sealed(*error),
            SqlFault::NoRow | SqlFault::Column(_) => FaultKind::Other,
        }
    }
}

fn kind_of_sqlite(error: &rusqlite::Error) -> FaultKind {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => FaultKind::Locked,
        Some(ErrorCode::DiskFull) => FaultKind::DiskFull,
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => FaultKind::Damaged,
        _ => FaultKind::Other,
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self(SqlFault::Sqlite(error))
    }
}

impl From<ServerFault> for SqlError {
    fn from(fault: ServerFault) -> Self {
        Self(SqlFault::Server(fault))
    }
}

impl From<SealError> for SqlError {
    fn from(error: SealError) -> Self {
        Self(SqlFault::Sealed(error))
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SqlFault::Sqlite(error) => error.fmt(f),
            SqlFault::Sealed(error) => error.fmt(f),
            SqlFault::Server(fault) => fault.fmt(f),
            SqlFault::NoRow => f.write_str("a statement returned no row"),
            SqlFault::Column(column) => write!(f, "column {column} has a value of another type"),
        }
    }
}

impl std::error::Error for SqlError {}
