use super::*;
use crate::{
    event::{LostEvents, TimedAct},
    metrics::LogMetrics,
    queue::QueueLimits,
};
use airlock_core::act::{Act, ActKind, Actor};

const LIMITS: QueueLimits = QueueLimits {
    events: 16,
    bytes: 1 << 20,
    batch: 4,
    gather: Duration::from_millis(1),
    of_caller: 100,
};

/// Returns the queues of two logs: that of the audit log has room for twelve of these events, the other one for six.
fn queues() -> (LogQueues, Arc<EventQueue>, Arc<EventQueue>) {
    let mut logs = LogQueues::default();
    let audit = logs.add_audit(EventQueue::new(LIMITS, LogMetrics::default()));
    let limits = QueueLimits { events: 8, ..LIMITS };
    let calls = logs.add_calls(EventQueue::new(limits, LogMetrics::default()));
    (logs, audit, calls)
}

fn event() -> RecordEvent {
    RecordEvent::Lost(LostEvents { until: std::time::SystemTime::UNIX_EPOCH, count: 1 })
}

fn act() -> RecordEvent {
    let act = Act::new(ActKind::GatewayStarted, Actor::Gateway, "b");
    RecordEvent::Act(Box::new(TimedAct { at: std::time::SystemTime::UNIX_EPOCH, act }))
}

/// Takes an event, and tells its caller whether it is written.
fn settle(queue: &EventQueue, is_written: bool) {
    let mut batch = queue.take(std::time::Instant::now()).expect("open");
    assert_eq!(batch.len(), 1);
    let waiter = batch.remove(0).waiter.take().expect("it is awaited");
    waiter.send(is_written).expect("it waits");
}

#[test]
fn an_act_is_for_the_audit_log_alone() {
    let (logs, audit, calls) = queues();
    logs.push(act()).expect("there is room");
    logs.push(event()).expect("there is room");
    assert_eq!((audit.metrics.waiting.get(), calls.metrics.waiting.get()), (2, 1));
}

#[test]
fn a_log_without_room_loses_events_and_the_other_one_has_them() {
    let (logs, audit, calls) = queues();
    while logs.push(event()).is_ok() {}
    assert_eq!(calls.metrics.lost.get(), 1);
    assert_eq!(audit.metrics.lost.get(), 0);
    assert_eq!(audit.metrics.waiting.get(), calls.metrics.waiting.get() + 1);
}

#[tokio::test]
async fn an_event_is_written_once_it_is_in_each_log() {
    for (audit_works, store_works) in [(true, true), (true, false), (false, true)] {
        let (logs, audit, calls) = queues();
        let pending = logs.push_awaited(event());
        settle(&calls, store_works);
        settle(&audit, audit_works);
        let is_written = pending.written(Duration::from_secs(10)).await;
        assert_eq!(is_written, audit_works && store_works);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_does_not_respond_counts_as_failing() {
    let (logs, audit, calls) = queues();
    let pending = logs.push_awaited(event());
    settle(&audit, true);
    assert!(!pending.written(Duration::from_secs(10)).await);
    assert!(calls.is_failing() && logs.is_failing());
    assert!(!logs.is_audit_failing());
}

#[tokio::test]
async fn an_event_that_one_log_has_no_room_for_is_not_written() {
    let (logs, audit, calls) = queues();
    while logs.push(event()).is_ok() {}
    let pending = logs.push_awaited(event());
    assert!(!pending.is_in_none(), "the audit log has it");
    assert!(!pending.written(Duration::from_secs(10)).await);
    assert_eq!(calls.metrics.lost.get(), 1, "the caller knows of this one");
    logs.close();
    let pending = logs.push_awaited(event());
    assert!(pending.is_in_none());
    assert!(audit.is_closed());
}
