//! The events of one stream of the legacy era, kept so that a client that lost the connection can
//! resume the stream (2025-11-25, section "Resumability and Redelivery").

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use airlock_core::memory::Charge;

/// The most events that are kept of one stream. The oldest are dropped, and never the last: it is
/// the response.
const KEPT_EVENTS: usize = 64;

/// Events of one request: what precedes its response, and the response.
pub struct EventLog {
    /// Number of the stream within its session.
    pub(crate) stream: u64,
    state: Mutex<LogState>,
    changed: Notify,
    /// Cancelled when the session keeps the events no longer.
    dropped: CancellationToken,
}

#[derive(Default)]
struct LogState {
    events: VecDeque<LoggedEvent>,
    /// Number of the next event. The first event has 1; 0 is the beginning of the stream.
    next: u64,
    is_complete: bool,
    /// Number of the reader. An earlier one gets no more events.
    reader: u64,
    transport: Transport,
}

/// Form in which the client receives the response.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Transport {
    /// Not decided yet.
    #[default]
    Undecided,
    /// Whole, or not at all: nothing can be resumed.
    Whole,
    /// As a stream, which the client may lose.
    Streamed,
}

struct LoggedEvent {
    number: u64,
    /// Not an `Arc<str>`, which would copy the text.
    text: Arc<String>,
    /// Memory of the event. Released with it.
    _held: Option<Charge>,
}

/// The next event of a stream.
#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    /// Number of the event, for `Last-Event-ID`.
    pub number: u64,
    /// The message.
    pub text: Arc<String>,
    /// True if it is the response, and nothing follows.
    pub is_last: bool,
}

/// The one reader of a stream. A later reader ends it.
pub struct EventReader {
    log: Arc<EventLog>,
    number: u64,
    /// Number of the last event that was read.
    read: u64,
}

impl EventLog {
    /// Creates the events of a stream. `dropped` is cancelled when its session keeps them no longer.
    pub(crate) fn new(stream: u64, dropped: CancellationToken) -> Self {
        let state = LogState { next: 1, ..LogState::default() };
        Self { stream, state: Mutex::new(state), changed: Notify::new(), dropped }
    }

    /// Token that is cancelled when the session keeps the events no longer.
    pub(crate) fn dropped(&self) -> &CancellationToken {
        &self.dropped
    }

    /// Begins to read after event number `read`. An earlier reader ends, so that a stream takes the
    /// memory of one reader however often it is resumed.
    pub fn reader(self: &Arc<Self>, read: u64) -> EventReader {
        let mut state = self.state();
        state.reader += 1;
        let number = state.reader;
        drop(state);
        self.changed.notify_waiters();
        EventReader { log: self.clone(), number, read }
    }

    /// Adds a message that precedes the response.
    pub(crate) fn push(&self, text: String, held: Option<Charge>) {
        self.add(text, held, false);
    }

    /// Adds the response.
    pub(crate) fn complete(&self, text: String, held: Option<Charge>) {
        self.add(text, held, true);
    }

    fn add(&self, text: String, held: Option<Charge>, is_complete: bool) {
        let mut state = self.state();
        if state.is_complete {
            return;
        }
        if state.events.len() >= KEPT_EVENTS {
            state.events.pop_front();
        }
        let number = state.next;
        state.events.push_back(LoggedEvent { number, text: Arc::new(text), _held: held });
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

    /// Returns whether the client receives the events as a stream, which it may lose.
    pub(crate) fn has_stream(&self) -> bool {
        self.state().transport == Transport::Streamed
    }

    /// Returns whether no event will be added.
    pub(crate) fn is_complete(&self) -> bool {
        self.state().is_complete
    }

    /// Bytes of the kept events.
    pub(crate) fn bytes(&self) -> usize {
        self.state().events.iter().map(|event| event.text.len()).sum()
    }

    fn decide(&self, transport: Transport) {
        let mut state = self.state();
        if state.transport == Transport::Undecided {
            state.transport = transport;
        }
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }
}

impl LogState {
    /// Returns the first kept event after number `read`; `None` if there is none yet.
    fn after(&self, read: u64) -> Option<Next> {
        let event = self.events.iter().find(|event| event.number > read)?;
        let is_last = self.is_complete && event.number + 1 == self.next;
        Some(Next { number: event.number, text: event.text.clone(), is_last })
    }
}

impl EventReader {
    /// Number of the stream.
    pub fn stream(&self) -> u64 {
        self.log.stream
    }

