use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::*;
use crate::{
    event::TimedAct,
    metrics::RecordMetrics,
    queue::{QueueLimits, Written},
};
use airlock_core::act::{Act, ActKind};

const LIMITS: QueueLimits =
    QueueLimits { events: 64, bytes: 1 << 20, batch: 8, gather: Duration::from_millis(1) };

/// Logs that can fail.
#[derive(Clone, Default)]
struct TestLogs(Arc<TestState>);

#[derive(Default)]
struct TestState {
    lines: Mutex<Vec<String>>,
    batches: AtomicUsize,
    opened: AtomicUsize,
    checkpoints: AtomicUsize,
    audit_fails: AtomicBool,
    rows_fail: AtomicBool,
}

impl AuditSink for TestLogs {
    fn append(&mut self, lines: &[String]) -> Result<(), Cause> {
        if self.0.audit_fails.load(Ordering::SeqCst) {
            return Err("the disk is full".into());
        }
        self.0.lines.lock().extend_from_slice(lines);
        Ok(())
    }

    fn has_failed(&self) -> bool {
        true
    }

    fn public_key(&self) -> String {
        "test+00000000+".to_owned()
    }

    fn checkpoint(&mut self) -> Result<(), Cause> {
        self.0.checkpoints.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }
}

impl RowSink for TestLogs {
    fn write(&mut self, batch: Arc<LogBatch>) -> Result<(), Cause> {
        if self.0.rows_fail.load(Ordering::SeqCst) {
            return Err("the store is away".into());
        }
        let rows = batch.models.len() + batch.tools.len();
        self.0.batches.fetch_add(rows, Ordering::SeqCst);
        Ok(())
    }
}

struct Test {
    queue: Arc<Queue>,
    logs: TestLogs,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Test {
    fn new() -> Self {
        let logs = TestLogs::default();
        let queue = Arc::new(Queue::new(LIMITS, RecordMetrics::default()));
        let audit = logs.clone();
        let open_audit: OpenAudit = Box::new(move || {
            audit.0.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(audit.clone()) as Box<dyn AuditSink>)
        });
        let writer = Writer {
            queue: queue.clone(),
            open_audit: Some(open_audit),
            rows: Some(Box::new(logs.clone())),
            keeps_contents: false,
            checkpoint_interval: Duration::ZERO,
            prices: Arc::new(ArcSwapOption::empty()),
            public_key: Arc::new(ArcSwapOption::empty()),
        };
        let thread = Some(std::thread::spawn(move || writer.run()));
        Self { queue, logs, thread }
    }

    fn push(&self, object: &str) -> Written {
        let act = Act::new(ActKind::ConfigChanged, "ann", object);
        let at = std::time::SystemTime::UNIX_EPOCH;
        let event = Event::Act(Box::new(TimedAct { at, act }));
        self.queue.push_awaited(event).expect("there is room")
    }

    fn is_written(&self, object: &str) -> bool {
        self.push(object).blocking_recv().expect("it is told")
    }

    /// Writes what is left. Returns the objects of all lines.
    fn end(&mut self) -> Vec<String> {
        self.queue.close();
        self.thread.take().expect("it runs").join().expect("it does not panic");
        let lines = self.logs.0.lines.lock();
        let objects = lines.iter().map(|line| {
            let (_, rest) = line.split_once("\"object\":\"").expect("an act");
            rest.split('"').next().expect("a text").to_owned()
        });
        objects.collect()
    }
}

#[test]
fn each_event_that_was_acknowledged_is_in_the_log_once() {
    let mut test = Test::new();
    for number in 0..50 {
        assert!(test.is_written(&number.to_string()));
    }
    let expected: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(test.end(), expected);
    assert!(test.logs.0.checkpoints.load(Ordering::SeqCst) > 0);
    assert_eq!(test.queue.metrics.written.get(), 50);
    assert_eq!(test.queue.metrics.waiting.get(), 0);
}

#[test]
fn an_event_whose_log_fails_is_refused_and_written_once_the_log_works_again() {
    let mut test = Test::new();
    assert!(test.is_written("before"));
    test.logs.0.audit_fails.store(true, Ordering::SeqCst);
    assert!(!test.is_written("during"));
    assert!(test.queue.is_failing());
    assert!(!test.is_written("also during"), "those that come later are told too");
    test.logs.0.audit_fails.store(false, Ordering::SeqCst);
    let after = test.push("after");
    // It is told at the next attempt: of its own batch, or of that before it.
    let _ = after.blocking_recv();
    assert_eq!(test.end(), ["before", "during", "also during", "after"]);
    assert!(test.logs.0.opened.load(Ordering::SeqCst) > 1, "it is opened again");
    assert!(!test.queue.is_failing());
}

#[test]
fn lines_are_not_added_again_if_the_rows_fail() {
    let mut test = Test::new();
    test.logs.0.rows_fail.store(true, Ordering::SeqCst);
    // An act has no row, so that it does not wait for the store.
    assert!(test.is_written("act"));
    let mut batch = Batch {
        lines: vec!["{\"object\":\"line\"}".to_owned()],
        rows: Arc::default(),
        waiters: Vec::new(),
        events: 1,
        count: 0,
        bytes: 0,
        is_audited: false,
        is_stored: false,
    };
    let logs = test.logs.clone();
    let opened = logs.clone();
    let open_audit: OpenAudit =
        Box::new(move || Ok(Box::new(opened.clone()) as Box<dyn AuditSink>));
    let mut writing = Writing {
        writer: Writer {
            queue: test.queue.clone(),
            open_audit: Some(open_audit),
            rows: Some(Box::new(logs.clone())),
            keeps_contents: false,
            checkpoint_interval: Duration::ZERO,
            prices: Arc::new(ArcSwapOption::empty()),
            public_key: Arc::new(ArcSwapOption::empty()),
        },
        audit: None,
        checkpoint_at: Instant::now(),
        has_new_lines: false,
        reported: None,
    };
    assert!(writing.attempt(&mut batch).is_err());
    assert!(writing.attempt(&mut batch).is_err());
    logs.0.rows_fail.store(false, Ordering::SeqCst);
    writing.attempt(&mut batch).expect("both work");
    assert_eq!(test.end(), ["act", "line"]);
}

#[test]
fn the_last_events_are_given_up_after_some_attempts_once_the_gateway_stops() {
    let mut test = Test::new();
    test.logs.0.audit_fails.store(true, Ordering::SeqCst);
    assert!(!test.is_written("never"));
    assert_eq!(test.end(), Vec::<String>::new());
    assert_eq!(test.queue.metrics.lost.get(), 1);
    assert_eq!(test.queue.metrics.waiting.get(), 0);
}
