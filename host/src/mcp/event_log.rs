//! The events of one stream of the legacy era, kept so that a client that lost the connection can
//! resume the stream (2025-11-25, section "Resumability and Redelivery").

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use crate::memory::Held;

/// The most events that are kept of one stream. The oldest are dropped, and never the last: it is
/// the response.
const KEPT_EVENTS: usize = 64;

/// Events of one request: what precedes its response, and the response.
pub(crate) struct EventLog {
    /// Number of the stream within its session.
    pub(crate) stream: u64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    /// Number of the next event. The first event has 1; 0 is the beginning of the stream.
    next: u64,
    is_complete: bool,
    is_streamed: bool,
}

struct Event {
    number: u64,
    text: String,
    /// Memory of the event. Released with it.
    _held: Option<Held>,
}

/// The next event of a stream for one reader.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Next {
    /// Number of the event, for `Last-Event-ID`.
    pub(crate) number: u64,
    /// The message.
    pub(crate) text: String,
    /// True if it is the response, and nothing follows.
    pub(crate) is_last: bool,
}

impl EventLog {
    pub(crate) fn new(stream: u64) -> Self {
        let state = State { next: 1, ..State::default() };
        Self { stream, state: Mutex::new(state), changed: Notify::new() }
    }

    /// Adds a message that precedes the response.
    pub(crate) fn push(&self, text: String, held: Option<Held>) {
        self.add(text, held, false);
    }

    /// Adds the response.
    pub(crate) fn complete(&self, text: String, held: Option<Held>) {
        self.add(text, held, true);
    }

    fn add(&self, text: String, held: Option<Held>, is_complete: bool) {
        let mut state = self.state();
        if state.is_complete {
            return;
        }
        if state.events.len() >= KEPT_EVENTS {
            state.events.pop_front();
        }
        let number = state.next;
        state.events.push_back(Event { number, text, _held: held });
        state.next += 1;
        state.is_complete = is_complete;
        drop(state);
        self.changed.notify_waiters();
    }

    /// Ends the stream without a response: the request was cancelled.
    pub(crate) fn abandon(&self) {
        self.state().is_complete = true;
        self.changed.notify_waiters();
    }

    /// Returns the first kept event after number `after`; `None` if there is none and none will
    /// come. Dropping the future loses nothing.
    pub(crate) async fn next(&self, after: u64) -> Option<Next> {
        loop {
            let changed = self.changed.notified();
            {
                let state = self.state();
                let found = state.events.iter().find(|event| event.number > after);
                if let Some(event) = found {
                    let is_last = state.is_complete && event.number + 1 == state.next;
                    let (number, text) = (event.number, event.text.clone());
                    return Some(Next { number, text, is_last });
                }
                if state.is_complete {
                    return None;
                }
            }
            changed.await;
        }
    }

    /// Notes that the client receives the events as a stream, which it may lose.
    pub(crate) fn begin_stream(&self) {
        self.state().is_streamed = true;
    }

    /// Returns whether the client receives the events as a stream.
    pub(crate) fn is_streamed(&self) -> bool {
        self.state().is_streamed
    }

    /// Returns whether no event will be added.
    pub(crate) fn is_complete(&self) -> bool {
        self.state().is_complete
    }

    /// Bytes of the kept events.
    pub(crate) fn bytes(&self) -> usize {
        self.state().events.iter().map(|event| event.text.len()).sum()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::Arc};

    use futures_util::FutureExt as _;

    use super::*;

    fn next(number: u64, text: &str, is_last: bool) -> Next {
        Next { number, text: text.to_owned(), is_last }
    }

    #[tokio::test]
    async fn a_reader_goes_on_after_any_event_and_ends_with_the_response() {
        let log = EventLog::new(1);
        log.push("a".into(), None);
        log.push("b".into(), None);
        assert_eq!(log.next(0).await, Some(next(1, "a", false)));
        assert_eq!(log.next(1).await, Some(next(2, "b", false)));
        log.complete("c".into(), None);
        log.push("late".into(), None);
        assert_eq!(log.next(2).await, Some(next(3, "c", true)));
        assert_eq!(log.next(0).await, Some(next(1, "a", false)), "a second reader");
        assert_eq!(log.next(3).await, None);
        assert_eq!(log.next(u64::MAX).await, None);
    }

    #[tokio::test]
    async fn a_reader_waits_for_the_next_event() {
        let log = Arc::new(EventLog::new(1));
        let mut waiting = pin!(log.next(0));
        assert!(waiting.as_mut().now_or_never().is_none());
        log.complete("a".into(), None);
        assert_eq!(waiting.await, Some(next(1, "a", true)));
        let log = EventLog::new(2);
        let mut waiting = pin!(log.next(0));
        assert!(waiting.as_mut().now_or_never().is_none());
        log.abandon();
        assert_eq!(waiting.await, None);
    }

    #[tokio::test]
    async fn the_oldest_events_are_dropped_and_the_response_is_kept() {
        let log = EventLog::new(1);
        for n in 0..KEPT_EVENTS * 2 {
            log.push(n.to_string(), None);
        }
        log.complete("end".into(), None);
        assert_eq!(log.next(0).await.map(|next| next.number), Some(KEPT_EVENTS as u64 + 2));
        let last = KEPT_EVENTS as u64 * 2;
        assert_eq!(log.next(last).await, Some(next(last + 1, "end", true)));
    }
}
