//! The queue before the writer of one log: bounded in events and in bytes, those that are being written included.

use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::{
    counted::{CallerCounts, RECORDED},
    event::{LostEvents, RecordEvent},
    metrics::LogMetrics,
};

/// Bounds of a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    /// Maximum events.
    pub(crate) events: usize,
    /// Maximum bytes of their contents.
    pub(crate) bytes: usize,
    /// Maximum events of one batch.
    pub(crate) batch: usize,
    /// Time that the writer gathers events for, if none of them is waited for.
    pub(crate) gather: Duration,
    /// Maximum refusals of one caller in a minute that have records of their own, and the same for questions to its user.
    pub(crate) of_caller: u32,
}

/// Bounds of the queue of a log: a second of 16,000 calls, and 64 MiB.
pub(crate) const LIMITS: QueueLimits = QueueLimits {
    events: 32_768,
    bytes: 64 << 20,
    batch: 1_024,
    gather: Duration::from_millis(50),
    of_caller: RECORDED,
};
/// Maximum bytes of a batch of several events.
const BATCH_BYTES: usize = 4 << 20;
/// Shares of the queue. One is left to acts, which are few: calls cannot displace them. Another one is left to calls
/// with effects, whose callers wait: those of calls that only read do not, and would keep them out. A third one is left
/// to calls that are made: no limit bounds refusals.
const SHARES: usize = 8;

/// Receives whether an event is in the log.
pub(crate) type WriteReceipt = oneshot::Receiver<bool>;

/// An event that waits to be written.
pub(crate) struct QueuedEvent {
    pub(crate) event: Arc<RecordEvent>,
    pub(crate) bytes: usize,
    /// Notified once the event is in the log, or cannot be written now.
    pub(crate) waiter: Option<oneshot::Sender<bool>>,
}

/// The queue has no room, or is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NoRoom;

/// The queue of a log.
pub(crate) struct EventQueue {
    limits: QueueLimits,
    state: Mutex<QueueState>,
    wake: Condvar,
    /// True while the last attempt to write has failed, or does not end.
    is_failing: AtomicBool,
    pub(crate) metrics: LogMetrics,
}

#[derive(Default)]
struct QueueState {
    entries: VecDeque<QueuedEvent>,
    /// Events in the queue, and those that are being written.
    count: usize,
    bytes: usize,
    lost: u64,
    counts: CallerCounts,
    /// True if an event in the queue is waited for.
    is_urgent: bool,
    /// True while the writer waits for the first event.
    is_idle: bool,
    is_closed: bool,
}

impl QueueState {
    /// Returns whether events were counted whose number is to be written now.
    fn has_due_counts(&self) -> bool {
        self.counts.due().is_some_and(|due| self.is_closed || due <= Instant::now())
    }
}

impl EventQueue {
    pub(crate) fn new(limits: QueueLimits, metrics: LogMetrics) -> Self {
        let state = Mutex::default();
        let wake = Condvar::new();
        Self { limits, state, wake, is_failing: AtomicBool::new(false), metrics }
    }

