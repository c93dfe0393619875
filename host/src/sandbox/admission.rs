//! How many guests run at once, and who waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Room for guests. Calls at different depths of a chain have rooms of their own, so a guest that waits for a tool never
/// waits for itself: those at the deepest level wait for nobody, and so on upwards.
pub(super) struct Admission {
    levels: Vec<Level>,
    slots: u32,
    wait: Duration,
}

struct Level {
    slots: Arc<Semaphore>,
    waiting: AtomicUsize,
    queue: usize,
}

/// The right to hold one instance. Dropped after the store is.
pub(super) struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// There is no room, and no room to wait either.
#[derive(Debug)]
pub(super) struct Full;

impl Admission {
    pub(super) fn new(levels: u32, slots: u32, queue: usize, wait: Duration) -> Self {
        Self { levels: (0..levels).map(|_| Level::new(slots, queue)).collect(), slots, wait }
    }

    /// Room for one of those who share this room: three quarters of it, so that whoever takes all that it can get, by sleeping
    /// in every call for example, leaves some to the others.
    pub(super) fn share(&self) -> Self {
        let slots = self.slots - self.slots / 4;
        let levels = self.levels.iter().map(|level| Level::new(slots, level.queue)).collect();
        Self { levels, slots, wait: self.wait }
    }

    /// Takes a slot for a call at `depth` (from 1), waiting in a bounded queue for a bounded time, at most until `deadline`.
    pub(super) async fn enter(&self, depth: u32, deadline: Option<Instant>) -> Result<Slot, Full> {
        let last = self.levels.len() - 1;
        let level = &self.levels[last.min(depth.saturating_sub(1) as usize)];
        if let Ok(permit) = level.slots.clone().try_acquire_owned() {
            return Ok(Slot { _permit: permit });
        }
        let _place = Place::take(level)?;
        let wait = deadline.map_or(self.wait, |deadline| self.wait.min(deadline.saturating_duration_since(Instant::now())));
        match tokio::time::timeout(wait, level.slots.clone().acquire_owned()).await {
            Ok(Ok(permit)) => Ok(Slot { _permit: permit }),
            _ => Err(Full),
        }
    }
}

impl Level {
    fn new(slots: u32, queue: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots as usize)), waiting: AtomicUsize::new(0), queue }
    }
}

/// A place in the queue, given back when dropped.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(level: &'a Level) -> Result<Self, Full> {
        let take = |waiting: usize| (waiting < level.queue).then_some(waiting + 1);
        match level.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Self(&level.waiting)),
            Err(_) => Err(Full),
        }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn past_the_slots_callers_queue_and_past_the_queue_they_are_turned_away() {
        let admission = Admission::new(2, 1, 1, Duration::from_secs(5));
        let first = admission.enter(1, None).await.expect("room");
        let mut second = Box::pin(admission.enter(1, None));
        assert!((&mut second).now_or_never().is_none(), "it waits");
        assert!(admission.enter(1, None).await.is_err(), "the queue is full");
        assert!(admission.enter(2, None).await.is_ok(), "other depths are not affected");
        drop(first);
        let second = second.await.expect("its turn came");
        assert!(admission.enter(1, None).await.is_err(), "it waits no longer than it may");
        assert!(admission.enter(1, Some(Instant::now())).await.is_err(), "nor past its deadline");
        drop(second);
        assert!(admission.enter(1, None).await.is_ok(), "a caller that gave up left no trace");
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_three_quarters_and_at_least_one() {
        for (slots, share) in [(1, 1), (2, 2), (3, 3), (4, 3), (64, 48)] {
            let shared = Admission::new(4, slots, 0, Duration::ZERO).share();
            let mut taken = Vec::new();
            while let Ok(slot) = shared.enter(4, None).await {
                taken.push(slot);
            }
            assert_eq!(taken.len(), share, "of {slots}");
            assert!(shared.enter(1, None).await.is_ok(), "depths do not share");
        }
    }
}
