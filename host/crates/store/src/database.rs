//! The open database: changes and reads, each in its lane.

use std::{
    convert::Infallible,
    fmt,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::SystemTime,
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::{
    columns::milliseconds,
    error::{OpenError, Unavailable},
    lane::{Lane, Party},
    open,
    settings::{Clock, Settings},
};

/// The open database. Cheap to clone. The file is closed when the last clone is dropped and no
/// operation is running.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Connections>,
    /// Party whose operations this clone runs.
    party: Party,
}

struct Connections {
    /// Lane for changes. They run one at a time, which `SQLite` would enforce anyway.
    writer: Lane,
    /// Lane for reads. They do not wait for changes, least of all for those of other processes.
    reader: Lane,
    clock: Clock,
    /// Number of runs that have stopped in this process.
    stopped_runs: AtomicU32,
}

impl Database {
    /// Opens the database. Makes it if it does not exist, and migrates one of an older version.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let path = settings.path.clone();
        match tokio::task::spawn_blocking(move || Self::open_blocking(&settings)).await {
            Ok(opened) => opened,
            Err(lost) => Err(OpenError::Unusable { path, cause: lost.into() }),
        }
    }

    fn open_blocking(settings: &Settings) -> Result<Self, OpenError> {
        let (writer, reader) = open::open(settings)?;
        let shared = Connections {
            writer: Lane::new(&settings.path, writer),
            reader: Lane::new(&settings.path, reader),
            clock: settings.clock.clone(),
            stopped_runs: AtomicU32::new(0),
        };
        Ok(Self { shared: Arc::new(shared), party: Party::GATEWAY })
    }

    /// Returns the database for operations of one tenant or plugin, which then delay each other and
    /// not those of others.
    pub(crate) fn of_party(&self, identity: impl Hash) -> Self {
        Self { shared: self.shared.clone(), party: Party::of(identity) }
    }

    /// Runs a read. It sees every change that was made before this call.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.shared.reader.run(self.party, move |connection| job(connection)).await
    }

    /// Runs a change in one transaction: an error of `job` rolls it back. If the future is dropped,
    /// the change is made completely or not at all.
    pub(crate) async fn write<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let done = self.attempt(|transaction| job(transaction).map(Ok::<T, Infallible>)).await?;
        Ok(match done {
            Ok(done) => done,
        })
    }

    /// Runs a change as [`Self::write`], which a refusal of `job` rolls back too.
    pub(crate) async fn attempt<T, E, F>(&self, job: F) -> Result<Result<T, E>, Unavailable>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    {
        let done = self.shared.writer.run(self.party, move |connection| {
            // Immediate, because a transaction that begins with a read could not wait for another
            // process before its first change.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = job(&transaction)?;
            if done.is_ok() {
                transaction.commit()?;
            }
            Ok(done)
        });
        done.await
    }

    /// Copies the write-ahead log into the file, and empties it. A reader may prevent that.
    pub(crate) async fn truncate_log(&self) -> Result<(), Unavailable> {
        let truncating = self.shared.writer.run(self.party, |connection| {
            connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        });
        truncating.await
    }

    /// Counts a run that stops in this process. Returns the number of those before it.
    pub(crate) fn count_stopped_run(&self) -> u32 {
        self.shared.stopped_runs.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the time in milliseconds since 1970.
    pub(crate) fn now_ms(&self) -> i64 {
        let since =
            (self.shared.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        milliseconds(since)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}
