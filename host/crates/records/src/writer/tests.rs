use std::sync::atomic::Ordering;

use arc_swap::ArcSwapOption;

use super::*;
use crate::{
    audit_log::SignedLines,
    event::{RecordEvent, TimedAct},
    metrics::{CheckpointMetrics, LogMetrics},
    queue::{QueueLimits, WriteReceipt},
    testing::MemoryLogs,
};
use airlock_core::act::{Act, ActKind, Actor};

const LIMITS: QueueLimits = QueueLimits {
    events: 64,
    bytes: 1 << 20,
    batch: 8,
    gather: Duration::from_millis(1),
    of_caller: 100,
};

/// The writer of an audit log that is signed after each batch.
struct TestWriter {
    queue: Arc<EventQueue>,
    logs: MemoryLogs,
    checkpoints: CheckpointMetrics,
    thread: Option<JoinHandle<()>>,
}

impl TestWriter {
    fn new() -> Self {
        let logs = MemoryLogs::default();
        let queue = Arc::new(EventQueue::new(LIMITS, LogMetrics::default()));
        let checkpoints = CheckpointMetrics::default();
        let lines = SignedLines::new(
            logs.opener(),
            Duration::ZERO,
            checkpoints.clone(),
            Arc::new(ArcSwapOption::empty()),
        );
        let thread = Some(start(queue.clone(), lines).expect("a thread"));
        Self { queue, logs, checkpoints, thread }
    }

    fn push(&self, object: &str) -> WriteReceipt {
        let act = Act::new(ActKind::ConfigChanged, Actor::Gateway, object);
        let at = std::time::SystemTime::UNIX_EPOCH;
        let event = RecordEvent::Act(Box::new(TimedAct { at, act }));
        self.queue.push_awaited(Arc::new(event)).expect("there is room")
    }

    fn is_written(&self, object: &str) -> bool {
        self.push(object).blocking_recv().expect("it is told")
    }

    /// Writes what is left. Returns the objects of all lines.
    fn end(&mut self) -> Vec<String> {
        self.queue.close();
        self.thread.take().expect("it runs").join().expect("it does not panic");
        self.logs.texts("object")
    }
}

#[test]
fn each_event_that_was_acknowledged_is_in_the_log_once() {
    let mut writer = TestWriter::new();
    for number in 0..50 {
        assert!(writer.is_written(&number.to_string()));
    }
    let expected: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(writer.end(), expected);
    assert!(writer.logs.0.checkpoints.load(Ordering::SeqCst) > 0);
    assert_eq!(writer.queue.metrics.written.get(), 50);
    assert_eq!(writer.queue.metrics.waiting.get(), 0);
}

#[test]
fn an_event_whose_log_fails_is_refused_and_written_once_the_log_works_again() {
    let mut writer = TestWriter::new();
    assert!(writer.is_written("before"));
    writer.logs.fail(true);
    assert!(!writer.is_written("during"));
    assert!(writer.queue.is_failing());
    assert!(!writer.is_written("also during"), "those that come later are told too");
    writer.logs.fail(false);
    let after = writer.push("after");
    // It is told at the next attempt: of its own batch, or of that before it.
    let _ = after.blocking_recv();
    assert_eq!(writer.end(), ["before", "during", "also during", "after"]);
    assert!(writer.logs.0.opened.load(Ordering::SeqCst) > 1, "it is opened again");
    assert!(!writer.queue.is_failing());
}

#[test]
fn a_checkpoint_that_fails_refuses_no_event_and_is_tried_again() {
    let mut writer = TestWriter::new();
    writer.logs.0.checkpoints_fail.store(true, Ordering::SeqCst);
    assert!(writer.is_written("first"));
    while writer.checkpoints.failed.get() < 2 {
        thread::yield_now();
    }
    assert!(!writer.queue.is_failing());
    assert!(writer.is_written("second"));
    assert_eq!(writer.checkpoints.unsigned.get(), 2);
    writer.logs.0.checkpoints_fail.store(false, Ordering::SeqCst);
    while writer.checkpoints.unsigned.get() > 0 {
        thread::yield_now();
    }
    assert_eq!(writer.end(), ["first", "second"]);
    assert_eq!(writer.logs.0.opened.load(Ordering::SeqCst), 1, "the log stays open");
    assert_eq!(writer.queue.metrics.failures.get(), 0);
}

#[test]
fn the_last_events_are_given_up_after_some_attempts_once_the_gateway_stops() {
    let mut writer = TestWriter::new();
    writer.logs.fail(true);
    assert!(!writer.is_written("never"));
    assert_eq!(writer.end(), Vec::<String>::new());
    assert_eq!(writer.queue.metrics.lost.get(), 1);
    assert_eq!(writer.queue.metrics.waiting.get(), 0);
}
