//! What was really called while one request was answered, written down at the door and nowhere else.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{CallId, Chain};
use crate::catalog::{CallError, Content, ToolName, ToolOutput};

/// The calls of one request in the order in which they started.
#[derive(Clone, Default)]
pub struct Ledger {
    records: Arc<Mutex<Vec<CallRecord>>>,
}

/// What a running call tells about itself as it goes, so that it is known of calls that fail or are dropped too.
pub(super) struct Report {
    fuel: AtomicU64,
    emitted: Mutex<Vec<Content>>,
}

impl Report {
    const UNKNOWN: u64 = u64::MAX;

    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { fuel: AtomicU64::new(Self::UNKNOWN), emitted: Mutex::default() })
    }

    pub(super) fn set_fuel(&self, fuel: u64) {
        self.fuel.store(fuel, Ordering::Relaxed);
    }

    fn fuel(&self) -> Option<u64> {
        Some(self.fuel.load(Ordering::Relaxed)).filter(|fuel| *fuel != Self::UNKNOWN)
    }

    pub(super) fn emit(&self, part: Content) {
        self.emitted.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    pub(super) fn emitted(&self) -> Vec<Content> {
        self.emitted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// Its identifier.
    pub id: CallId,
    /// The call that made it, for a nested one.
    pub parent: Option<CallId>,
    /// The tool.
    pub name: ToolName,
    /// The arguments, as JSON text.
    pub arguments: Arc<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
    /// Fuel it burnt, where it ran in the sandbox.
    pub fuel: Option<u64>,
    /// What it sent ahead of its answer: a script's printed lines, a plugin's partial results.
    pub emitted: Vec<Content>,
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Still running, or dropped before it ended.
    Cancelled,
    /// With an answer.
    Ok,
    /// Without one.
    Error {
        /// [`CallError::code`].
        code: &'static str,
        /// What the caller was told.
        message: String,
    },
}

impl Ledger {
    /// A copy of the records.
    pub fn records(&self) -> Vec<CallRecord> {
        self.lock().clone()
    }

    /// How many calls were started.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether no call was started.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Notes that a call starts. A call that is dropped half-way stays as cancelled.
    pub(super) fn open(&self, call: &Chain, name: ToolName, arguments: Arc<str>) -> Open {
        let mut records = self.lock();
        records.push(CallRecord {
            id: call.id,
            parent: call.parent,
            name,
            arguments,
            outcome: Outcome::Cancelled,
            duration: Duration::ZERO,
            fuel: None,
            emitted: Vec::new(),
        });
        Open { ledger: self.clone(), index: records.len() - 1, started: Instant::now(), report: call.report.clone() }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<CallRecord>> {
        // Records are whole after every statement, so a panic elsewhere cannot have left half of one.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A record that waits for its end.
pub(super) struct Open {
    ledger: Ledger,
    index: usize,
    started: Instant,
    report: Arc<Report>,
}

impl Open {
    pub(super) fn close(self, result: &Result<ToolOutput, CallError>) {
        let mut records = self.ledger.lock();
        records[self.index].outcome = match result {
            Ok(_) => Outcome::Ok,
            Err(error) => Outcome::Error { code: error.code(), message: error.to_string() },
        };
        // Dropping `self` adds what it took.
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let duration = self.started.elapsed();
        let mut records = self.ledger.lock();
        records[self.index].duration = duration;
        records[self.index].fuel = self.report.fuel();
        records[self.index].emitted = self.report.emitted();
    }
}
