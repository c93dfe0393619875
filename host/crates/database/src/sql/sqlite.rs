//! Statements on a file of `SQLite`, and the connection of a lane.

mod value;

use std::{
    ops::ControlFlow,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use rusqlite::{Connection, Statement, TransactionBehavior};

pub(super) use self::value::value;
use super::{Sql, error::SqlResult, insert::InsertPart, param::Param, row::Row};
use crate::{columns::milliseconds_since_1970, file_id::FileId, settings::Clock};

/// Statements that a connection keeps prepared: more than there are texts.
const PREPARED: usize = 256;
/// Instructions of a statement between two looks at the time, which are well below a millisecond.
const STEPS: i32 = 10_000;

/// A connection of a lane.
pub struct SqliteConnection {
    connection: Connection,
    path: Arc<Path>,
    /// Identity of the file when it was opened.
    file: Option<FileId>,
    clock: Clock,
    /// True while commits wait until they survive a power failure: see [`Self::write`].
    is_synced: bool,
}

impl SqliteConnection {
    pub(crate) fn new(connection: Connection, path: &Path, clock: Clock) -> Self {
        connection.set_prepared_statement_cache_capacity(PREPARED);
        Self { connection, path: path.into(), file: FileId::at(path), clock, is_synced: false }
    }

    /// Returns whether the file was deleted or replaced. `SQLite` would continue in the file without
    /// a name, whose contents are lost when the process ends.
    pub(crate) fn is_gone(&self) -> bool {
        self.file.is_some() && FileId::at(&self.path) != self.file
    }

    /// Runs a read. Each statement sees the changes before it; with `is_snapshot`, all see those
    /// before the first one.
    pub(crate) fn read<T>(
        &self,
        is_snapshot: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        // Reads only, so dropping it without a commit loses nothing.
        let _transaction =
            if is_snapshot { Some(self.connection.unchecked_transaction()?) } else { None };
        job(&self.sql(&self.connection))
    }

    /// Runs a read whose statements see the same state, for at most `time`: a statement that takes longer fails.
    pub(crate) fn read_within<T>(
        &mut self,
        time: Duration,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<T>,
    ) -> SqlResult<T> {
        let end = Instant::now() + time;
        self.connection.progress_handler(STEPS, Some(move || Instant::now() >= end))?;
        let done = self.read(true, job);
        self.connection.progress_handler(0, None::<fn() -> bool>)?;
        done
    }

    /// Runs a change in one transaction, which an error or a refusal of `job` rolls back. If it `is_decisive`,
    /// it returns once the change, and all changes before it, survive a power failure.
    pub(crate) fn write<T, E>(
        &mut self,
        is_decisive: bool,
        job: impl FnOnce(&Sql<'_>) -> SqlResult<Result<T, E>>,
    ) -> SqlResult<Result<T, E>> {
        if is_decisive != self.is_synced {
            let synchronous = if is_decisive { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", synchronous)?;
            self.is_synced = is_decisive;
        }
        // Immediate, because a transaction that begins with a read could not wait for another
        // process before its first change.
        let transaction =
            self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        // After the wait for other processes, as on a server.
        let now = milliseconds_since_1970(&self.clock);
        let done = job(&Sql::on_sqlite(SqliteSession::new(&transaction), now))?;
        if done.is_ok() {
            transaction.commit()?;
        }
        Ok(done)
    }

    /// Returns a number that differs from the last one if another connection has changed the file.
    pub(crate) fn data_version(&self) -> SqlResult<i64> {
        Ok(self.connection.pragma_query_value(None, "data_version", |row| row.get(0))?)
    }

    /// Copies the write-ahead log into the file, and empties it. Returns whether it is empty: a reader may prevent that. It
    /// is not waited for, because no change could run meanwhile.
    pub(crate) fn truncate_log(&self) -> SqlResult<bool> {
        let patience =
            self.connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0))?;
        self.connection.busy_timeout(Duration::ZERO)?;
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy = self.connection.query_row(checkpoint, [], |row| row.get::<_, bool>(0));
        self.connection.busy_timeout(Duration::from_millis(patience.into()))?;
        Ok(!is_busy?)
    }

    fn sql<'c>(&self, connection: &'c Connection) -> Sql<'c> {
        Sql::on_sqlite(SqliteSession::new(connection), milliseconds_since_1970(&self.clock))
    }
}

/// A connection during one operation.
#[derive(Clone, Copy)]
pub(crate) struct SqliteSession<'c>(&'c Connection);

impl<'c> SqliteSession<'c> {
    pub(crate) fn new(connection: &'c Connection) -> Self {
        Self(connection)
    }

