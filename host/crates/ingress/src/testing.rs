//! A task for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Wake,
};

/// A task that counts its wake-ups.
#[derive(Default)]
pub(crate) struct CountedWakes(AtomicUsize);

impl CountedWakes {
    /// Returns their number since the last call.
    pub(crate) fn taken(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

impl Wake for CountedWakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
