//! Room for one event between the work of a run and its reader.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll, Waker},
};

use parking_lot::Mutex;

/// Room for one event between the work of a run and its reader. A channel would take a block of memory for 32
/// events, and a semaphore that no other task uses.
pub(super) struct EventSlot<E> {
    state: Mutex<SlotState<E>>,
    /// True while there is an event. A run looks for one several times in each poll, and mostly there is none: the lock is
    /// then not taken. It changes under the lock.
    has_event: AtomicBool,
}

struct SlotState<E> {
    event: Option<E>,
    /// The part of the work that waits for room.
    waiting: Option<Waker>,
    /// Number of events that wait for their turn or for room.
    queued: usize,
}

impl<E> Default for EventSlot<E> {
    fn default() -> Self {
        let state = SlotState { event: None, waiting: None, queued: 0 };
        Self { state: Mutex::new(state), has_event: AtomicBool::new(false) }
    }
}

impl<E> EventSlot<E> {
    /// Takes the event, and wakes the part of the work that waits for its room.
    pub(super) fn take(&self) -> Option<E> {
        if !self.has_event() {
            return None;
        }
        let mut state = self.state.lock();
        if let Some(waiting) = state.waiting.take() {
            waiting.wake();
        }
        self.has_event.store(false, Ordering::Release);
        state.event.take()
    }

    /// Puts an event back that was the only one.
    pub(super) fn put_back(&self, event: E) {
        self.put(&mut self.state.lock(), Some(event));
    }

    /// Returns whether there is an event.
    pub(super) fn has_event(&self) -> bool {
        self.has_event.load(Ordering::Acquire)
    }

    /// Moves an event here once there is room.
    pub(super) fn poll_put(&self, event: &mut Option<E>, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.event.is_some() {
            state.waiting = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.put(&mut state, event.take());
        Poll::Ready(())
    }

    /// Moves an event here if there is room and no event waits. Returns whether it did.
    pub(super) fn put_at_once(&self, event: &mut Option<E>) -> bool {
        let mut state = self.state.lock();
        let has_room = state.event.is_none() && state.queued == 0;
        if has_room {
            self.put(&mut state, event.take());
        }
        has_room
    }

    fn put(&self, state: &mut SlotState<E>, event: Option<E>) {
        self.has_event.store(event.is_some(), Ordering::Release);
        state.event = event;
    }
}

/// Counts an event that waits, until it is dropped.
pub(super) struct WaitingEvent<'s, E>(&'s EventSlot<E>);

impl<'s, E> WaitingEvent<'s, E> {
    /// Counts one more.
    pub(super) fn begin(slot: &'s EventSlot<E>) -> Self {
        slot.state.lock().queued += 1;
        Self(slot)
    }
}

impl<E> Drop for WaitingEvent<'_, E> {
    fn drop(&mut self) {
        self.0.state.lock().queued -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_there_from_each_way_of_putting_it_until_it_is_taken() {
        let slot = EventSlot::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(!slot.has_event() && slot.take().is_none());
        for before in 0..2 {
            assert!(slot.put_at_once(&mut Some(before)));
            assert!(slot.has_event());
            let mut next = Some(5);
            assert!(!slot.put_at_once(&mut next));
            assert!(slot.poll_put(&mut next, &mut context).is_pending());
            assert_eq!(slot.take(), Some(before));
            assert!(!slot.has_event() && slot.take().is_none());
            assert!(slot.poll_put(&mut next, &mut context).is_ready() && slot.has_event());
            let taken = slot.take().expect("it was put");
            slot.put_back(taken);
            assert!(slot.has_event());
            assert_eq!(slot.take(), Some(5));
            assert!(!slot.has_event());
        }
    }
}
