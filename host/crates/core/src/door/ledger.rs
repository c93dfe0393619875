//! What was really called while one request was answered, written down at the door and nowhere
//! else.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use serde::Serialize;

use super::{CallId, Progress, report::Report};
use crate::{
    text::cut,
    tool::{CallError, Content, ToolName, ToolOutput},
};

/// Arguments in a record beyond this are cut, and so no JSON any more.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;
/// Arguments and messages that the records of one request keep together. A request may make tens of
/// thousands of calls, and its answer tells them all.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Partial answers that the records of one request keep together.
const MAX_EMITTED_BYTES: usize = 16 << 20;
/// A message beyond that is cut to this.
const MAX_SHORT_MESSAGE: usize = 128;
/// Text that a record has in place of arguments that are not kept.
const NOT_KEPT: &str = "…";

/// The calls of one request in the order in which they started.
#[derive(Clone, Default)]
pub struct Ledger {
    records: Arc<Mutex<Records>>,
}

struct Records {
    calls: Vec<CallRecord>,
    /// For arguments and messages.
    texts: Room,
    /// For partial answers.
    emitted: Room,
}

impl Default for Records {
    fn default() -> Self {
        Self { calls: Vec::new(), texts: Room(MAX_TEXT_BYTES), emitted: Room(MAX_EMITTED_BYTES) }
    }
}

/// Bytes that may still be kept.
struct Room(usize);

impl Room {
    /// Takes room for so many bytes, or returns false.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
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
    /// The arguments, as JSON text; `…` for all or the end of what was too long to keep.
    pub arguments: Arc<str>,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub duration: Duration,
    /// Fuel it burnt, where it ran in the sandbox.
    pub fuel: Option<u64>,
    /// Content that it sent ahead of its answer: a script's printed lines, a plugin's partial
    /// results. Empty if it was too long to keep.
    pub emitted: Vec<Content>,
    /// How far it said it was, the last time that it did.
    pub progress: Option<Progress>,
    started: Instant,
    is_open: bool,
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
    /// A copy of the records. A call that still runs, or that nobody has come round to end, is told
    /// as far as it got.
    pub fn records(&self) -> Vec<CallRecord> {
        let mut records = self.lock().calls.clone();
        for record in records.iter_mut().filter(|record| record.is_open) {
            record.duration = record.started.elapsed();
        }
        records
    }

    /// The tools of the calls that `parent` made and that ended well, in the order in which they
    /// started.
    pub fn completed_below(&self, parent: CallId) -> Vec<ToolName> {
        let records = self.lock();
        let completed = records
            .calls
            .iter()
            .filter(|record| record.parent == Some(parent) && record.outcome == Outcome::Ok);
        completed.map(|record| record.name.clone()).collect()
    }

    /// Notes that a call starts. A call that is dropped half-way stays as cancelled.
    pub(super) fn open(
        &self,
        (id, parent): (CallId, Option<CallId>),
        name: ToolName,
        arguments: Arc<str>,
        report: Arc<Report>,
    ) -> Open {
        // Of what is huge the beginning is kept: a request may make many calls, and all are told in
        // its answer.
        let arguments = if arguments.len() > MAX_ARGUMENT_BYTES {
            cut(arguments.to_string(), MAX_ARGUMENT_BYTES).into()
        } else {
            arguments
        };
        let mut records = self.lock();
        let arguments =
            if records.texts.take(arguments.len()) { arguments } else { NOT_KEPT.into() };
        records.calls.push(CallRecord {
            id,
            parent,
            name,
            arguments,
            outcome: Outcome::Cancelled,
            duration: Duration::ZERO,
            fuel: None,
            emitted: Vec::new(),
            progress: None,
            started: Instant::now(),
            is_open: true,
        });
        Open { ledger: self.clone(), index: records.calls.len() - 1, report }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Records> {
        // Records are whole after every statement, so a panic elsewhere cannot have left half of
        // one.
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A record that waits for its end.
pub(super) struct Open {
    ledger: Ledger,
    index: usize,
    report: Arc<Report>,
}

impl Open {
    pub(super) fn close(self, result: &Result<ToolOutput, CallError>) {
        let mut records = self.ledger.lock();
        records.calls[self.index].outcome = match result {
            Ok(_) => Outcome::Ok,
            Err(error) => {
                let message = error.to_string();
                let fits = records.texts.take(message.len());
                let message = if fits { message } else { cut(message, MAX_SHORT_MESSAGE) };
                Outcome::Error { code: error.code(), message }
            }
        };
        // Dropping `self` adds what it took.
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let emitted = self.report.take_emitted();
        let mut records = self.ledger.lock();
        let emitted = if records.emitted.take(emitted.iter().map(Content::size).sum()) {
            emitted
        } else {
            Vec::new()
        };
        let record = &mut records.calls[self.index];
        record.duration = record.started.elapsed();
        record.is_open = false;
        record.fuel = self.report.fuel();
        record.emitted = emitted;
        record.progress = self.report.take_progress();
    }
}
