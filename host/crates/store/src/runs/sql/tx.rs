//! A transaction that changes the runs of an owner.

use airlock_core::run::{Position, Refused};
use rusqlite::Transaction;

use crate::{
    owner::OwnerId,
    runs::stored::{RunBounds, RunError},
};

/// One change of the runs of an owner.
#[derive(Clone, Copy)]
pub(crate) struct Tx<'t> {
    pub(crate) transaction: &'t Transaction<'t>,
    pub(crate) scope: &'t OwnerId,
    /// The time in milliseconds since 1970.
    pub(crate) now: i64,
    pub(crate) bounds: &'t RunBounds,
}

/// Reason that a change is not made.
#[derive(Debug)]
pub(crate) enum ChangeFailure {
    Refused(RunError),
    Database(rusqlite::Error),
}

impl From<rusqlite::Error> for ChangeFailure {
    fn from(error: rusqlite::Error) -> Self {
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
