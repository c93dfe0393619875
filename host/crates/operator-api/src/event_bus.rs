//! Events of the gateway for its operators: a ring of the latest ones of each topic, which streams read.
//!
//! A stream has a position and no queue of its own, so one that is read slowly takes no memory: if the ring of a topic
//! has gone on without it, it learns that it has missed events of that topic. Many events of one topic evict none of
//! another. Events have identifiers and small summaries; their numbers grow over all topics.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering, fence},
    },
};

use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;
use uuid::Uuid;

/// Events of one topic that are kept.
const KEPT: usize = 1_000;
/// Events that a stream reads at once.
const AT_ONCE: usize = 64;
/// Maximum bytes of the data of an event. With it, the events that are kept of the five topics take
/// 20 MB. One that has more has only its topic.
const MAX_DATA_BYTES: usize = 4 << 10;
/// Maximum streams of one operator: each holds a connection.
pub(super) const MAX_STREAMS: usize = 8;

airlock_strings::named_enum! {
    /// Subject of an event. The names are those in a query, and the types of events.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Topic {
        /// Calls that wait for an approval, and decisions about them.
        Approvals = "approvals",
        /// Calls that begin and end.
        Calls = "calls",
        /// Sources of tools.
        Upstreams = "upstreams",
        /// Runs of scripts.
        Runs = "runs",
        /// The settings of operators.
        Config = "config",
    }
}

/// The latest events of a gateway.
pub struct EventBus {
    /// Distinguishes the events of this start of this gateway from all others.
    start: String,
    rings: Mutex<Rings>,
    /// Topics of which events were published while there was no stream, and are not in `rings` yet. Set by the first of
    /// them and only read by the others: calls on all threads publish two events each.
    unheard: [AtomicBool; Topic::ALL.len()],
    /// Number of the latest event.
    published: watch::Sender<u64>,
    /// Open streams by the name of their operators.
    streams: Mutex<BTreeMap<String, usize>>,
}

#[derive(Default)]
struct Rings {
    /// Number of events so far, which is the number of the latest one. Those of one topic that are not kept, because
    /// there was no stream, count as one.
    latest: u64,
    /// By the number of the topic.
    topics: [Ring; Topic::ALL.len()],
}

/// The latest events of one topic.
#[derive(Default)]
struct Ring {
    /// Number of the latest event that is not kept; 0 if all are.
    lost: u64,
    /// The latest events with their numbers.
    events: VecDeque<(u64, Arc<str>)>,
}

/// Position of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamPosition {
    /// Number of the last event that was read.
    pub(super) number: u64,
    /// Numbers up to which events of each topic are not read, because the stream has learned that it misses some.
    skipped: [u64; Topic::ALL.len()],
}

impl StreamPosition {
    /// Creates the position of a stream that has read the event with this number.
    pub(super) fn after(number: u64) -> Self {
        Self { number, skipped: [0; Topic::ALL.len()] }
    }

    /// Returns the number after which events of a topic are read.
    fn of_topic(&self, topic: Topic) -> u64 {
        self.number.max(self.skipped[topic as usize])
    }
}

impl Rings {
    /// Adds an event. Without data, it is not kept, and neither are those of its topic before it.
    fn add(&mut self, topic: Topic, data: Option<Arc<str>>) {
        self.latest += 1;
        let ring = &mut self.topics[topic as usize];
        let Some(data) = data else {
            ring.events.clear();
            ring.lost = self.latest;
            return;
        };
        if ring.events.len() == KEPT
            && let Some((number, _)) = ring.events.pop_front()
        {
            ring.lost = number;
        }
        ring.events.push_back((self.latest, data));
    }

    /// Returns those of some topics of which a stream has missed events.
    fn missed(&self, position: &StreamPosition, topics: &[Topic]) -> Vec<Topic> {
        let wanted = Topic::ALL.into_iter().filter(|topic| topics.contains(topic));
        wanted
            .filter(|topic| self.topics[*topic as usize].lost > position.of_topic(*topic))
            .collect()
    }

