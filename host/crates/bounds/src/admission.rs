//! Limits how many guests run at once, and queues the other calls. The schedule decides which
//! call is next; this module provides the channels and timers.

mod queue;
mod schedule;

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::{Mutex, MutexGuard};
use tokio::{sync::oneshot, time::timeout_at};

use self::{
    queue::Ticket,
    schedule::{Flow, GuestId, Schedule},
};
use crate::tenant::Tenant;

/// Shortest interval after which a call that was passed over checks again whether it still is.
const LEAST_EXTENSION: Duration = Duration::from_millis(250);

/// Slots for guests. Calls at different depths of a chain have slots of their own, so a guest that
/// waits for a tool never waits for its own slot: calls at the deepest level wait for no slot of
/// another level, and so on upwards.
pub struct Admission(Arc<AdmissionLevels>);

struct AdmissionLevels {
    levels: Vec<Mutex<DepthSlots>>,
    /// Time that a call may wait.
    wait: Duration,
    next_guest: AtomicU64,
}

/// Slots of one depth. A waiting call gets its slot through a channel. A slot that is not received
/// is dropped, and so released.
type DepthSlots = Schedule<oneshot::Sender<Slot<'static>>>;

/// One guest's access to slots: its share at each depth.
pub struct Share {
    admission: Arc<AdmissionLevels>,
    guest: GuestId,
}

/// Permit to hold one instance. Dropped after the store.
pub struct Slot<'s>(Option<SlotLease<'s>>);

/// Level and flow of a slot, to which the slot is returned when it is dropped.
struct SlotLease<'s> {
    /// Borrowed from the share if the slot was free: the count of references is changed by all threads.
    admission: Cow<'s, Arc<AdmissionLevels>>,
    level: usize,
    flow: Flow,
}

/// Error: no slot was free, and none became free in time.
#[derive(Debug)]
pub struct Full;

impl Admission {
    /// Creates `levels` levels with `slots` slots each. Up to `queue` calls wait at each level,
    /// each for `wait`, or longer if it is passed over.
    pub fn new(levels: u32, slots: u32, queue: usize, wait: Duration) -> Self {
        let levels =
            (0..levels.max(1)).map(|_| Mutex::new(Schedule::new(slots as usize, queue))).collect();
        Self(Arc::new(AdmissionLevels { levels, wait, next_guest: AtomicU64::new(0) }))
    }

    /// Returns the share of one more guest.
    pub fn share(&self) -> Share {
        Share {
            admission: self.0.clone(),
            guest: GuestId(self.0.next_guest.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Share {
    /// Takes a slot for a call at `depth` (from 1), after a wait in a bounded queue if none is
    /// free.
    ///
    /// A call waits for the configured time. The wait is extended, up to its `deadline`, while its
    /// tenant has less than its part of the slots and another tenant has more. Fails if the queue
    /// has no place for the call, if the call is evicted from it, or if its time is up.
    /// Dropping the future removes the call from the queue.
    pub async fn wait_for_slot(
        &self,
        tenant: &Tenant,
        depth: u32,
        deadline: Option<Instant>,
    ) -> Result<Slot<'_>, Full> {
        let level = (self.admission.levels.len() - 1).min(depth.saturating_sub(1) as usize);
        let (mut slot, waiting) = {
            let lease = SlotLease {
                admission: Cow::Borrowed(&self.admission),
                level,
                flow: Flow { tenant: tenant.clone(), guest: self.guest },
            };
            let mut schedule = self.admission.level(level);
            if schedule.try_start(&lease.flow) {
                drop(schedule);
                return Ok(Slot(Some(lease)));
            }
            let (sender, slot) = oneshot::channel();
            let (ticket, evicted) = schedule.wait(&lease.flow, sender).ok_or(Full)?;
            drop(schedule);
            // Dropping the sender makes the evicted call fail with `Full`.
            drop(evicted);
            (slot, QueuedCall { lease, ticket })
        };
        let mut end = until(deadline, self.admission.wait);
        loop {
            match timeout_at(end.into(), &mut slot).await {
                Ok(slot) => return slot.map_err(|_| Full),
                Err(_) => end = waiting.extended(deadline).ok_or(Full)?,
            }
        }
    }
}

impl AdmissionLevels {
    fn level(&self, level: usize) -> MutexGuard<'_, DepthSlots> {
        // A schedule is consistent whenever its lock is free: no operation on it panics half-way.
        self.levels[level].lock()
    }
}

/// Returns the time by the clock of the runtime's timers.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// Returns the end of a wait: after `wait`, or at the deadline if that is sooner.
fn until(deadline: Option<Instant>, wait: Duration) -> Instant {
    let until = now() + wait;
    deadline.map_or(until, |deadline| until.min(deadline))
}

/// A call in the queue. Dropping it removes the call.
struct QueuedCall<'s> {
    lease: SlotLease<'s>,
    ticket: Ticket,
}

impl QueuedCall<'_> {
    /// Returns the new end of the wait, if the call is passed over and still has time.
    fn extended(&self, deadline: Option<Instant>) -> Option<Instant> {
        let SlotLease { admission, level, flow } = &self.lease;
        let has_time = deadline.is_some_and(|deadline| now() < deadline);
        let is_passed_over = has_time && admission.level(*level).is_unfair_to(flow);
        is_passed_over.then(|| until(deadline, admission.wait.max(LEAST_EXTENSION)))
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        let SlotLease { admission, level, flow } = &self.lease;
        let waiter = admission.level(*level).abandon(flow, self.ticket);
        // Dropped after the lock is released.
        drop(waiter);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // A loop and not a recursion: a slot that is sent to a call which has just been dropped
        // comes back here.
        let mut freed = self.0.take();
        let mut refused = Vec::new();
        while let Some(SlotLease { admission, level, flow }) =
            freed.take().or_else(|| refused.pop())
        {
            let next = admission.level(level).leave(&flow);
            for (flow, waiter) in next {
                let admission = Cow::Owned(Arc::clone(&admission));
                let slot = Slot(Some(SlotLease { admission, level, flow }));
                if let Err(mut slot) = waiter.send(slot) {
                    refused.extend(slot.0.take());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
