//! Statements, in the words that `SQLite` and `PostgreSQL` share.
//!
//! Each text of a statement exists once. It names its parameters `?1`, `?2` …; `PostgreSQL` reads them
//! as `$1`, `$2` …, so no text has another `?`. Rules that keep a text valid for both:
//!
//! - Numbers are 64 bits wide, and a truth value is 0 or 1.
//! - A text of a caller is a column of `TEXT` in `SQLite` and of `BYTEA` in `PostgreSQL`, whose `TEXT`
//!   cannot hold a NUL and is sorted by a collation. So no function for texts is applied to one,
//!   except for `octet_length` and a `substr` whose result is cut in code.
//! - A sum is `CAST(… AS BIGINT)`, because `PostgreSQL`'s is a decimal.
//! - Instead of `INSERT OR …`, `ON CONFLICT`; instead of `max(a, b)`, `CASE`; instead of `IS ?1`, `IS
//!   NOT DISTINCT FROM ?1`.
//! - A type can be inferred for each parameter where it is first used: not in `?1 IS NULL`.
//! - After an error, the transaction is over.
//!
//! Errors and values are those of this module, so that no subject knows which database it is on.

mod column;
mod error;
mod insert;
mod param;
#[cfg_attr(not(feature = "postgres"), path = "sql/no_postgres.rs")]
pub(crate) mod postgres;
mod row;
pub(crate) mod sqlite;
mod subject;

use std::ops::ControlFlow;

pub(crate) use self::error::{FaultKind, SqlFault};
pub use self::{
    column::{ColumnValue, FromColumn},
    error::{SqlError, SqlResult},
    insert::InsertText,
    param::{Param, numbered, params},
    postgres::OPERATION,
    row::{Row, first},
    subject::Subject,
};
use self::{postgres::PgSession, sqlite::SqliteSession};

/// The database during one operation: one transaction, or one read. Cheap to copy.
#[derive(Clone, Copy)]
pub struct Sql<'t> {
    engine: Engine<'t>,
    now_ms: i64,
}

