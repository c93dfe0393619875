//! The meter of one call: the fuel that it is charged in addition to the fuel that the store itself
//! burns, its host calls, and its slice. The [charges](super::charge) go to it.

use std::time::{Duration, Instant};

/// Fuel that a guest burns before it yields: about 0.1 ms of Starlark.
pub(super) const YIELD_INTERVAL: u64 = 1_000_000;
/// Time after which a guest yields at its next exit.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// Counters of one call.
pub(crate) struct Meter {
    /// Fuel charged for exits and host calls, in addition to the fuel that the store itself has
    /// burnt. The store's own counter is not changed: setting it starts a new slice, so a guest that
    /// keeps calling the host would never yield.
    debt: u64,
    /// Value of `debt` when the guest last yielded at an exit.
    debt_at_yield: u64,
    /// Time at which the guest last yielded at an exit; before that, the start of the call.
    last_yield: Instant,
    host_calls_left: u32,
}

impl Meter {
    /// Creates the meter of a call that started at this time.
    pub(crate) fn new(host_calls: u32, started: Instant) -> Self {
        Self { debt: 0, debt_at_yield: 0, last_yield: started, host_calls_left: host_calls }
    }

    /// Returns the fuel charged so far.
    pub(crate) fn debt(&self) -> u64 {
        self.debt
    }

    /// Adds fuel to the charge. It is compared with the fuel left at the next exit, in the next
    /// host call and at the end of the call.
    pub(crate) fn add(&mut self, fuel: u64) {
        self.debt = self.debt.saturating_add(fuel);
    }

    /// Counts a host call. Returns false if the guest may make no more.
    pub(super) fn take_host_call(&mut self) -> bool {
        let left = self.host_calls_left.checked_sub(1);
        self.host_calls_left = left.unwrap_or(0);
        left.is_some()
    }

    /// Returns whether the guest has to yield at this exit, and then counts its debt from here: the
    /// debt has grown by as much as it may burn at once, or its slice is over.
    pub(super) fn must_yield(&mut self) -> bool {
        let must_yield =
            self.debt - self.debt_at_yield >= YIELD_INTERVAL || self.last_yield.elapsed() >= SLICE;
        if must_yield {
            self.debt_at_yield = self.debt;
        }
        must_yield
    }

    /// Starts a new slice after the guest has yielded.
    pub(super) fn yielded(&mut self) {
        self.last_yield = Instant::now();
    }
}
