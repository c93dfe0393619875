//! Errors of the client.

use std::error::Error as _;

use airlock_strings::with_causes;

use crate::sql::error::{SqlError, SqlFault};

/// Reason that a value is not sent to a server.
#[derive(Debug, thiserror::Error)]
#[error("a value does not fit the type {expected}")]
pub(super) struct UnfitParam {
    /// Type of the parameter.
    pub(super) expected: String,
}

impl From<tokio_postgres::Error> for SqlError {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(refused) = error.as_db_error() {
            // Without its detail, which may have the values of a row.
            let message = refused.message().to_owned();
            let code = refused.code().code().to_owned();
            return Self::new(SqlFault::Refused { code, message });
        }
        let is_unfit = error.source().is_some_and(<dyn std::error::Error>::is::<UnfitParam>);
        let text = with_causes(&error);
        Self::new(if is_unfit { SqlFault::Param(text) } else { SqlFault::Disconnected(text) })
    }
}