#[derive(Clone, Copy)]
enum Engine<'t> {
    Sqlite(SqliteSession<'t>),
    Postgres(&'t PgSession),
}

impl<'t> Sql<'t> {
    /// Returns an operation on a file, at a time in milliseconds since 1970.
    pub(crate) fn on_sqlite(session: SqliteSession<'t>, now_ms: i64) -> Self {
        Self { engine: Engine::Sqlite(session), now_ms }
    }

    /// Returns an operation on a server, at a time in milliseconds since 1970.
    pub(crate) fn on_postgres(session: &'t PgSession, now_ms: i64) -> Self {
        Self { engine: Engine::Postgres(session), now_ms }
    }

    /// Returns the time of the operation in milliseconds since 1970. It is that of the clock of the
    /// settings; on a server, unless the settings have another clock, that of the server: replicas
    /// then agree about who has a lease.
    pub fn now(&self) -> i64 {
        self.now_ms
    }

    /// Executes a statement. Returns the number of rows that it changed.
    pub fn run(&self, text: &str, params: &[Param<'_>]) -> SqlResult<u64> {
        match self.engine {
            Engine::Sqlite(session) => session.run(text, params),
            Engine::Postgres(session) => session.run(text, params),
        }
    }

    /// Executes a statement for each of these rows of parameters. Returns the number of rows that it
    /// changed.
    pub fn run_all(&self, text: &str, rows: &[Vec<Param<'_>>]) -> SqlResult<u64> {
        Ok(self.run_each(text, rows)?.into_iter().sum())
    }

    /// Executes a statement as [`Self::run_all`]. Returns the number of rows that it changed for each
    /// row of parameters.
    pub fn run_each(&self, text: &str, rows: &[Vec<Param<'_>>]) -> SqlResult<Vec<u64>> {
        match self.engine {
            _ if rows.is_empty() => Ok(Vec::new()),
            Engine::Sqlite(session) => session.run_each(text, rows),
            Engine::Postgres(session) => session.run_each(text, rows),
        }
    }

    /// Inserts rows, whose values follow each other. No two of them may be the same row: `PostgreSQL` refuses to
    /// change a row twice in one statement.
    pub fn insert(&self, insert: &InsertText, values: &[Param<'_>]) -> SqlResult<()> {
        let parts = insert.parts(values);
        match self.engine {
            _ if parts.is_empty() => Ok(()),
            Engine::Sqlite(session) => session.insert(&parts),
            Engine::Postgres(session) => session.insert(&parts),
        }
    }

    /// Makes the database count on from the greatest number in a column that it counts up.
    pub fn resume_identity(&self, table: &str, column: &str) -> SqlResult<()> {
        match self.engine {
            // It does so by itself.
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(session) => {
                let set = format!(
                    "SELECT setval(pg_get_serial_sequence('{table}', '{column}'), \
                     coalesce(max({column}), 1), count(*) > 0) FROM {table}"
                );
                session.script(&set).map(drop)
            }
        }
    }

    /// Executes several statements without parameters.
    pub fn script(&self, text: &str) -> SqlResult<()> {
        match self.engine {
            Engine::Sqlite(session) => session.script(text),
            Engine::Postgres(session) => session.script(text).map(drop),
        }
    }

    /// Reads rows one after the other, until `read` breaks. Returns the value that it breaks with. A
    /// row is not kept after `read`, so a caller with a budget copies what is within it.
    pub fn each<B>(
        &self,
        text: &str,
        params: &[Param<'_>],
        read: impl FnMut(&Row<'_>) -> SqlResult<ControlFlow<B>>,
    ) -> SqlResult<Option<B>> {
        match self.engine {
            Engine::Sqlite(session) => session.each(text, params, read),
            Engine::Postgres(session) => session.each(text, params, read),
        }
    }

    /// Reads all rows.
    pub fn all<T>(
        &self,
        text: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Vec<T>> {
        let mut rows = Vec::new();
        self.each(text, params, |row| {
            rows.push(read(row)?);
            Ok(ControlFlow::<()>::Continue(()))
        })?;
        Ok(rows)
    }

    /// Reads the first row; `None` if there is none.
    pub fn find<T>(
        &self,
        text: &str,
        params: &[Param<'_>],
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<Option<T>> {
        let mut read = Some(read);
        let found = self.each(text, params, |row| {
            Ok(ControlFlow::Break(read.take().map(|read| read(row)).transpose()?))
        })?;
        Ok(found.flatten())
    }

    /// Reads the first row. Fails if there is none.
    pub fn one<T>(
        &self,
        text: &str,
        params: &[Param<'_>],
        read: impl FnOnce(&Row<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.find(text, params, read)?.ok_or_else(|| SqlError::new(SqlFault::NoRow))
    }

    /// Takes a further subject of this transaction if no other transaction has it, and returns
    /// whether it does. Never waits, so that two transactions with several subjects cannot wait for
    /// each other. On `SQLite`, one transaction changes everything at a time.
    pub fn try_lock(&self, subject: Subject) -> SqlResult<bool> {
        match self.engine {
            Engine::Sqlite(_) => Ok(true),
            Engine::Postgres(session) => session.try_lock(subject),
        }
    }

    /// Takes a subject together with others that do the same, and waits for one that has it alone.
    pub fn share_lock(&self, subject: Subject) -> SqlResult<()> {
        match self.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(session) => session.share_lock(subject),
        }
    }

    /// Notifies other processes once the transaction is committed. Those that share a file look for
    /// themselves.
    pub(crate) fn notify(&self, message: &str) -> SqlResult<()> {
        match self.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(session) => session.notify(message),
        }
    }

    /// Makes this connection overwrite what it deletes, so that nothing of it stays in the file. A
    /// server keeps deleted rows until it is vacuumed, in files that it alone reads.
    pub fn overwrite_deleted(&self) -> SqlResult<()> {
        match self.engine {
            Engine::Sqlite(session) => session.overwrite_deleted(),
            Engine::Postgres(_) => Ok(()),
        }
    }

    /// Returns the number of requests that the connection has sent to its server; 0 for a file.
    pub fn requests(&self) -> u32 {
        match self.engine {
            Engine::Sqlite(_) => 0,
            Engine::Postgres(session) => session.requests(),
        }
    }
}
