//! Fuel that is charged on other tasks than that of the guest.

use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicU64, Ordering},
};

/// Fuel charged where the store cannot be accessed, such as on another task. Clones share it. It is allocated when it is
/// first cloned or charged, which most calls never do.
#[derive(Default)]
pub(crate) struct LateFuel(OnceLock<Arc<AtomicU64>>);

impl LateFuel {
    pub(crate) fn add(&self, fuel: u64) {
        self.shared().fetch_add(fuel, Ordering::Relaxed);
    }

    /// Returns the fuel added since the last call of this function.
    pub(crate) fn take(&self) -> u64 {
        // Called at every exit of every guest, and nearly always zero.
        match self.0.get() {
            Some(fuel) if fuel.load(Ordering::Relaxed) > 0 => fuel.swap(0, Ordering::Relaxed),
            _ => 0,
        }
    }

    fn shared(&self) -> &Arc<AtomicU64> {
        self.0.get_or_init(Arc::default)
    }
}

impl Clone for LateFuel {
    fn clone(&self) -> Self {
        Self(self.shared().clone().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuel_is_taken_once_whichever_clone_was_charged() {
        let fuel = LateFuel::default();
        assert_eq!(fuel.take(), 0);
        let clone = fuel.clone();
        clone.add(3);
        fuel.add(4);
        assert_eq!((fuel.take(), clone.take()), (7, 0));
    }
}
