//! Events of the gateway for its operators: a ring of the latest ones, which streams read.
//!
//! A stream has a position and no queue of its own, so one that is read slowly takes no memory: if the ring has gone
//! on without it, it learns that it has missed events. Events have identifiers and small summaries.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use uuid::Uuid;

/// Events that are kept.
const KEPT: usize = 1_000;
/// Events that a stream reads at once.
const AT_ONCE: usize = 64;
/// Maximum bytes of the data of an event. One that has more has only its topic.
const MAX_DATA_BYTES: usize = 4 << 10;
/// Maximum streams of one operator.
pub(super) const MAX_STREAMS: usize = 8;

/// Subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Topic {
    /// Calls that wait for an approval, and decisions about them.
    Approvals,
    /// Calls that begin and end.
    Calls,
    /// Sources of tools.
    Upstreams,
    /// Runs of scripts.
    Runs,
    /// The settings of operators.
    Config,
}

impl Topic {
    /// All topics.
    pub const ALL: [Self; 5] =
        [Self::Approvals, Self::Calls, Self::Upstreams, Self::Runs, Self::Config];

    /// Returns the name of the topic in a query and as the type of its events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Approvals => "approvals",
            Self::Calls => "calls",
            Self::Upstreams => "upstreams",
            Self::Runs => "runs",
            Self::Config => "config",
        }
    }
}

/// The latest events of a gateway.
pub struct EventBus {
    /// Distinguishes the events of this start of this gateway from all others.
    start: String,
    ring: Mutex<Ring>,
    /// Number of the latest event.
    published: watch::Sender<u64>,
    /// Open streams by the name of their operators.
    streams: Mutex<BTreeMap<String, usize>>,
}

#[derive(Default)]
struct Ring {
    /// Number of events so far, which is the number of the latest one.
    latest: u64,
    /// The latest events.
    events: VecDeque<(Topic, Arc<str>)>,
}

/// Events that a stream reads at once.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventBatch {
    /// Text for the stream.
    Text(String),
    /// Nothing has happened.
    Nothing,
}

impl EventBus {
    /// Creates a bus without events.
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            start: Uuid::new_v4().simple().to_string(),
            ring: Mutex::default(),
            published: watch::Sender::new(0),
            streams: Mutex::default(),
        })
    }

    /// Publishes an event. `data` is not called while no operator has a stream: one that resumes later learns that
    /// it has missed events.
    pub fn publish(&self, topic: Topic, data: impl FnOnce() -> Value) {
        if self.published.is_closed() {
            let mut ring = self.ring.lock();
            ring.latest += 1;
            ring.events.clear();
            return;
        }
        let mut data = data().to_string();
        if data.len() > MAX_DATA_BYTES {
            "{}".clone_into(&mut data);
        }
        let mut ring = self.ring.lock();
        ring.latest += 1;
        if ring.events.len() == KEPT {
            ring.events.pop_front();
        }
        ring.events.push_back((topic, data.into()));
        // Inside the lock, so that the numbers only grow.
        self.published.send_replace(ring.latest);
    }

    /// Returns the number of the latest event, and a receiver that learns of further ones.
    pub(super) fn follow(&self) -> (u64, watch::Receiver<u64>) {
        let followed = self.published.subscribe();
        (self.ring.lock().latest, followed)
    }

    /// Returns the position that an identifier names; `None` if it is of another start, or no identifier.
    pub(super) fn position(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let is_own = start == self.start && number <= self.ring.lock().latest;
        is_own.then_some(number)
    }

    /// Returns the identifier of a position.
    pub(super) fn id(&self, position: u64) -> String {
        format!("{}-{position}", self.start)
    }

    /// Returns the events of some topics after a position, and moves it behind them. If they are not kept any more,
    /// there is one event `resync` in their place.
    pub(super) fn read(&self, position: &mut u64, topics: &[Topic]) -> EventBatch {
        let (found, latest) = {
            let ring = self.ring.lock();
            let behind = ring.latest.saturating_sub(*position);
            let behind = usize::try_from(behind).unwrap_or(usize::MAX);
            let Some(first) = ring.events.len().checked_sub(behind) else {
                *position = ring.latest;
                return EventBatch::Text(self.event(ring.latest, "resync", "{}"));
            };
            let found: Vec<_> = ring.events.range(first..).take(AT_ONCE).cloned().collect();
            (found, ring.latest)
        };
        let mut text = String::new();
        for (topic, data) in found {
            *position += 1;
            if topics.contains(&topic) {
                text.push_str(&self.event(*position, topic.name(), &data));
            }
        }
        if text.is_empty() && *position < latest {
            return self.read(position, topics);
        }
        if text.is_empty() { EventBatch::Nothing } else { EventBatch::Text(text) }
    }

    /// Returns an event as text for a stream. `data` is on one line, as JSON is.
    pub(super) fn event(&self, position: u64, kind: &str, data: &str) -> String {
        format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id(position))
    }

    /// Counts a stream of an operator until the result is dropped; `None` if the operator has too many.
    pub(super) fn open(self: &Arc<Self>, operator: &str) -> Option<OperatorStream> {
        let mut streams = self.streams.lock();
        let count = streams.entry(operator.to_owned()).or_default();
        if *count >= MAX_STREAMS {
            return None;
        }
        *count += 1;
        Some(OperatorStream { bus: self.clone(), operator: operator.to_owned() })
    }
}