    /// Notes that the client receives the events as a stream. Without it, nothing is kept after the
    /// reader is dropped.
    pub fn begin_stream(&self) {
        self.log.decide(Transport::Streamed);
    }

    /// Returns whether there is a next event.
    pub(crate) fn has_next(&self) -> bool {
        self.log.state().after(self.read).is_some()
    }

    /// Returns the next event; `None` if none will come, or if there is a later reader. Dropping the
    /// future loses nothing.
    pub async fn next(&mut self) -> Option<Next> {
        let next = self.peek().await?;
        self.read = next.number;
        Some(next)
    }

    /// Returns the next event like [`Self::next`], and does not take it.
    pub async fn peek(&self) -> Option<Next> {
        loop {
            let changed = self.log.changed.notified();
            {
                let state = self.log.state();
                if state.reader != self.number {
                    return None;
                }
                let next = state.after(self.read);
                if next.is_some() || state.is_complete {
                    return next;
                }
            }
            changed.await;
        }
    }

    /// Waits for the response; `None` if there is none. What precedes it is dropped.
    pub async fn response(&mut self) -> Option<Arc<String>> {
        while let Some(next) = self.next().await {
            if next.is_last {
                return Some(next.text);
            }
        }
        None
    }
}

impl Drop for EventReader {
    fn drop(&mut self) {
        self.log.decide(Transport::Whole);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::FutureExt as _;

    use super::*;

    fn log() -> Arc<EventLog> {
        Arc::new(EventLog::new(1, CancellationToken::new()))
    }

    fn next(number: u64, text: &str, is_last: bool) -> Next {
        Next { number, text: Arc::new(text.to_owned()), is_last }
    }

    #[tokio::test]
    async fn a_reader_goes_on_after_any_event_and_ends_with_the_response() {
        let log = log();
        log.push("a".into(), None);
        log.push("b".into(), None);
        let mut reader = log.reader(0);
        assert_eq!(reader.next().await, Some(next(1, "a", false)));
        assert_eq!(reader.next().await, Some(next(2, "b", false)));
        log.complete("c".into(), None);
        log.push("late".into(), None);
        assert_eq!(reader.next().await, Some(next(3, "c", true)));
        assert_eq!(reader.next().await, None);
        assert_eq!(log.reader(1).next().await, Some(next(2, "b", false)));
        assert_eq!(log.reader(u64::MAX).next().await, None);
        let response = log.reader(0).response().await.expect("it is complete");
        assert_eq!(*response, "c");
    }

    #[tokio::test]
    async fn a_reader_waits_for_the_next_event() {
        for is_complete in [true, false] {
            let log = log();
            let mut reader = log.reader(0);
            let mut waiting = pin!(reader.next());
            assert!(waiting.as_mut().now_or_never().is_none());
            let expected = if is_complete {
                log.complete("a".into(), None);
                Some(next(1, "a", true))
            } else {
                log.abandon();
                None
            };
            assert_eq!(waiting.await, expected);
        }
    }

    #[tokio::test]
    async fn a_later_reader_ends_the_earlier_one() {
        let log = log();
        let first = log.reader(0);
        let mut waiting = pin!(first.peek());
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut second = log.reader(0);
        assert_eq!(waiting.await, None);
        log.complete("a".into(), None);
        assert_eq!(first.peek().await, None);
        assert_eq!(second.next().await, Some(next(1, "a", true)));
    }

    #[tokio::test]
    async fn the_oldest_events_are_dropped_and_the_response_is_kept() {
        let log = log();
        for n in 0..KEPT_EVENTS * 2 {
            log.push(n.to_string(), None);
        }
        log.complete("end".into(), None);
        let first = log.reader(0).next().await;
        assert_eq!(first.map(|next| next.number), Some(KEPT_EVENTS as u64 + 2));
        let last = KEPT_EVENTS as u64 * 2;
        assert_eq!(log.reader(last).next().await, Some(next(last + 1, "end", true)));
    }

    #[test]
    fn the_first_reader_decides_whether_there_is_a_stream_to_resume() {
        let log = log();
        let reader = log.reader(0);
        assert!(!log.has_stream());
        reader.begin_stream();
        drop(reader);
        drop(log.reader(0));
        assert!(log.has_stream());
        let log = Arc::new(EventLog::new(2, CancellationToken::new()));
        let reader = log.reader(0);
        drop(log.reader(0));
        reader.begin_stream();
        assert!(!log.has_stream());
    }
}
