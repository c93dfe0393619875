//! A connection of a lane: to a file, or to a server; the connections of an open database.

use std::time::Duration;

use crate::sql::{
    Sql, SqlResult, Subject,
    postgres::{OPERATION, PgConnection},
    sqlite::SqliteConnection,
};

/// Longest time of a copy.
const COPY: Duration = Duration::from_hours(12);
/// Longest time of a read of the call log: a second longer than its readers wait.
const LOG_READ: Duration = Duration::from_secs(11);

/// A connection, which one operation uses at a time.
pub enum Connection {
    /// To a file.
    Sqlite(Box<SqliteConnection>),
    /// To a server.
    Postgres(Box<PgConnection>),
}

/// The connections of an open database.
pub struct OpenDatabase {
    /// Connections that write.
    pub writers: Vec<Connection>,
    /// Connections that write the call log; none if those of all changes write it.
    pub log_writers: Vec<Connection>,
    /// Connections that read.
    pub readers: Vec<Connection>,
    /// Connections for operators who read the call log; none if there are several for all reads.
    pub log_readers: Vec<Connection>,
}

impl Connection {
    /// Returns whether the database was deleted or replaced.
    pub(crate) fn is_gone(&self) -> bool {
        match self {
            Self::Sqlite(file) => file.is_gone(),
            Self::Postgres(_) => false,
        }
    }

    /// Runs a read. With `is_snapshot`, all its statements see the same state.
    pub fn read<T>(
        &mut self,
        is_snapshot: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.read_within(OPERATION, is_snapshot, job)
    }

    /// Runs a read of the call log as [`Self::read`] with `is_snapshot`. An operator chooses what it reads, and it
    /// would keep the connection from others.
    pub fn read_log<T>(&mut self, job: impl FnOnce(&Sql<'_>) -> SqlResult<T>) -> SqlResult<T> {
        match self {
            Self::Sqlite(file) => file.read_within(LOG_READ, job),
            Self::Postgres(server) => server.read_within(LOG_READ, true, job),
        }
    }

    /// Runs a change of `subjects` in one transaction. An error or a refusal of `job` rolls it back.
    pub fn write<T, E>(
        &mut self,
        subjects: &[Subject],
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        self.change(OPERATION, None, subjects, job)
    }

    /// Runs a change as [`Self::write`], which waits for each subject at most for `lock_wait`. In a file, one
    /// transaction changes everything at a time.
    pub fn write_soon<T, E>(
        &mut self,
        lock_wait: Duration,
        subjects: &[Subject],
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        self.change(OPERATION, Some(lock_wait), subjects, job)
    }

    /// Runs a read as [`Self::read`] with `is_snapshot`, which may take long.
    pub fn copy_read<T>(&mut self, job: impl FnOnce(&Sql<'_>) -> SqlResult<T>) -> SqlResult<T> {
        self.read_within(COPY, true, job)
    }

    /// Runs a change as [`Self::write`], which may take long.
    pub fn copy_write<T, E>(
        &mut self,
        subjects: &[Subject],
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        self.change(COPY, None, subjects, job)
    }

    /// Runs a read. A server has `time` for it; a file takes as long as it takes.
    fn read_within<T>(
        &mut self,
        time: Duration,
        is_snapshot: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        match self {
            Self::Sqlite(file) => file.read(is_snapshot, job),
            Self::Postgres(server) => server.read_within(time, is_snapshot, job),
        }
    }

    /// Runs a change as [`Self::read_within`] runs a read. Waits on a server for each subject at most for `lock_wait`.
    fn change<T, E>(
        &mut self,
        time: Duration,
        lock_wait: Option<Duration>,
        subjects: &[Subject],
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        match self {
            Self::Sqlite(file) => file.write(is_decisive(subjects), job),
            Self::Postgres(server) => server.change(time, lock_wait, subjects, job),
        }
    }

    /// Makes the traces of deleted rows leave the log of a file. Returns whether they have: a reader may prevent that, which is
    /// not waited for.
    pub fn truncate_log(&self) -> SqlResult<bool> {
        match self {
            Self::Sqlite(file) => file.truncate_log(),
            Self::Postgres(_) => Ok(true),
        }
    }
}

/// Returns whether a change of `subjects` must not be lost in a power failure.
fn is_decisive(subjects: &[Subject]) -> bool {
    subjects.iter().any(|subject| subject.is_decisive())
}