impl fmt::Debug for EventBus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBus").finish_non_exhaustive()
    }
}

/// An open stream of an operator.
pub(super) struct OperatorStream {
    bus: Arc<EventBus>,
    operator: String,
}

impl Drop for OperatorStream {
    fn drop(&mut self) {
        let mut streams = self.bus.streams.lock();
        if let Some(count) = streams.get_mut(&self.operator) {
            *count -= 1;
            if *count == 0 {
                streams.remove(&self.operator);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn publish(bus: &EventBus, topic: Topic, number: usize) {
        bus.publish(topic, || json!({"n": number}));
    }

    fn text(batch: EventBatch) -> String {
        match batch {
            EventBatch::Text(text) => text,
            EventBatch::Nothing => String::new(),
        }
    }

    #[test]
    fn a_stream_reads_the_events_of_its_topics_in_their_order_and_resumes_after_any_of_them() {
        let bus = EventBus::new();
        let (mut position, _followed) = bus.follow();
        publish(&bus, Topic::Calls, 1);
        publish(&bus, Topic::Runs, 2);
        publish(&bus, Topic::Calls, 3);
        let calls = [Topic::Calls];
        let expected = [bus.event(1, "calls", r#"{"n":1}"#), bus.event(3, "calls", r#"{"n":3}"#)];
        assert_eq!(text(bus.read(&mut position, &calls)), expected.concat());
        assert_eq!((position, bus.read(&mut position, &calls)), (3, EventBatch::Nothing));
        let mut resumed = bus.position(&bus.id(1)).expect("it is kept");
        assert_eq!(text(bus.read(&mut resumed, &calls)), expected[1]);
    }

    #[test]
    fn a_stream_that_is_too_far_behind_gets_one_resync_and_goes_on() {
        let bus = EventBus::new();
        let (mut position, _followed) = bus.follow();
        for number in 0..=KEPT {
            publish(&bus, Topic::Calls, number);
        }
        let mut at_edge = 1;
        let latest = KEPT as u64 + 1;
        let topics = Topic::ALL;
        assert_eq!(text(bus.read(&mut position, &topics)), bus.event(latest, "resync", "{}"));
        assert_eq!(bus.read(&mut position, &topics), EventBatch::Nothing);
        assert!(text(bus.read(&mut at_edge, &topics)).starts_with(&bus.event(
            2,
            "calls",
            r#"{"n":1}"#
        )));
        assert_eq!(at_edge, 1 + AT_ONCE as u64, "a batch is bounded");
        publish(&bus, Topic::Calls, 7);
        let last = bus.event(latest + 1, "calls", r#"{"n":7}"#);
        assert_eq!(text(bus.read(&mut position, &topics)), last);
    }

    #[test]
    fn events_of_other_topics_are_skipped_however_many_there_are() {
        let bus = EventBus::new();
        let (mut position, _followed) = bus.follow();
        for number in 0..AT_ONCE * 3 {
            publish(&bus, Topic::Calls, number);
        }
        publish(&bus, Topic::Runs, 1);
        let found = text(bus.read(&mut position, &[Topic::Runs]));
        assert_eq!(found, bus.event(AT_ONCE as u64 * 3 + 1, "runs", r#"{"n":1}"#));
    }

    #[test]
    fn nothing_is_written_while_nobody_follows_and_a_stream_that_comes_back_learns_of_the_gap() {
        let bus = EventBus::new();
        let (position, followed) = bus.follow();
        drop(followed);
        let mut is_called = false;
        bus.publish(Topic::Calls, || {
            is_called = true;
            Value::Null
        });
        assert!(!is_called);
        let mut position = bus.position(&bus.id(position)).expect("it is of this start");
        assert_eq!(text(bus.read(&mut position, &Topic::ALL)), bus.event(1, "resync", "{}"));
    }

    #[test]
    fn an_identifier_of_another_start_or_of_no_event_is_unknown() {
        let bus = EventBus::new();
        let other = EventBus::new();
        for id in [&*other.id(0), &*bus.id(1), "", "-", "x-0", "0"] {
            assert_eq!(bus.position(id), None, "{id}");
        }
        assert_eq!(bus.position(&bus.id(0)), Some(0));
    }

    #[test]
    fn long_data_is_left_out() {
        let bus = EventBus::new();
        let (mut position, _followed) = bus.follow();
        bus.publish(Topic::Calls, || json!("x".repeat(MAX_DATA_BYTES)));
        assert_eq!(text(bus.read(&mut position, &Topic::ALL)), bus.event(1, "calls", "{}"));
    }

    #[test]
    fn an_operator_has_a_bounded_number_of_streams_and_others_have_their_own() {
        let bus = EventBus::new();
        let open: Vec<_> = (0..MAX_STREAMS).map_while(|_| bus.open("ann")).collect();
        assert_eq!(open.len(), MAX_STREAMS);
        assert!(bus.open("ann").is_none() && bus.open("bob").is_some());
        drop(open);
        assert!(bus.streams.lock().is_empty());
        assert!(bus.open("ann").is_some());
    }
}
