//! Fuel that is charged on other tasks than that of the guest.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// Fuel charged where the store cannot be accessed, such as on another task. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct LateFuel(Arc<AtomicU64>);

impl LateFuel {
    pub(crate) fn add(&self, fuel: u64) {
        self.0.fetch_add(fuel, Ordering::Relaxed);
    }

    /// Returns the fuel added since the last call of this function.
    pub(crate) fn take(&self) -> u64 {
        // Called at every exit of every guest, and nearly always zero.
        if self.0.load(Ordering::Relaxed) == 0 { 0 } else { self.0.swap(0, Ordering::Relaxed) }
    }
}
