//! Budget of one call and all its nested calls. The whole chain shares it, and it is never renewed.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tool::CallError;

/// Name of the budget of nested calls, in the errors of calls beyond it.
pub const NESTED_CALLS: &str = "nested tool calls";
/// Name of the bound on the depth of calls, in the errors of calls beyond it.
pub const CALL_LEVELS: &str = "levels of nested calls";

/// Limits on one call together with all its nested calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Wall-clock time.
    pub deadline: Duration,
    /// Wall-clock time for a script, the calls that it makes included.
    pub script: Duration,
    /// Number of nested calls, at all depths together.
    pub nested_calls: u32,
    /// Greatest depth of a call. The first call has depth 1, unless a function of the embedding program has sent its request:
    /// then the calls around it count too.
    pub depth: u32,
    /// Number of calls of one chain that may run at the same time, at each depth below the first.
    pub in_flight: usize,
}

/// State that the calls of one chain share.
pub(super) struct ChainBudget {
    budget: Budget,
    nested_left: AtomicU32,
    /// True if a nested call was beyond the budget.
    is_exceeded: AtomicBool,
    /// Host calls that all guests together have left; set by the first guest.
    host_calls_left: AtomicU32,
    /// Fuel that all guests below the first have left; set by the first guest.
    fuel_left: AtomicU64,
    /// One semaphore for each depth below the first. A call waits for a permit of its depth while
    /// its parent holds a permit of the depth above. With one semaphore for all depths, calls could
    /// deadlock. Made with the first of these calls, which most chains do not have.
    rooms: OnceLock<Box<[Arc<Semaphore>]>>,
}

impl Budget {
    /// Returns the budget of a request that takes at most `limit`.
    #[must_use]
    pub fn within(self, limit: Duration) -> Self {
        Self { deadline: self.deadline.min(limit), script: self.script.min(limit), ..self }
    }
}

impl ChainBudget {
    pub(super) fn new(budget: &Budget) -> Self {
        Self {
            budget: *budget,
            nested_left: AtomicU32::new(budget.nested_calls),
            is_exceeded: AtomicBool::new(false),
            host_calls_left: AtomicU32::new(u32::MAX),
            fuel_left: AtomicU64::new(u64::MAX),
            rooms: OnceLock::new(),
        }
    }

    /// Takes one nested call off the budget, before the door decides whether it may run. Fails if
    /// the chain is too deep or no call is left.
    pub(super) fn take_nested(&self, parent_depth: u32) -> Result<(), CallError> {
        let Budget { depth, nested_calls, .. } = self.budget;
        if parent_depth >= depth {
            return Err(CallError::budget(CALL_LEVELS, depth.into()));
        }
        if !take(&self.nested_left) {
            return Err(CallError::budget(NESTED_CALLS, nested_calls.into()));
        }
        Ok(())
    }

    /// Notes that a nested call is beyond the budget. Returns whether it is the first one.
    pub(super) fn is_first_beyond(&self) -> bool {
        !self.is_exceeded.swap(true, Ordering::Relaxed)
    }

    /// Takes one host call of a guest off the budget; false if none is left.
    pub(super) fn take_host_call(&self) -> bool {
        take(&self.host_calls_left)
    }

    /// Waits for a permit to run a call of the chain at `depth`. Returns `None` at once for the
    /// first call, which needs no permit.
    pub(super) async fn wait_for_siblings(&self, depth: u32) -> Option<OwnedSemaphorePermit> {
        let below_first = depth.checked_sub(2)? as usize;
        let room = self.rooms.get_or_init(|| rooms(&self.budget)).get(below_first)?;
        // Acquiring fails only if the semaphore is closed, and these are never closed.
        room.clone().acquire_owned().await.ok()
    }

