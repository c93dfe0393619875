//! What outlives a restart: one `SQLite` database, which nobody else opens.
//!
//! The file belongs to one user and may be shared by several processes of that user, `airlock
//! serve` and `airlock call` say. It is kept with a write-ahead log and `synchronous=NORMAL`: a
//! finished change survives the end of the process; the last ones may be lost with the machine's
//! power, and never half of one.
//!
//! Nothing here runs on a worker of the runtime: a lane takes each operation to a blocking thread.
//! The module does not know what is kept; that is for the files below it, one a subject, such as
//! [`kv`].

pub mod kv;
mod lane;
mod open;
mod schema;

use std::{
    fmt,
    path::PathBuf,
    sync::Arc,
    time::{Duration, SystemTime},
};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::lane::Lane;

/// Tells what time it is.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;

/// Where the database is and how it is used.
#[derive(Clone)]
pub struct Settings {
    /// The file. It is made where it is missing, and so are the directories above it.
    pub path: PathBuf,
    /// How long an operation waits for another process that is writing.
    pub busy_timeout: Duration,
    /// The time by which entries expire.
    pub clock: Clock,
}

impl Settings {
    /// What suits a gateway: the system's clock, and 2 s of patience with other processes.
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

/// Why there is no database.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be made, opened or written.
    #[error("the database {path} cannot be opened")]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        cause: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file is no database, or its contents are damaged.
    #[error("{path} is not a database, or is damaged")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
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
        "the database {path} has schema {found}, and this version of Airlock knows those up to {known}; use a newer one"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i32,
        /// The newest schema known.
        known: i32,
    },
}

/// Why an operation was not carried out. `Display` holds no paths and is safe to show to guests;
/// what the operator must know is logged where it happens.
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
    /// The database failed.
    #[error("the database failed")]
    Failed(#[source] rusqlite::Error),
    /// The operation broke off: the gateway is shutting down, or the operation panicked.
    #[error("the operation broke off")]
    Lost,
}

/// The open database. Cheap to clone; the file is closed when the last clone is dropped and no
/// operation is under way.
#[derive(Clone)]
pub struct Database(Arc<Inner>);

struct Inner {
    /// Changes take turns, as `SQLite` would make them do anyway.
    writer: Lane,
    /// Readers do not wait for writers, and least of all for those of other processes.
    reader: Lane,
    clock: Clock,
}

impl Database {
    /// Opens the database, makes it where there is none, and brings an older one up to date.
    pub async fn open(settings: Settings) -> Result<Self, OpenError> {
        let path = settings.path.clone();
        match tokio::task::spawn_blocking(move || Self::open_blocking(&settings)).await {
            Ok(opened) => opened,
            Err(lost) => Err(OpenError::Unusable { path, cause: lost.into() }),
        }
    }

    fn open_blocking(settings: &Settings) -> Result<Self, OpenError> {
        let (writer, reader) = open::open(settings)?;
        let lane = |connection| Lane::new(&settings.path, connection);
        Ok(Self(Arc::new(Inner {
            writer: lane(writer),
            reader: lane(reader),
            clock: settings.clock.clone(),
        })))
    }

    /// Looks something up. What was written before this is called is seen.
    async fn read<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        self.0.reader.run(move |connection| job(connection)).await
    }

    /// Changes something, all of it or nothing: an error of `job` undoes what it did. A dropped
    /// future's change has been made or not, and never in part.
    async fn write<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&Transaction<'_>) -> rusqlite::Result<T> + Send + 'static,
    {
        let job = move |connection: &mut Connection| {
            // Immediate: a transaction that began by reading could not wait for another process
            // before its first change.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = job(&transaction)?;
            transaction.commit()?;
            Ok(done)
        };
        self.0.writer.run(job).await
    }

    /// Milliseconds since 1970.
    fn now_ms(&self) -> i64 {
        let since = (self.0.clock)().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
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
