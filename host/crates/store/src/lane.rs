//! One database connection and its queue.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rusqlite::{Connection, ErrorCode};
use tokio::sync::{Mutex, Semaphore};
use tracing::{error, warn};

use super::Unavailable;

/// Most operations that run or wait. Each that waits may hold a value of 1 MiB.
pub(super) const MAX_PLACES: usize = 256;
/// Longest time that an operation waits for its turn.
const MAX_WAIT: Duration = Duration::from_secs(5);

/// A connection that is used only on blocking threads, by one operation at a time, in order of
/// arrival.
pub(super) struct Lane {
    path: PathBuf,
    connection: Arc<Mutex<Connection>>,
    places: Semaphore,
}

impl Lane {
    pub(super) fn new(path: &Path, connection: Connection) -> Self {
        Self {
            path: path.to_owned(),
            connection: Arc::new(Mutex::new(connection)),
            places: Semaphore::new(MAX_PLACES),
        }
    }

    /// Runs an operation. If the future is dropped while the operation waits, it never starts. If
    /// it is dropped later, the operation runs to its end and its result is discarded.
    pub(super) async fn run<T, F>(&self, job: F) -> Result<T, Unavailable>
    where
        T: Send + 'static,
        F: FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    {
        let _place = self.places.try_acquire().map_err(|_| Unavailable::Busy)?;
        let turn = tokio::time::timeout(MAX_WAIT, self.connection.clone().lock_owned()).await;
        let mut connection = turn.map_err(|_| Unavailable::Busy)?;
        // The lock moves into the thread, because the operation continues after its caller has
        // gone.
        match tokio::task::spawn_blocking(move || job(&mut connection)).await {
            Ok(done) => done.map_err(|error| self.failed(error)),
            Err(lost) => {
                error!(path = %self.path.display(), error = %lost, "an operation on the database was interrupted");
                Err(Unavailable::Lost)
            }
        }
    }

    /// Logs a failure for the operator, and returns the error that the caller may see.
    fn failed(&self, error: rusqlite::Error) -> Unavailable {
        let path = self.path.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                warn!(%path, "another process has locked the database");
                Unavailable::Locked
            }
            Some(ErrorCode::DiskFull) => {
                error!(%path, "the disk is full; the database cannot grow");
                Unavailable::DiskFull
            }
            _ => {
                error!(%path, %error, "the database failed");
                Unavailable::Failed(error)
            }
        }
    }
}
