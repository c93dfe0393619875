//! How many guests run at once, and which calls wait. The [`Schedule`] decides which is next; here
//! are the tasks and the time.

mod queue;
mod schedule;

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use airlock_core::tenant::Tenant;
use tokio::{sync::oneshot, time::timeout_at};

use self::{
    queue::Ticket,
    schedule::{Flow, GuestId, Schedule},
};

/// How soon, at the earliest, a call that was passed over looks again whether that is still so.
const LEAST_EXTENSION: Duration = Duration::from_millis(250);

/// Slots for guests. Calls at different depths of a chain have slots of their own, so a guest that
/// waits for a tool never waits for itself: those at the deepest level wait for no slot, and so on
/// upwards.
pub(super) struct Admission(Arc<Inner>);

struct Inner {
    levels: Vec<Mutex<Level>>,
    /// How long a call may wait.
    wait: Duration,
    next_guest: AtomicU64,
}

/// The slots of one depth. A waiting call gets its slot through a channel: one that is not received
/// comes back by itself.
type Level = Schedule<oneshot::Sender<Slot>>;

/// One guest's way to slots, its share of each depth.
pub(super) struct Share {
    admission: Arc<Inner>,
    guest: GuestId,
}

/// The right to hold one instance. Dropped after the store is.
pub(super) struct Slot(Option<Place>);

/// Owner of a slot, which gets it back.
struct Place {
    admission: Arc<Inner>,
    level: usize,
    flow: Flow,
}

/// There is no slot, and none became free in time.
#[derive(Debug)]
pub(super) struct Full;

impl Admission {
    /// `slots` for each of the `levels`, and room for `queue` waiting calls at each, which wait at
    /// most for `wait`.
    pub(super) fn new(levels: u32, slots: u32, queue: usize, wait: Duration) -> Self {
        let levels =
            (0..levels.max(1)).map(|_| Mutex::new(Schedule::new(slots as usize, queue))).collect();
        Self(Arc::new(Inner { levels, wait, next_guest: AtomicU64::new(0) }))
    }

    /// Opens a share for one more guest.
    pub(super) fn share(&self) -> Share {
        Share {
            admission: self.0.clone(),
            guest: GuestId(self.0.next_guest.fetch_add(1, Ordering::Relaxed)),
        }
    }
}

impl Share {
    /// Takes a slot for a call at `depth` (from 1), if need be after waiting in a bounded queue.
    ///
    /// A call waits for the configured time. It waits on, at most until its `deadline`, while its
    /// tenant has less than its part of the slots and another has more. It fails if the queue has
    /// no place for it or its time is up; dropping the future gives up the place.
    pub(super) async fn wait_for_slot(
        &self,
        tenant: &Tenant,
        depth: u32,
        deadline: Option<Instant>,
    ) -> Result<Slot, Full> {
        let level = (self.admission.levels.len() - 1).min(depth.saturating_sub(1) as usize);
        let place = || Place {
            admission: self.admission.clone(),
            level,
            flow: Flow { tenant: tenant.clone(), guest: self.guest },
        };
        let (mut slot, waiting) = {
            let place = place();
            let mut schedule = self.admission.level(level);
            if schedule.try_start(&place.flow) {
                drop(schedule);
                return Ok(Slot(Some(place)));
            }
            let (sender, slot) = oneshot::channel();
            let (ticket, pushed_out) = schedule.wait(&place.flow, sender).ok_or(Full)?;
            drop(schedule);
            // Its call is told that the queue is full.
            drop(pushed_out);
            (slot, Waiting { place, ticket })
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

impl Inner {
    fn level(&self, level: usize) -> MutexGuard<'_, Level> {
        // A schedule is whole whenever its lock is free: nothing in it panics half-way.
        self.levels[level].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time as the runtime's timers have it.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The end of a wait.
fn until(deadline: Option<Instant>, wait: Duration) -> Instant {
    let until = now() + wait;
    deadline.map_or(until, |deadline| until.min(deadline))
}

/// A call in the queue; dropping it takes the call out.
struct Waiting {
    place: Place,
    ticket: Ticket,
}

impl Waiting {
    /// How long to wait on, if the call is passed over and still has time.
    fn extended(&self, deadline: Option<Instant>) -> Option<Instant> {
        let Place { admission, level, flow } = &self.place;
        let has_time = deadline.is_some_and(|deadline| now() < deadline);
        let is_passed_over = has_time && admission.level(*level).is_unfair_to(flow);
        is_passed_over.then(|| until(deadline, admission.wait.max(LEAST_EXTENSION)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let Place { admission, level, flow } = &self.place;
        let waiter = admission.level(*level).abandon(flow, self.ticket);
        // Not under the lock.
        drop(waiter);
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // A loop and no recursion: a slot that is handed to a call which has just gone comes back
        // here.
        let (mut freed, mut refused) = (self.0.take(), Vec::new());
        while let Some(Place { admission, level, flow }) = freed.take().or_else(|| refused.pop()) {
            let next = admission.level(level).leave(&flow);
            for (flow, waiter) in next {
                let slot = Slot(Some(Place { admission: admission.clone(), level, flow }));
                if let Err(mut slot) = waiter.send(slot) {
                    refused.extend(slot.0.take());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
