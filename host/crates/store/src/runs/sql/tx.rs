//! A transaction that changes the runs of an owner.

use std::cell::Cell;

use airlock_core::run::{Position, Refused};

use crate::runs::stored::{RunBounds, RunError};
use airlock_database::{
    owner::OwnerId,
    sql::{Sql, SqlError},
};

/// One change of the runs of an owner.
pub(crate) struct Tx<'t> {
    pub(super) sql: &'t Sql<'t>,
    pub(super) scope: &'t OwnerId,
    /// The time in milliseconds since 1970.
    pub(super) now: i64,
    pub(super) bounds: &'t RunBounds,
    /// Bytes by which the run has grown, and which are not yet in its row and in the sum of its owner.
    pub(super) grown: Cell<i64>,
}

impl<'t> Tx<'t> {
    pub(crate) fn new(sql: &'t Sql<'t>, scope: &'t OwnerId, bounds: &'t RunBounds) -> Self {
        Self { sql, scope, now: sql.now(), bounds, grown: Cell::new(0) }
    }

    /// Counts bytes of a text that was written. The end of the change writes their sum.
    pub(super) fn grow(&self, bytes: i64) {
        self.grown.set(self.grown.get() + bytes);
    }
}

/// Reason that a change is not made.
#[derive(Debug)]
pub(crate) enum ChangeFailure {
    Refused(RunError),
    Database(SqlError),
}

impl From<SqlError> for ChangeFailure {
    fn from(error: SqlError) -> Self {
        Self::Database(error)
    }
}

impl From<RunError> for ChangeFailure {
    fn from(error: RunError) -> Self {
        Self::Refused(error)
    }
}

impl From<Refused> for ChangeFailure {
    fn from(refused: Refused) -> Self {
        Self::Refused(RunError::Refused { position: None, refused })
    }
}

/// Result of a change.
pub(super) type Done<T> = Result<T, ChangeFailure>;

/// Maps a refusal of a step of the call at `position`.
pub(super) fn about(position: Position) -> impl Fn(Refused) -> ChangeFailure {
    move |refused| ChangeFailure::Refused(RunError::Refused { position: Some(position), refused })
}
