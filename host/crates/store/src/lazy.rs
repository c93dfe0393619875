//! The database of a process, which is opened when it is first needed.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use airlock_strings::with_causes;
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tokio::{
    sync::{self, OnceCell},
    task::JoinHandle,
    time::timeout,
};
use tracing::error;

use crate::database::Database;
use airlock_database::{
    error::{OpenError, Unavailable},
    lane::MAX_WAIT,
    location::Location,
    metrics::StoreMetrics,
    outage::Outage,
    settings::Settings,
};

/// The database of a process. Clones share it, so that all its users wait in the same two lanes. The
/// first of them opens it.
#[derive(Debug, Clone)]
pub struct LazyDatabase(Arc<Opening>);

#[derive(Debug)]
struct Opening {
    settings: Settings,
    database: OnceCell<Database>,
    /// The attempt to open it that runs. Those who leave while they wait for it leave it to the next ones: each attempt
    /// of its own would have a thread and a connection for as long as another process migrates a server.
    running: sync::Mutex<Option<JoinHandle<Result<Database, OpenError>>>>,
    /// Attempts to open the database that have failed. Only a server has pauses.
    outage: Mutex<Outage>,
    metrics: StoreMetrics,
}

impl LazyDatabase {
    /// Creates a database that is not open yet.
    pub fn new(settings: Settings) -> Self {
        let outage = Mutex::default();
        let metrics = StoreMetrics::default();
        let running = sync::Mutex::default();
        Self(Arc::new(Opening { settings, database: OnceCell::new(), running, outage, metrics }))
    }

    /// Place of the database.
    pub fn location(&self) -> &Location {
        &self.0.settings.location
    }

    /// Registers the metrics of the operations.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.0.metrics.clone()));
    }

    /// Returns the time by which entries expire.
    pub fn now(&self) -> SystemTime {
        (self.0.settings.clock)()
    }

    /// Returns the open database. Opens it if it is not; fails if it cannot be opened, and the next
    /// call tries again. After a failure of a server, calls fail at once for a moment: those that have
    /// waited for the attempt do not make one each. If the future is dropped, the next call waits for the same
    /// attempt.
    pub async fn open(&self) -> Result<&Database, OpenError> {
        self.0.database.get_or_try_init(|| self.0.attempt()).await
    }

    /// Returns the open database, as [`Self::open`], and waits at most as long as for a lane: those who
    /// find another process holding the file try one after the other. Logs the reason, once, if it cannot be
    /// opened, and fails with [`Unavailable::Lost`], or with [`Unavailable::Unreachable`] for a server.
    pub async fn available(&self) -> Result<&Database, Unavailable> {
        let opened = timeout(MAX_WAIT, self.open()).await.map_err(|_| Unavailable::Busy)?;
        opened.map_err(|cause| {
            // Of a pause, the log has the attempt that failed.
            let error = with_causes(&cause);
            if !is_paused(&cause) && self.0.outage.lock().reports(&error) {
                error!(error, "the database cannot be opened");
            }
            match self.location() {
                Location::File(_) => Unavailable::Lost,
                Location::Server(_) => Unavailable::Unreachable,
            }
        })
    }

    /// Returns the open database, as [`Self::available`]; `None` if it is a file that does not exist, which has nothing
    /// and is not made to be read.
    pub async fn existing(&self) -> Result<Option<&Database>, Unavailable> {
        if self.location().is_missing_file() {
            return Ok(None);
        }
        self.available().await.map(Some)
    }
}

impl Opening {
    async fn attempt(&self) -> Result<Database, OpenError> {
        let location = &self.settings.location;
        let mut running = self.running.lock().await;
        // Only a success of an attempt that ended while nothing waited for it is used: a failure may be old.
        if let Some(ended) = running.take_if(|attempt| attempt.is_finished())
            && let Ok(Ok(database)) = ended.await
        {
            self.metrics.note_opened(true);
            return Ok(database);
        }
        if running.is_none() && self.outage.lock().is_pausing(Instant::now()) {
            return Err(OpenError::unusable(location, Paused));
        }
        let attempt = running.get_or_insert_with(|| {
            tokio::spawn(Database::open_measured(self.settings.clone(), self.metrics.clone()))
        });
        let opened = match attempt.await {
            Ok(opened) => opened,
            Err(lost) => Err(OpenError::unusable(location, lost)),
        };
        *running = None;
        self.metrics.note_opened(opened.is_ok());
        if matches!(location, Location::Server(_))
            && matches!(opened, Err(OpenError::Unusable { .. }))
        {
            self.outage.lock().fail(Instant::now());
        }
        opened
    }
}

/// No attempt is made to open a database, because one has just failed.
#[derive(Debug, thiserror::Error)]
#[error("the last attempt to open it failed a moment ago")]
struct Paused;

fn is_paused(error: &OpenError) -> bool {
    matches!(error, OpenError::Unusable { cause, .. } if cause.is::<Paused>())
}

impl From<Settings> for LazyDatabase {
    fn from(settings: Settings) -> Self {
        Self::new(settings)
    }
}

#[cfg(test)]
mod tests {
    use std::{iter, net::TcpListener, time::Duration};

    use futures_util::future::join_all;

    use super::*;

    #[tokio::test]
    async fn callers_that_wait_for_a_server_that_does_not_answer_share_one_attempt() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("an address").port();
        let url = format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=1");
        let database = LazyDatabase::new(Settings::at(url.parse().expect("a URL")));
        let opened = join_all((0..8).map(|_| database.open())).await;
        let errors = opened.into_iter().map(|opened| opened.expect_err("there is no database"));
        let errors: Vec<_> = errors.map(|error| with_causes(&error)).collect();
        let attempts = errors.iter().filter(|error| !error.contains("a moment ago")).count();
        assert_eq!(attempts, 1, "{errors:?}");
    }

    #[tokio::test]
    async fn callers_that_leave_before_an_attempt_ends_leave_it_to_the_next_ones() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = silent.local_addr().expect("an address").port();
        let url = format!("postgres://u@127.0.0.1:{port}/d?connect_timeout=1");
        let database = LazyDatabase::new(Settings::at(url.parse().expect("a URL")));
        for _ in 0..8 {
            let left = timeout(Duration::from_millis(5), database.open()).await;
            assert!(left.is_err(), "the attempt still runs");
        }
        database.open().await.expect_err("there is no database");
        silent.set_nonblocking(true).expect("a socket");
        let connections = iter::from_fn(|| silent.accept().ok()).count();
        assert_eq!(connections, 1);
    }
}
