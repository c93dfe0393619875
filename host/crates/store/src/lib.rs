//! The state that survives a restart: one `SQLite` database, which no other program opens.
//!
//! The file belongs to one user. Several processes of that user may share it, for example `airlock
//! serve` and `airlock call`. It has a write-ahead log and `synchronous=NORMAL`: a finished change
//! survives the end of the process. The last changes may be lost in a power failure, but never a
//! part of one.
//!
//! No operation on the database runs on a worker of the runtime: a lane moves each one to a
//! blocking thread. Each subject has a module with its SQL: [`approvals`],
//! [`kv`], [`login`], [`recall`], [`responses`], [`runs`] and [`upstream`].

pub mod approvals;
pub mod kv;
mod lane;
pub mod login;
mod open;
pub mod recall;
pub mod responses;
pub mod runs;
mod schema;
pub mod upstream;

use std::{
    convert::Infallible,
    fmt,
    hash::Hash,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU32},
    time::{Duration, SystemTime},
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::lane::{Lane, Party};

/// Source of the current time.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Settings of the database.
#[derive(Clone)]
pub struct Settings {
    /// Path of the file. The file is made if it is missing, and so are the directories above it.
    pub path: PathBuf,
    /// Longest time that an operation waits for another process that is writing.
    pub busy_timeout: Duration,
    /// Clock by which entries expire.
    pub clock: Clock,
}

impl Settings {
    /// Returns settings for a gateway: the system's clock, and at most 2 s of waiting for other
    /// processes.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            busy_timeout: Duration::from_secs(2),
            clock: Arc::new(SystemTime::now),
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("path", &self.path)
            .field("busy_timeout", &self.busy_timeout)
            .finish_non_exhaustive()
    }
}

/// Reason that the database cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be made, opened or written.
    #[error("the database {path} cannot be opened")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no database, or its contents are damaged.
    #[error("{path} is not a database, or is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error of `SQLite`.
        #[source]
        cause: rusqlite::Error,
    },
    /// The file is a database that Airlock did not make.
    #[error("{path} is the database of another program")]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a newer Airlock.
    #[error(
        "the database {path} has schema {found}, and this version of Airlock supports schemas up to {known}; use a newer version"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its schema.
        found: i32,
        /// Newest version that this build knows.
        known: i32,
    },
}

/// Reason that an operation was not carried out. `Display` contains no paths and is safe to show to
/// guests. Details for the operator are logged where the error occurs.
#[derive(Debug, thiserror::Error)]
pub enum Unavailable {
    /// Too many operations wait already, or this one waited for too long.
    #[error("too many operations are waiting; try again in a moment")]
    Busy,
    /// Another process was writing for longer than [`Settings::busy_timeout`].
    #[error("another process is writing; try again in a moment")]
    Locked,
    /// There is no room on the disk.
    #[error("the disk is full")]
    DiskFull,
    /// The file was deleted or replaced since it was opened.
    #[error("the database was deleted or replaced")]
    Gone,
    /// The database failed.
    #[error("the database failed")]
    Failed(#[source] rusqlite::Error),
    /// The operation was aborted: the gateway is shutting down, or the operation panicked.
    #[error("the operation was interrupted")]
    Lost,
}

/// The open database. Cheap to clone. The file is closed when the last clone is dropped and no
/// operation is running.
#[derive(Clone)]
pub struct Database {
    inner: Arc<Inner>,
    /// Party whose operations this clone runs.
    party: Party,
}

struct Inner {
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
        let inner = Inner {
            writer: Lane::new(&settings.path, writer),
            reader: Lane::new(&settings.path, reader),
            clock: settings.clock.clone(),
            stopped_runs: AtomicU32::new(0),
        };
        Ok(Self { inner: Arc::new(inner), party: Party::GATEWAY })
    }

    /// Returns the database for operations of one tenant or plugin, which then delay each other and
    /// not those of others.
    fn of_party(&self, identity: impl Hash) -> Self {
        Self { inner: self.inner.clone(), party: Party::of(identity) }
    }

    /// Runs a read. It sees every change that was made before this call.
    async fn read<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.inner.reader.run(self.party, move |connection| job(connection)).await
    }

    /// Runs a change in one transaction: an error of `job` rolls it back. If the future is dropped,
    /// the change is made completely or not at all.
    async fn write<T, F>(&self, job: F) -> Result<T, Unavailable>
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
    async fn attempt<T, E, F>(&self, job: F) -> Result<Result<T, E>, Unavailable>
    where
        T: Send + 'static,
        E: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<Result<T, E>> + Send + 'static,
    {
        let done = self.inner.writer.run(self.party, move |connection| {
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

    /// Returns the time in milliseconds since 1970.
    fn now_ms(&self) -> i64 {
        let since = (self.inner.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
