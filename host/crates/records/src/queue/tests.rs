use std::thread;

use super::*;
use crate::{event::TimedAct, testing::refused};
use airlock_core::{
    act::{Act, ActKind, Actor},
    tenant::Tenant,
};

const SMALL: QueueLimits = QueueLimits {
    events: 16,
    bytes: 1 << 20,
    batch: 4,
    gather: Duration::from_millis(1),
    of_caller: 100,
};

fn queue() -> EventQueue {
    EventQueue::new(SMALL, LogMetrics::default())
}

fn lost(count: u64) -> Arc<RecordEvent> {
    Arc::new(RecordEvent::Lost(LostEvents { until: SystemTime::UNIX_EPOCH, count }))
}

fn act() -> Arc<RecordEvent> {
    let act = Act::new(ActKind::GatewayStarted, Actor::Gateway, "b");
    Arc::new(RecordEvent::Act(Box::new(TimedAct { at: SystemTime::UNIX_EPOCH, act })))
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[test]
fn events_are_taken_in_order_and_in_batches() {
    let queue = queue();
    for count in 0..6 {
        queue.push(lost(count)).expect("there is room");
    }
    let first = queue.take(soon()).expect("open");
    let counts = first.iter().map(|entry| match &*entry.event {
        RecordEvent::Lost(lost) => lost.count,
        _ => panic!("another event"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(queue.take(soon()).expect("open").len(), 2);
    assert!(queue.take(Instant::now()).expect("open").is_empty());
}

#[test]
fn a_batch_has_bounded_bytes_and_at_least_one_event() {
    let entries = [BATCH_BYTES + 1, 1, BATCH_BYTES - 1, 1];
    let entries = entries.map(|bytes| QueuedEvent { event: lost(0), bytes, waiter: None });
    let mut entries = VecDeque::from(entries);
    for expected in [1, 2, 1, 0] {
        let count = batch_len(&entries, 4);
        assert_eq!(count, expected);
        entries.drain(..count);
    }
}

#[test]
fn events_beyond_the_bound_are_counted_and_acts_have_room_of_their_own() {
    let queue = queue();
    let mut refused = 0;
    while refused < 3 {
        refused += u32::from(queue.push(lost(0)).is_err());
    }
    assert_eq!(queue.metrics.waiting.get(), 12, "two eighths are kept");
    assert!(queue.push_awaited(lost(0)).is_err());
    queue.push(act()).expect("acts have room");
    let mut taken = Vec::new();
    while taken.len() < 14 {
        taken.extend(queue.take(soon()).expect("open"));
    }
    let counted = taken.iter().find_map(|entry| match *entry.event {
        RecordEvent::Lost(LostEvents { count, until }) if until != SystemTime::UNIX_EPOCH => {
            Some(count)
        }
        _ => None,
    });
    assert_eq!(counted, Some(3), "one that is awaited is not lost: its caller knows");
    assert!(queue.push(lost(0)).is_err(), "what is being written counts");
    queue.settle(13, taken.iter().map(|entry| entry.bytes).sum());
    assert_eq!(queue.state.lock().bytes, 0, "their bytes are free");
    queue.push(lost(0)).expect("there is room again");
}

#[test]
fn refusals_leave_room_to_calls_that_are_made() {
    let refused = Arc::new(refused(Tenant::ANONYMOUS));
    let queue = queue();
    while queue.push(refused.clone()).is_ok() {}
    queue.push_awaited(lost(0)).expect("a call has room");
}

#[test]
fn refusals_of_one_caller_beyond_the_bound_are_one_event() {
    let limits = QueueLimits { of_caller: 2, ..SMALL };
    let queue = EventQueue::new(limits, LogMetrics::default());
    for _ in 0..5 {
        queue.push(Arc::new(refused(Tenant::ANONYMOUS))).expect("it is recorded or counted");
    }
    assert_eq!((queue.metrics.waiting.get(), queue.metrics.counted.get()), (2, 3));
    assert_eq!(queue.take(soon()).expect("open").len(), 2, "the minute is not over");
    queue.close();
    let last = queue.take(soon()).expect("it has the others");
    let counts = last.iter().map(|entry| match &*entry.event {
        RecordEvent::Counted(counted) => counted.count,
        _ => panic!("another event"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [3]);
    assert!(queue.take(soon()).is_none());
    assert_eq!(queue.metrics.lost.get(), 0);
}

#[test]
fn results_leave_half_of_the_room_to_admissions() {
    let queue = queue();
    assert!(queue.has_room(SMALL.bytes / 2));
    assert!(!queue.has_room(SMALL.bytes / 2 + 1));
    queue.push(lost(0)).expect("there is room");
    assert!(!queue.has_room(SMALL.bytes / 2));
}

#[test]
fn an_event_that_is_awaited_is_taken_at_once_and_its_caller_learns_of_a_failure() {
    let limits = QueueLimits { gather: Duration::from_hours(1), ..SMALL };
    let queue = Arc::new(EventQueue::new(limits, LogMetrics::default()));
    let taking = queue.clone();
    let taken = thread::spawn(move || taking.take(soon()));
    let mut written = queue.push_awaited(lost(1)).expect("there is room");
    let mut batch = taken.join().expect("it ends").expect("open");
    batch.remove(0).waiter.take().expect("it is awaited").send(true).expect("it waits");
    assert_eq!(written.try_recv(), Ok(true));
    let mut later = queue.push_awaited(lost(2)).expect("there is room");
    queue.fail_waiters();
    assert_eq!(later.try_recv(), Ok(false));
    queue.close();
    assert_eq!(queue.take(soon()).map(|batch| batch.len()), Some(1), "it stays");
}

#[test]
fn a_closed_queue_is_emptied_and_takes_nothing_more() {
    let queue = queue();
    queue.push(lost(1)).expect("there is room");
    queue.close();
    assert!(queue.push_awaited(lost(2)).is_err());
    assert_eq!(queue.take(soon()).map(|batch| batch.len()), Some(1));
    assert!(queue.take(soon()).is_none());
    assert!(queue.wait_closed(Duration::from_hours(1)));
}
