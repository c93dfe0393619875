//! Reasons that a statement fails, in terms of both databases.

use std::fmt;

use rusqlite::ErrorCode;

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
    /// The server refused the statement: its code, and its message.
    Refused { code: String, message: String },
    /// The connection to the server ended, or did not begin.
    Disconnected(String),
    /// The server did not respond in time.
    Late,
    /// A statement of the transaction had failed before the transaction was to be committed.
    Aborted,
    /// The statement returned no row, where it always returns one.
    NoRow,
    /// A value does not fit the type of its parameter.
    Param(String),
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
            SqlFault::Refused { code, .. } => kind_of_state(code),
            SqlFault::Disconnected(_) | SqlFault::Late => FaultKind::Unreachable,
            SqlFault::Sealed(error) => FaultKind::Sealed(*error),
            SqlFault::Aborted | SqlFault::NoRow | SqlFault::Param(_) | SqlFault::Column(_) => {
                FaultKind::Other
            }
        }
    }

    /// Returns whether the connection cannot be used after this.
    pub(super) fn ends_connection(&self) -> bool {
        self.kind() == FaultKind::Unreachable
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

/// Maps the codes of `PostgreSQL`'s manual, appendix A.
fn kind_of_state(code: &str) -> FaultKind {
    match code {
        // Waited too long for a lock; could not be serialized; deadlock.
        "55P03" | "40001" | "40P01" => FaultKind::Locked,
        "53100" => FaultKind::DiskFull,
        // Damaged data or index.
        "XX001" | "XX002" => FaultKind::Damaged,
        // `statement_timeout`; the server shuts down, has crashed, is starting, or the database is gone;
        // the connection was ended while its transaction was idle; too many connections.
        "57014" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "53300"
        // Another server is the one that writes by now; a prepared statement is unknown, or has other
        // columns since a newer gateway has changed the tables. A new connection helps.
        | "25006" | "26000" | "0A000" => FaultKind::Unreachable,
        code if code.starts_with("08") => FaultKind::Unreachable,
        _ => FaultKind::Other,
    }
}

impl From<rusqlite::Error> for SqlError {
    fn from(error: rusqlite::Error) -> Self {
        Self(SqlFault::Sqlite(error))
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
            SqlFault::Refused { code, message } => write!(f, "{message} ({code})"),
            SqlFault::Disconnected(reason) | SqlFault::Param(reason) => f.write_str(reason),
            SqlFault::Late => f.write_str("the server did not respond in time"),
            SqlFault::Aborted => f.write_str("the transaction had failed before its end"),
            SqlFault::NoRow => f.write_str("a statement returned no row"),
            SqlFault::Column(column) => write!(f, "column {column} has a value of another type"),
        }
    }
}

impl std::error::Error for SqlError {}
