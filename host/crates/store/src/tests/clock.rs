//! A clock that moves only when a test moves it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use crate::Clock;

/// A clock that shows a number of milliseconds since 1970.
#[derive(Clone)]
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

    /// Returns the clock for the settings of a database.
    pub(crate) fn shown(&self) -> Clock {
        let shown = self.0.clone();
        Arc::new(move || {
            SystemTime::UNIX_EPOCH + Duration::from_millis(shown.load(Ordering::Relaxed))
        })
    }
}

fn milliseconds(time: Duration) -> u64 {
    time.as_millis().try_into().expect("a short time")
}
