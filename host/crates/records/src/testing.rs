//! Logs in memory, and events, for tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::SystemTime,
};

use parking_lot::Mutex;
use uuid::Uuid;

use crate::{
    audit_log::{LineSink, OpenAudit},
    event::{CallCode, RecordEvent, RefusedCall, ShortText},
    queue::QueuedEvent,
    rows,
    writer::LogSink,
};
use airlock_core::{
    tenant::Tenant,
    tool::{Cause, HostCode, SourceSet},
};
use airlock_store::call_log::{LogBatch, LoggedModelCall, LoggedToolCall};

/// Returns the refusal of a call of an unknown tool.
pub(crate) fn refused_call(tenant: Tenant) -> RefusedCall {
    RefusedCall {
        id: Uuid::nil(),
        at: SystemTime::UNIX_EPOCH,
        tenant,
        membership: Arc::default(),
        origin: "mcp_client",
        parent: None,
        name: ShortText::new("none"),
        client: None,
        code: CallCode::Host(HostCode::NotFound),
        guards: Vec::new(),
        sources: SourceSet::default(),
        error: None,
    }
}

/// Returns the event of such a refusal.
pub(crate) fn refused(tenant: Tenant) -> RecordEvent {
    RecordEvent::Refused(Box::new(refused_call(tenant)))
}

/// The two logs of a test, which can fail and hang. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct MemoryLogs(pub(crate) Arc<MemoryState>);

#[derive(Default)]
pub(crate) struct MemoryState {
    pub(crate) lines: Mutex<Vec<String>>,
    pub(crate) tools: Mutex<Vec<LoggedToolCall>>,
    pub(crate) models: Mutex<Vec<LoggedModelCall>>,
    /// Number of times that the audit log was opened.
    pub(crate) opened: AtomicUsize,
    /// Number of attempts to write a checkpoint.
    pub(crate) checkpoints: AtomicUsize,
    pub(crate) checkpoints_fail: AtomicBool,
    /// Number of lines that a checkpoint covers.
    pub(crate) signed: AtomicUsize,
    pub(crate) audit: LogFaults,
    pub(crate) rows: LogFaults,
}

/// Faults of one log.
#[derive(Default)]
pub(crate) struct LogFaults {
    pub(crate) fails: AtomicBool,
    /// Set to make a write wait until it is unset.
    pub(crate) hangs: AtomicBool,
}

impl LogFaults {
    fn check(&self) -> Result<(), Cause> {
        while self.hangs.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        if self.fails.load(Ordering::SeqCst) { Err("away".into()) } else { Ok(()) }
    }
}

impl MemoryLogs {
    /// Returns what opens the audit log.
    pub(crate) fn opener(&self) -> OpenAudit {
        let logs = self.clone();
        Box::new(move || {
            logs.0.opened.fetch_add(1, Ordering::SeqCst);
            Ok(Box::new(logs.clone()) as Box<dyn LineSink>)
        })
    }

    /// Makes both logs fail, or work again.
    pub(crate) fn fail(&self, fails: bool) {
        self.0.audit.fails.store(fails, Ordering::SeqCst);
        self.0.rows.fails.store(fails, Ordering::SeqCst);
    }

    /// Makes both logs hang, or go on.
    pub(crate) fn hang(&self, hangs: bool) {
        self.0.audit.hangs.store(hangs, Ordering::SeqCst);
        self.0.rows.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Returns the last row of a call.
    pub(crate) fn last(&self) -> LoggedToolCall {
        self.0.tools.lock().last().cloned().expect("a row")
    }

    /// Returns the texts of a member of all lines.
    pub(crate) fn texts(&self, member: &str) -> Vec<String> {
        let lines = self.0.lines.lock();
        let texts = lines.iter().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            line[member].as_str().expect("a text").to_owned()
        });
        texts.collect()
    }

    /// Returns the kinds of all lines.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.texts("kind")
    }
}

impl LineSink for MemoryLogs {
    fn append(&mut self, lines: &[String]) -> Result<(), Cause> {
        self.0.audit.check()?;
        self.0.lines.lock().extend_from_slice(lines);
        Ok(())
    }

    fn checkpoint(&mut self) -> Result<(), Cause> {
        self.0.checkpoints.fetch_add(1, Ordering::SeqCst);
        if self.0.checkpoints_fail.load(Ordering::SeqCst) {
            return Err("full".into());
        }
        self.0.signed.store(self.0.lines.lock().len(), Ordering::SeqCst);
        Ok(())
    }

    fn unsigned_lines(&self) -> u64 {
        (self.0.lines.lock().len() - self.0.signed.load(Ordering::SeqCst)) as u64
    }

    fn has_failed(&self) -> bool {
        true
    }

    fn public_key(&self) -> String {
        "test+00000000+".to_owned()
    }
}

impl LogSink for MemoryLogs {
    type Rendered = LogBatch;

    const NAME: &'static str = "call_log";

    fn render(&self, events: &[QueuedEvent]) -> Option<LogBatch> {
        Some(rows::render(events, false)).filter(|rows| !rows.is_empty())
    }

    fn write(&mut self, rows: &LogBatch) -> Result<(), Cause> {
        self.0.rows.check()?;
        self.0.tools.lock().extend_from_slice(&rows.tools);
        self.0.models.lock().extend_from_slice(&rows.models);
        Ok(())
    }
}
