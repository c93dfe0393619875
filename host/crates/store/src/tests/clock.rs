//! A clock that moves only when a test moves it, and the databases that it is the clock of.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use crate::{Database, Settings};

/// A clock that shows a number of milliseconds since 1970.
pub(crate) struct TestClock(Arc<AtomicU64>);

impl TestClock {
    /// Creates a clock that shows this time since 1970.
    pub(crate) fn new(since: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(milliseconds(since))))
    }

    pub(crate) fn set(&self, since: Duration) {
        self.0.store(milliseconds(since), Ordering::Relaxed);
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.0.fetch_add(milliseconds(time), Ordering::Relaxed);
    }

    /// Opens `airlock.db` in a directory.
    pub(crate) async fn open(&self, directory: &Path) -> Database {
        let shown = self.0.clone();
        let settings = Settings {
            clock: Arc::new(move || {
                SystemTime::UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::Relaxed))
            }),
            ..Settings::new(directory.join("airlock.db"))
        };
        Database::open(settings).await.expect("it is opened")
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().expect("a short time")
}
