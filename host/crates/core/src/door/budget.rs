//! What one call, with all that it calls in turn, may spend. Shared by the whole chain, taken from
//! and never renewed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::tool::CallError;

/// What one call, with all that it calls in turn, may spend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Wall-clock time.
    pub deadline: Duration,
    /// Calls below the first.
    pub nested_calls: u32,
    /// How many calls may be one inside the other, the first included.
    pub depth: u32,
    /// How many calls of one chain may run at the same time, at each depth below the first.
    pub in_flight: usize,
}

/// What the calls of one chain share.
pub(super) struct Shared {
    budget: Budget,
    nested_left: AtomicU32,
    /// Host calls of all guests together; set by the first guest.
    host_calls_left: AtomicU32,
    /// Fuel of all guests below the first; set by the first.
    fuel_left: AtomicU64,
    /// Room at each depth below the first. A call waits for room while its parent holds some of its
    /// own depth, so depths that shared their room could wait for each other.
    rooms: Box<[Arc<Semaphore>]>,
}

impl Shared {
    pub(super) fn new(budget: &Budget) -> Self {
        let room = |_| Arc::new(Semaphore::new(budget.in_flight.max(1)));
        Self {
            budget: *budget,
            nested_left: AtomicU32::new(budget.nested_calls),
            host_calls_left: AtomicU32::new(u32::MAX),
            fuel_left: AtomicU64::new(u64::MAX),
            rooms: (1..budget.depth).map(room).collect(),
        }
    }

    /// Takes one nested call, which costs whether it is let through or not.
    pub(super) fn take_nested(&self, parent_depth: u32) -> Result<(), CallError> {
        let Budget { depth, nested_calls, .. } = self.budget;
        if parent_depth >= depth {
            return Err(CallError::Budget { what: "calls inside calls", limit: depth.into() });
        }
        if !take(&self.nested_left) {
            return Err(CallError::Budget {
                what: "nested tool calls",
                limit: nested_calls.into(),
            });
        }
        Ok(())
    }

    /// Takes one host call of a guest.
    pub(super) fn take_host_call(&self) -> bool {
        take(&self.host_calls_left)
    }

    /// Waits until fewer calls of the chain than allowed run at `depth`; nothing at the first.
    pub(super) async fn wait_for_siblings(&self, depth: u32) -> Option<OwnedSemaphorePermit> {
        let room = self.rooms.get(depth.checked_sub(2)? as usize)?;
        // It fails only for a closed one, and none is ever closed.
        room.clone().acquire_owned().await.ok()
    }

    /// The fuel that a guest at `depth` may burn: its own limit for the first, which is also what
    /// all below it share.
    ///
    /// What they burn is taken off when they end, so those that run at the same time may together
    /// go over by what each of them had been promised.
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
            0 => Err(CallError::Budget { what: "fuel of the whole chain", limit: 0 }),
            share => Ok(share),
        }
    }

    /// Takes what a guest at `depth` has burnt off what is shared.
    pub(super) fn spend_fuel(&self, depth: u32, burnt: u64) {
        if depth > 1 {
            // The closure never says no.
            let _ = self.fuel_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                Some(left.saturating_sub(burnt))
            });
        }
    }
}

fn take(counter: &AtomicU32) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    const BUDGET: Budget =
        Budget { deadline: Duration::from_secs(1), nested_calls: 2, depth: 3, in_flight: 2 };

    #[test]
    fn what_nested_guests_burn_is_gone_for_the_others() {
        let shared = Shared::new(&BUDGET);
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
        let shared = Shared::new(&BUDGET);
        shared.share_fuel(1, 1, 2).expect("the first");
        shared.share_fuel(2, 1, 100).expect("a nested one renews nothing");
        assert_eq!([(); 3].map(|()| shared.take_host_call()), [true, true, false]);
        assert!(shared.take_nested(3).is_err(), "too deep, and not counted");
        assert_eq!([1, 2, 1].map(|depth| shared.take_nested(depth).is_ok()), [true, true, false]);
    }

    #[test]
    fn each_depth_has_room_for_so_many_and_the_first_for_any() {
        let shared = Shared::new(&BUDGET);
        let enter = |depth| shared.wait_for_siblings(depth).now_or_never();
        assert!(matches!(enter(1), Some(None)));
        let held = [enter(2).flatten(), enter(2).flatten(), enter(3).flatten()];
        assert!(held.iter().all(Option::is_some));
        assert!(enter(2).is_none(), "full: it waits");
        assert!(enter(3).flatten().is_some());
        drop(held);
        assert!(enter(2).flatten().is_some());
    }
}