    pub(super) fn run(self, text: &str, params: &[Param<'_>]) -> SqlResult<u64> {
        let mut statement = self.0.prepare_cached(text)?;
        bind(&mut statement, params)?;
        Ok(statement.raw_execute()? as u64)
    }

    /// Executes a statement for each of these rows of parameters. Its text is looked up once, and not for each row.
    pub(super) fn run_each(self, text: &str, rows: &[Vec<Param<'_>>]) -> SqlResult<Vec<u64>> {
        let mut statement = self.0.prepare_cached(text)?;
        let mut changed = Vec::with_capacity(rows.len());
        for row in rows {
            bind(&mut statement, row)?;
            changed.push(statement.raw_execute()? as u64);
        }
        Ok(changed)
    }

    pub(super) fn insert(self, parts: &[InsertPart<'_, '_>]) -> SqlResult<()> {
        for part in parts {
            let mut statement = self.0.prepare_cached(part.text)?;
            for values in part.executions() {
                bind(&mut statement, values)?;
                statement.raw_execute()?;
            }
        }
        Ok(())
    }

    pub(super) fn script(self, text: &str) -> SqlResult<()> {
        Ok(self.0.execute_batch(text)?)
    }

    pub(super) fn each<B>(
        self,
        text: &str,
        params: &[Param<'_>],
        mut read: impl FnMut(&Row<'_>) -> SqlResult<ControlFlow<B>>,
    ) -> SqlResult<Option<B>> {
        let mut statement = self.0.prepare_cached(text)?;
        bind(&mut statement, params)?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            if let ControlFlow::Break(value) = read(&Row::Sqlite(row))? {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    pub(super) fn overwrite_deleted(self) -> SqlResult<()> {
        Ok(self.0.pragma_update_and_check(None, "secure_delete", true, |_| Ok(()))?)
    }
}

fn bind(statement: &mut Statement<'_>, params: &[Param<'_>]) -> rusqlite::Result<()> {
    for (index, param) in params.iter().enumerate() {
        statement.raw_bind_parameter(index + 1, param)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;
    use crate::sql::first;

    #[test]
    fn only_commits_of_decisive_changes_wait_for_the_disk() {
        let connection = Connection::open_in_memory().expect("it opens");
        let clock: Clock = Arc::new(SystemTime::now);
        let mut file = SqliteConnection::new(connection, Path::new("/nowhere"), clock);
        for (is_decisive, expected) in [(true, 2), (true, 2), (false, 1), (false, 1), (true, 2)] {
            let done = file
                .write(is_decisive, |sql| sql.one("SELECT 7", &[], first::<i64>).map(Ok::<_, ()>));
            assert_eq!(done.expect("committed"), Ok(7));
            let level = file.connection.pragma_query_value(None, "synchronous", |row| row.get(0));
            assert_eq!(level, Ok::<i64, _>(expected), "1 is NORMAL, 2 is FULL");
        }
    }

    #[test]
    fn a_read_that_takes_too_long_ends_and_the_next_one_works() {
        let connection = Connection::open_in_memory().expect("it opens");
        let clock: Clock = Arc::new(SystemTime::now);
        let mut file = SqliteConnection::new(connection, Path::new("/nowhere"), clock);
        let endless = "WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number) \
                       SELECT count(*) FROM number";
        let ended = file.read_within(Duration::ZERO, |sql| sql.one(endless, &[], first::<i64>));
        ended.expect_err("it has no time");
        let next = file.read(true, |sql| sql.one("SELECT 7", &[], first::<i64>));
        assert_eq!(next.expect("it has all the time that it needs"), 7);
    }

    #[test]
    fn the_log_is_emptied_unless_a_reader_prevents_it_and_none_is_waited_for() {
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("a.db");
        let [writer, reader] = [(); 2].map(|()| Connection::open(&path).expect("it opens"));
        // A wait for the reader would not end.
        writer.busy_timeout(Duration::from_hours(1)).expect("set");
        let table = "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (1);";
        writer.execute_batch(table).expect("written");
        let clock: Clock = Arc::new(SystemTime::now);
        let file = SqliteConnection::new(writer, &path, clock);
        reader.execute_batch("BEGIN; SELECT a FROM t;").expect("it reads");
        file.connection.execute_batch("INSERT INTO t VALUES (2)").expect("written");
        assert!(!file.truncate_log().expect("attempted"));
        reader.execute_batch("COMMIT").expect("it ends");
        assert!(file.truncate_log().expect("emptied"));
        let log = std::fs::metadata(home.path().join("a.db-wal")).expect("it exists");
        assert_eq!(log.len(), 0);
        let patience = file.connection.pragma_query_value(None, "busy_timeout", |row| row.get(0));
        assert_eq!(patience, Ok::<i64, _>(3_600_000), "changes wait as before");
    }
}
