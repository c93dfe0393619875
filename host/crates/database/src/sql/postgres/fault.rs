//! Failures of statements on a server.

use std::{error::Error as _, fmt};

use airlock_strings::with_causes;

use crate::sql::{FaultKind, error::SqlError};

/// Reason that a statement failed on a server.
#[derive(Debug)]
pub(crate) enum ServerFault {
    /// The server refused the statement: its code, and its message.
    Refused { code: String, message: String },
    /// The connection ended, or did not begin.
    Disconnected(String),
    /// The server did not respond in time.
    Late,
    /// A statement of the transaction had failed before the transaction was to be committed.
    Aborted,
    /// A value does not fit the type of its parameter.
    Param(String),
}

/// Reason that a value is not sent to a server.
#[derive(Debug, thiserror::Error)]
#[error("a value does not fit the type {expected}")]
pub(super) struct UnfitParam {
    /// Type of the parameter.
    pub(super) expected: String,
}

impl ServerFault {
    /// Returns whether the server cannot be reached, or the connection cannot be used after this. The codes are those of
    /// `PostgreSQL`'s manual, appendix A.
    pub(crate) fn is_unreachable(&self) -> bool {
        let code = match self {
            Self::Refused { code, .. } => code.as_str(),
            Self::Disconnected(_) | Self::Late => return true,
            Self::Aborted | Self::Param(_) => return false,
        };
        // `statement_timeout`; the server shuts down, has crashed, is starting, or the database is gone;
        // the connection was ended while its transaction was idle; too many connections.
        matches!(
            code,
            "57014" | "57P01" | "57P02" | "57P03" | "57P04" | "57P05" | "25P03" | "53300"
            // Another server is the one that writes by now; a prepared statement is unknown, or has other
            // columns since a newer gateway has changed the tables. A new connection helps.
            | "25006" | "26000" | "0A000"
        ) || code.starts_with("08")
    }

    /// Returns the way in which a fault is reported after which the connection can still be used.
    pub(crate) fn kind(&self) -> FaultKind {
        let Self::Refused { code, .. } = self else { return FaultKind::Other };
        match code.as_str() {
            // Waited too long for a lock; could not be serialized; deadlock.
            "55P03" | "40001" | "40P01" => FaultKind::Locked,
            "53100" => FaultKind::DiskFull,
            // Damaged data or index.
            "XX001" | "XX002" => FaultKind::Damaged,
            _ => FaultKind::Other,
        }
    }
}

impl fmt::Display for ServerFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { code, message } => write!(f, "{message} ({code})"),
            Self::Disconnected(reason) | Self::Param(reason) => f.write_str(reason),
            Self::Late => f.write_str("the server did not respond in time"),
            Self::Aborted => f.write_str("the transaction had failed before its end"),
        }
    }
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(refused) = error.as_db_error() {
            // Without its detail, which may have the values of a row.
            let message = refused.message().to_owned();
            let code = refused.code().code().to_owned();
            return ServerFault::Refused { code, message }.into();
        }
        let is_unfit = error.source().is_some_and(<dyn std::error::Error>::is::<UnfitParam>);
        let text = with_causes(&error);
        let fault =
            if is_unfit { ServerFault::Param(text) } else { ServerFault::Disconnected(text) };
        fault.into()
    }
}