    /// Returns the fuel that a guest at `depth` may burn. The first guest gets `limit`, and all
    /// guests below it share the same amount again. `host_calls` of the first guest is the limit of
    /// the whole chain. Fails if no fuel is left.
    ///
    /// The fuel of a guest is subtracted when the guest ends. Guests that run at the same time can
    /// therefore exceed the shared amount together, each by at most the share it was given.
    pub(super) fn share_fuel(
        &self,
        depth: u32,
        limit: u64,
        host_calls: u32,
    ) -> Result<u64, CallError> {
        if depth <= 1 {
            self.fuel_left.store(limit, Ordering::Relaxed);
            self.host_calls_left.store(host_calls, Ordering::Relaxed);
            return Ok(limit);
        }
        match self.fuel_left.load(Ordering::Relaxed).min(limit) {
            0 => Err(CallError::budget("units of fuel for the whole chain", 0)),
            share => Ok(share),
        }
    }

    /// Subtracts the fuel that a guest at `depth` has burnt from the shared fuel. Does nothing for
    /// the first guest, which has its own fuel.
    pub(super) fn spend_fuel(&self, depth: u32, burnt: u64) {
        if depth > 1 {
            // The update cannot fail, because the closure never returns `None`.
            let _ = self.fuel_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(burnt))
            });
        }
    }
}

/// Makes the semaphores of the depths below the first.
fn rooms(budget: &Budget) -> Box<[Arc<Semaphore>]> {
    let permits = budget.in_flight.max(1);
    (1..budget.depth).map(|_| Arc::new(Semaphore::new(permits))).collect()
}

fn take(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BUDGET: Budget = Budget {
        deadline: Duration::from_secs(1),
        script: Duration::from_secs(1),
        nested_calls: 2,
        depth: 3,
        in_flight: 2,
    };

    #[test]
    fn fuel_burnt_by_a_nested_guest_is_subtracted_from_the_shared_fuel() {
        let shared = ChainBudget::new(&BUDGET);
        assert_eq!(shared.share_fuel(1, 100, 3).expect("the first has its own limit"), 100);
        assert_eq!(shared.share_fuel(2, 1_000, 9).expect("there is some"), 100);
        shared.spend_fuel(1, 100);
        shared.spend_fuel(2, 60);
        assert_eq!(shared.share_fuel(3, 1_000, 9).expect("there is some"), 40);
        assert_eq!(shared.share_fuel(2, 7, 9).expect("its own limit is lower"), 7);
        shared.spend_fuel(3, 41);
        assert!(shared.share_fuel(2, 1_000, 9).is_err());
    }

    #[test]
    fn host_calls_and_nested_calls_are_counted_for_the_whole_chain() {
        let shared = ChainBudget::new(&BUDGET);
        shared.share_fuel(1, 1, 2).expect("the first");
        shared.share_fuel(2, 1, 100).expect("a nested one renews nothing");
        assert_eq!([(); 3].map(|()| shared.take_host_call()), [true, true, false]);
        assert!(shared.take_nested(3).is_err(), "too deep, and not counted");
        assert_eq!([1, 2, 1].map(|depth| shared.take_nested(depth).is_ok()), [true, true, false]);
    }

    #[test]
    fn each_depth_has_its_own_permits_and_the_first_has_no_limit() {
        let shared = ChainBudget::new(&BUDGET);
        assert!(matches!(shared.wait_for_siblings(1).now_or_never(), Some(None)));
        assert!(shared.rooms.get().is_none(), "the first call needs none");
        let held = [enter(&shared, 2), enter(&shared, 2), enter(&shared, 3)];
        assert!(held.iter().all(Option::is_some));
        assert!(enter(&shared, 2).is_none(), "full: it waits");
        assert!(enter(&shared, 3).is_some());
        drop(held);
        assert!(enter(&shared, 2).is_some());
    }

    /// Returns the permit of a call below the first one; `None` if the call would wait.
    fn enter(shared: &ChainBudget, depth: u32) -> Option<OwnedSemaphorePermit> {
        shared.wait_for_siblings(depth).now_or_never().flatten()
    }
}