    /// Returns the first events of some topics after a position, at most [`AT_ONCE`], in their order.
    fn after(&self, position: &StreamPosition, topics: &[Topic]) -> Vec<(u64, Topic, Arc<str>)> {
        let mut found = Vec::new();
        for topic in Topic::ALL.into_iter().filter(|topic| topics.contains(topic)) {
            let events = &self.topics[topic as usize].events;
            let read = position.of_topic(topic);
            let first = events.partition_point(|(number, _)| *number <= read);
            let next = events.range(first..).take(AT_ONCE);
            found.extend(next.map(|(number, data)| (*number, topic, data.clone())));
        }
        found.sort_unstable_by_key(|(number, ..)| *number);
        found.truncate(AT_ONCE);
        found
    }
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
            rings: Mutex::default(),
            unheard: Default::default(),
            published: watch::Sender::new(0),
            streams: Mutex::default(),
        })
    }

    /// Publishes an event. `data` is not called while no operator has a stream: one that resumes later learns that
    /// it has missed events.
    pub fn publish(&self, topic: Topic, data: impl FnOnce() -> Value) {
        // Together with the fence of `follow`: either the new stream is seen here, or its operator, who reads everything
        // once it has begun, sees the change that this event is about. No lock orders the two.
        fence(Ordering::SeqCst);
        if self.published.is_closed() {
            let unheard = &self.unheard[topic as usize];
            if !unheard.load(Ordering::Relaxed) {
                unheard.store(true, Ordering::Release);
            }
            return;
        }
        let mut data = data().to_string();
        if data.len() > MAX_DATA_BYTES {
            "{}".clone_into(&mut data);
        }
        let mut rings = self.rings();
        rings.add(topic, Some(data.into()));
        // Inside the lock, so that the numbers only grow.
        self.published.send_replace(rings.latest);
    }

    /// Locks the rings, after the events without a stream were added.
    fn rings(&self) -> MutexGuard<'_, Rings> {
        let mut rings = self.rings.lock();
        for topic in Topic::ALL {
            if self.unheard[topic as usize].swap(false, Ordering::AcqRel) {
                rings.add(topic, None);
            }
        }
        rings
    }

    /// Returns the number of the latest event, and a receiver that learns of further ones.
    pub(super) fn follow(&self) -> (u64, watch::Receiver<u64>) {
        let followed = self.published.subscribe();
        let latest = self.rings().latest;
        fence(Ordering::SeqCst);
        (latest, followed)
    }

    /// Returns the position that an identifier names; `None` if it is of another start, or no identifier.
    pub(super) fn position(&self, id: &str) -> Option<u64> {
        let (start, number) = id.split_once('-')?;
        let number: u64 = number.parse().ok()?;
        let is_own = start == self.start && number <= self.rings().latest;
        is_own.then_some(number)
    }

    /// Returns the identifier of a position.
    pub(super) fn id(&self, position: u64) -> String {
        format!("{}-{position}", self.start)
    }

    /// Returns whether events of some topics after a position are not kept.
    pub(super) fn has_lost(&self, position: &StreamPosition, topics: &[Topic]) -> bool {
        !self.rings().missed(position, topics).is_empty()
    }

    /// Returns the events of some topics after a position, and moves it behind them. One event `resync` is in the
    /// place of all events of the topics of which some are not kept any more.
    pub(super) fn read(&self, position: &mut StreamPosition, topics: &[Topic]) -> EventBatch {
        let (missed, found) = {
            let rings = self.rings();
            let missed = rings.missed(position, topics);
            for topic in &missed {
                position.skipped[*topic as usize] = rings.latest;
            }
            let found = rings.after(position, topics);
            let last = found.last().map(|(number, ..)| *number);
            position.number = last.filter(|_| found.len() == AT_ONCE).unwrap_or(rings.latest);
            (missed, found)
        };
        let mut text = String::new();
        for (number, topic, data) in found {
            text.push_str(&self.event(number, topic.name(), &data));
        }
        if !missed.is_empty() {
            text.push_str(&self.resync(position.number, &missed));
        }
        if text.is_empty() { EventBatch::Nothing } else { EventBatch::Text(text) }
    }

    /// Returns the event after which the client loads everything about some topics again.
    pub(super) fn resync(&self, position: u64, topics: &[Topic]) -> String {
        let topics: Vec<_> = topics.iter().map(|topic| topic.name()).collect();
        self.event(position, "resync", &json!({"topics": topics}).to_string())
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

airlock_strings::debug_fields!(EventBus {});

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

    /// Returns the position of a new stream, and the receiver that makes the bus keep events.
    fn follow(bus: &EventBus) -> (StreamPosition, watch::Receiver<u64>) {
        let (latest, followed) = bus.follow();
        (StreamPosition::after(latest), followed)
    }

    /// Returns the position after the event with this identifier.
    fn resumed(bus: &EventBus, id: &str) -> StreamPosition {
        StreamPosition::after(bus.position(id).expect("it is of this start"))
    }

    #[test]
    fn a_stream_reads_the_events_of_its_topics_in_their_order_and_resumes_after_any_of_them() {
        let bus = EventBus::new();
        let (mut position, _followed) = follow(&bus);
        publish(&bus, Topic::Calls, 1);
        publish(&bus, Topic::Runs, 2);
        publish(&bus, Topic::Approvals, 3);
        publish(&bus, Topic::Calls, 4);
        let topics = [Topic::Calls, Topic::Approvals];
        let expected = [
            bus.event(1, "calls", r#"{"n":1}"#),
            bus.event(3, "approvals", r#"{"n":3}"#),
            bus.event(4, "calls", r#"{"n":4}"#),
        ];
        assert_eq!(text(bus.read(&mut position, &topics)), expected.concat());
        assert_eq!((position.number, bus.read(&mut position, &topics)), (4, EventBatch::Nothing));
        let mut again = resumed(&bus, &bus.id(1));
        assert_eq!(text(bus.read(&mut again, &topics)), expected[1..].concat());
    }

    #[test]
    fn a_stream_that_is_too_far_behind_gets_one_resync_and_goes_on() {
        let bus = EventBus::new();
        let (mut position, _followed) = follow(&bus);
        for number in 0..=KEPT {
            publish(&bus, Topic::Calls, number);
        }
        let mut at_edge = StreamPosition::after(1);
        let latest = KEPT as u64 + 1;
        let topics = Topic::ALL;
        assert_eq!(text(bus.read(&mut position, &topics)), bus.resync(latest, &[Topic::Calls]));
        assert_eq!(bus.read(&mut position, &topics), EventBatch::Nothing);
        assert!(text(bus.read(&mut at_edge, &topics)).starts_with(&bus.event(
            2,
            "calls",
            r#"{"n":1}"#
        )));
        assert_eq!(at_edge.number, 1 + AT_ONCE as u64, "a batch is bounded");
        publish(&bus, Topic::Calls, 7);
        let last = bus.event(latest + 1, "calls", r#"{"n":7}"#);
        assert_eq!(text(bus.read(&mut position, &topics)), last);
    }

    #[test]
    fn events_of_other_topics_are_skipped_however_many_there_are() {
        let bus = EventBus::new();
        let (mut position, _followed) = follow(&bus);
        for number in 0..KEPT * 3 {
            publish(&bus, Topic::Calls, number);
        }
        publish(&bus, Topic::Runs, 1);
        let found = text(bus.read(&mut position, &[Topic::Runs]));
        assert_eq!(found, bus.event(KEPT as u64 * 3 + 1, "runs", r#"{"n":1}"#));
    }

    #[test]
    fn a_flood_of_calls_evicts_no_approval_and_only_the_calls_are_loaded_again() {
        let bus = EventBus::new();
        let (start, _followed) = follow(&bus);
        for number in 0..=AT_ONCE {
            publish(&bus, Topic::Approvals, number);
        }
        for number in 0..=KEPT {
            publish(&bus, Topic::Calls, number);
        }
        let topics = [Topic::Approvals, Topic::Calls];
        assert!(bus.has_lost(&start, &topics) && !bus.has_lost(&start, &[Topic::Approvals]));
        let mut position = start;
        let first = text(bus.read(&mut position, &topics));
        assert_eq!(first.matches("event: approvals\n").count(), AT_ONCE);
        assert!(first.ends_with(&bus.resync(AT_ONCE as u64, &[Topic::Calls])), "{first}");
        let last = AT_ONCE as u64 + 1;
        let data = json!({"n": AT_ONCE}).to_string();
        let second = text(bus.read(&mut position, &topics));
        assert_eq!(second, bus.event(last, "approvals", &data), "one resync is enough");
        assert_eq!(bus.read(&mut position, &topics), EventBatch::Nothing);
        let mut approvals = resumed(&bus, &bus.id(AT_ONCE as u64));
        assert_eq!(text(bus.read(&mut approvals, &[Topic::Approvals])), second);
    }

    #[test]
    fn nothing_is_written_without_streams_and_one_that_comes_back_learns_of_the_gap() {
        let bus = EventBus::new();
        let (position, followed) = bus.follow();
        publish(&bus, Topic::Runs, 1);
        drop(followed);
        let mut is_called = false;
        bus.publish(Topic::Calls, || {
            is_called = true;
            Value::Null
        });
        assert!(!is_called);
        let mut again = resumed(&bus, &bus.id(position));
        let found = text(bus.read(&mut again, &Topic::ALL));
        let kept = bus.event(1, "runs", r#"{"n":1}"#);
        assert_eq!(found, kept + &bus.resync(2, &[Topic::Calls]));
    }

    #[test]
    fn an_event_without_a_stream_takes_no_lock_and_precedes_the_next_one_with_a_stream() {
        let bus = EventBus::new();
        // It would wait for this lock for ever.
        let held = bus.rings.lock();
        publish(&bus, Topic::Calls, 1);
        publish(&bus, Topic::Calls, 2);
        drop(held);
        let (mut position, _followed) = follow(&bus);
        publish(&bus, Topic::Calls, 3);
        let third = bus.event(2, "calls", r#"{"n":3}"#);
        assert_eq!(text(bus.read(&mut position, &Topic::ALL)), third, "the others are one event");
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
        let (mut position, _followed) = follow(&bus);
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