    /// Returns whether the last attempt to write has failed, or does not end.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Acquire)
    }

    pub(crate) fn set_failing(&self, is_failing: bool) {
        self.is_failing.store(is_failing, Ordering::Release);
    }

    /// Notes that an event was not written in time: a log that hangs does not fail by itself. [`Self::set_failing`]
    /// takes it back after the next event that is written.
    pub(crate) fn set_stalled(&self) {
        let state = self.state.lock();
        if state.count > 0 {
            self.set_failing(true);
        }
    }

    /// Adds an event that no caller waits for. One that has no room is counted as lost. One beyond the bound of its caller is
    /// counted, and has no record of its own.
    pub(crate) fn push(&self, event: Arc<RecordEvent>) -> Result<(), NoRoom> {
        self.add(event, None)
    }

    /// Adds an event. Returns what tells once it is written. One that has no room is not counted: its caller
    /// learns of it.
    pub(crate) fn push_awaited(&self, event: Arc<RecordEvent>) -> Result<WriteReceipt, NoRoom> {
        let (waiter, written) = oneshot::channel();
        self.add(event, Some(waiter)).map(|()| written)
    }

    fn add(
        &self,
        event: Arc<RecordEvent>,
        waiter: Option<oneshot::Sender<bool>>,
    ) -> Result<(), NoRoom> {
        let bytes = event.bytes();
        let shares = match &*event {
            RecordEvent::Act(_) => SHARES,
            RecordEvent::Refused(_) => SHARES - 3,
            event if event.has_effects() => SHARES - 1,
            _ => SHARES - 2,
        };
        let is_awaited = waiter.is_some();
        let mut state = self.state.lock();
        let QueueLimits { events, bytes: most_bytes, of_caller, .. } = self.limits;
        let had_counts = state.counts.due().is_some();
        let is_counted = !is_awaited
            && !state.is_closed
            && !state.counts.admit(&event, of_caller, Instant::now());
        if is_counted {
            drop(state);
            self.metrics.counted.inc();
            if !had_counts {
                // The writer may wait for longer than until they are due.
                self.wake.notify_one();
            }
            return Ok(());
        }
        let has_room = state.count < events / SHARES * shares
            && state.bytes + bytes <= most_bytes / SHARES * shares;
        if !has_room || state.is_closed {
            if !is_awaited {
                state.lost += 1;
                self.metrics.lost.inc();
            }
            return Err(NoRoom);
        }
        state.count += 1;
        state.bytes += bytes;
        state.entries.push_back(QueuedEvent { event, bytes, waiter });
        let was_urgent = state.is_urgent;
        state.is_urgent |= is_awaited;
        let is_batch = state.entries.len() == self.limits.batch;
        let wakes = state.is_idle || is_batch || (is_awaited && !was_urgent);
        state.is_idle &= !wakes;
        drop(state);
        self.metrics.waiting.inc();
        if wakes {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Returns whether the result of a call, which has this size, has room now. Results have half of the room: the
    /// long ones of one caller must not prevent the admission of calls of others.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let state = self.state.lock();
        state.bytes + bytes <= self.limits.bytes / 2
    }

    /// Waits for events, at most until `deadline`, and takes a batch of them. An event that is waited for is
    /// taken at once; the others gather for a moment. Returns an empty batch at the deadline, and `None` once
    /// the queue is closed and empty.
    pub(crate) fn take(&self, deadline: Instant) -> Option<Vec<QueuedEvent>> {
        let mut state = self.state.lock();
        while state.entries.is_empty() && state.lost == 0 && !state.has_due_counts() {
            if state.is_closed {
                return None;
            }
            state.is_idle = true;
            let until = state.counts.due().map_or(deadline, |due| due.min(deadline));
            let timed_out = self.wake.wait_until(&mut state, until).timed_out();
            state.is_idle = false;
            if timed_out && state.entries.is_empty() && !state.has_due_counts() {
                return Some(Vec::new());
            }
        }
        let gathered = Instant::now() + self.limits.gather;
        while !state.is_urgent && !state.is_closed && state.entries.len() < self.limits.batch {
            if self.wake.wait_until(&mut state, gathered).timed_out() {
                break;
            }
        }
        let count = batch_len(&state.entries, self.limits.batch);
        let mut batch: Vec<_> = state.entries.drain(..count).collect();
        state.is_urgent = state.entries.iter().any(|entry| entry.waiter.is_some());
        if state.has_due_counts() {
            // They take no room of the queue: there are those of a minute in at most one batch.
            let counted = state.counts.take().into_iter();
            batch.extend(counted.map(|counted| QueuedEvent {
                event: Arc::new(RecordEvent::Counted(Box::new(counted))),
                bytes: 0,
                waiter: None,
            }));
        }
        let lost = mem::take(&mut state.lost);
        if lost > 0 {
            // It takes no room of the queue: there is at most one in each batch.
            let lost = LostEvents { until: SystemTime::now(), count: lost };
            let event = Arc::new(RecordEvent::Lost(lost));
            batch.push(QueuedEvent { event, bytes: 0, waiter: None });
        }
        Some(batch)
    }

    /// Frees the room of events that were written or given up.
    pub(crate) fn settle(&self, count: usize, bytes: usize) {
        let mut state = self.state.lock();
        state.count = state.count.saturating_sub(count);
        state.bytes = state.bytes.saturating_sub(bytes);
        drop(state);
        self.metrics.waiting.dec_by(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Fails all waiters for events in the queue: these cannot be written now. The events stay.
    pub(crate) fn fail_waiters(&self) {
        let mut waiters = Vec::new();
        let mut state = self.state.lock();
        waiters.extend(state.entries.iter_mut().filter_map(|entry| entry.waiter.take()));
        state.is_urgent = false;
        drop(state);
        for waiter in waiters {
            // One that waits no more needs no answer.
            let _ = waiter.send(false);
        }
    }

    /// Waits until the queue is closed, for at most `time`. Returns whether it is.
    pub(crate) fn wait_closed(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        let mut state = self.state.lock();
        while !state.is_closed {
            if self.wake.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        state.is_closed
    }

    /// Returns whether the queue is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.lock().is_closed
    }

    /// Takes no more events. Those that are there are still written.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake.notify_all();
    }
}

/// Returns the number of events of the next batch, which is not 0 if there are any: its contents are bounded,
/// so that a slow log can write it in time.
fn batch_len(entries: &VecDeque<QueuedEvent>, most: usize) -> usize {
    let mut bytes = 0;
    let fitting = entries.iter().take(most).take_while(|entry| {
        bytes += entry.bytes;
        bytes <= BATCH_BYTES
    });
    fitting.count().max(entries.len().min(1))
}

#[cfg(test)]
mod tests;
