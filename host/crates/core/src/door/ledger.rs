//! Records of the tool calls that one request really made. Only the door writes them.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Serialize;

use super::{CallId, Progress, report::Report};
use crate::tool::{CallError, CallFailure, ClientName, Content, ToolName, ToolOutput};
use airlock_strings::cut;

/// The most calls of one request, nested calls included. Their records and the response that lists
/// them are held until the request ends; one record takes 264 bytes besides its texts, so all of
/// them take 5 MB.
const MAX_CALLS: usize = 20_000;
/// The longest arguments in one record, in bytes, so that [`MAX_TEXT_BYTES`] has room for 64 calls
/// with the longest ones. Longer ones are cut and are then no longer valid JSON.
const MAX_ARGUMENT_BYTES: usize = 64 << 10;
/// Limit on the arguments, error messages and messages of progress in all records of one request, in
/// bytes. A request may make [`MAX_CALLS`] calls, and its response lists all of them.
const MAX_TEXT_BYTES: usize = 4 << 20;
/// Limit on the emitted content in all records of one request, in bytes. It holds three images of
/// the largest size that models accept, 5 MiB.
const MAX_EMITTED_BYTES: usize = 16 << 20;
/// The longest message, in bytes, if [`MAX_TEXT_BYTES`] leaves no room for the whole message. A
/// request with [`MAX_CALLS`] such messages holds 2.5 MB more.
const MAX_SHORT_MESSAGE: usize = 128;
/// Text in place of arguments that are not kept.
const NOT_KEPT: &str = "…";

/// The calls of one request, in the order in which they started. Cheap to clone; clones share the
/// records.
#[derive(Clone, Default)]
pub struct Ledger {
    records: Arc<Mutex<CallRecords>>,
}

struct CallRecords {
    calls: Vec<CallRecord>,
    /// Quota for arguments and messages, those of progress included.
    texts: Quota,
    /// Quota for emitted content.
    emitted: Quota,
    /// Length of the results that scripts received, in bytes.
    script_result_bytes: u64,
}

impl Default for CallRecords {
    fn default() -> Self {
        Self {
            calls: Vec::new(),
            texts: Quota(MAX_TEXT_BYTES),
            emitted: Quota(MAX_EMITTED_BYTES),
            script_result_bytes: 0,
        }
    }
}

/// Number of bytes that are left of a quota.
struct Quota(usize);

impl Quota {
    /// Takes `bytes` off the quota; false, and nothing is taken, if fewer are left.
    fn take(&mut self, bytes: usize) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

/// Record of one call.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// Identifier of the call.
    pub id: CallId,
    /// The call that made it; `None` for the first call of a chain.
    pub parent: Option<CallId>,
    /// The tool.
    pub name: ToolName,
    /// The MCP server that runs it; `None` if no server does, or if the operator trusts the server.
    pub untrusted: Option<ClientName>,
    /// The arguments, as JSON text. Arguments that are too long end with `…`; arguments that are
    /// not kept are `…`.
    pub arguments: Arc<str>,
    /// Outcome of the call.
    pub outcome: Outcome,
    /// Time from its start to its end, or until now if it still runs.
    pub duration: Duration,
    /// Fuel that its guest burnt; `None` unless it ran in the sandbox and has ended.
    pub fuel: Option<u64>,
    /// True if it has ended and has changed something, or may have, otherwise than by calls of its own:
    /// a guest has sent an HTTP request, or changed a file or a stored value.
    pub has_acted: bool,
    /// Content that it sent before its result: a script's printed lines, a plugin's partial
    /// results. Empty if it was too large to keep.
    pub emitted: Vec<Content>,
    /// The last progress that it reported, without its message if the quota is used up.
    pub progress: Option<Progress>,
    /// The run of its script; `None` if it ran no script, or if runs are not kept.
    pub run: Option<Arc<str>>,
    started: Instant,
    is_open: bool,
}

/// Outcome of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Outcome {
    /// Still running, or dropped before it ended.
    Cancelled,
    /// The call returned a result.
    Ok,
    /// The call failed.
    Error {
        /// Code and kind of the error.
        #[serde(flatten)]
        failure: CallFailure,
        /// Message of the error that the caller received, cut if the quota is used up.
        message: String,
    },
}

impl Ledger {
    /// Returns a copy of the records. The record of a call that has not ended yet has the duration
    /// until now.
    pub fn records(&self) -> Vec<CallRecord> {
        let mut records = self.records.lock().calls.clone();
        for record in records.iter_mut().filter(|record| record.is_open) {
            record.duration = record.started.elapsed();
        }
        records
    }

    /// Returns whether a call that has ended may have changed something: it has acted, or has made
    /// calls of its own, whatever their outcome.
    pub fn may_have_acted(&self, call: CallId) -> bool {
        let records = self.records.lock();
        let mut calls = records.calls.iter();
        calls.any(|record| record.parent == Some(call) || record.id == call && record.has_acted)
    }

    /// Returns the length of the results of calls that scripts have made, in bytes.
    pub fn script_result_bytes(&self) -> u64 {
        self.records.lock().script_result_bytes
    }

    /// Returns the MCP servers without the operator's trust that a call used: that of the call itself,
    /// and those of the calls that it made, and of their calls.
    pub fn untrusted_within(&self, call: CallId) -> BTreeSet<ClientName> {
        let records = self.records.lock();
        let mut within = HashSet::from([call]);
        let mut servers = BTreeSet::new();
        // A call is recorded before the calls that it makes.
        for record in &records.calls {
            if record.id == call || record.parent.is_some_and(|parent| within.contains(&parent)) {
                within.insert(record.id);
                servers.extend(record.untrusted.clone());
            }
        }
        servers
    }

    /// Records that a call starts. The record stays [`Outcome::Cancelled`] if the call is dropped
    /// before it ends. Fails if the request has made [`MAX_CALLS`] calls.
    pub(super) fn open(
        &self,
        (id, parent): (CallId, Option<CallId>),
        name: ToolName,
        untrusted: Option<ClientName>,
        arguments: Arc<str>,
        report: Arc<Report>,
    ) -> Result<OpenRecord, CallError> {
        // Only the beginning of huge arguments is kept, because a request may make many calls and
        // its response lists all of them.
        let arguments = if arguments.len() > MAX_ARGUMENT_BYTES {
            cut(arguments.to_string(), MAX_ARGUMENT_BYTES).into()
        } else {
            arguments
        };
        let mut records = self.records.lock();
        if records.calls.len() >= MAX_CALLS {
            let limit = MAX_CALLS as u64;
            return Err(CallError::budget("tool calls of one request", limit));
        }
        let arguments =
            if records.texts.take(arguments.len()) { arguments } else { NOT_KEPT.into() };
        records.calls.push(CallRecord {
            id,
            parent,
            name,
            untrusted,
            arguments,
            outcome: Outcome::Cancelled,
            duration: Duration::ZERO,
            fuel: None,
            has_acted: false,
            emitted: Vec::new(),
            progress: None,
            run: None,
            started: Instant::now(),
            is_open: true,
        });
        Ok(OpenRecord { ledger: self.clone(), index: records.calls.len() - 1, report })
    }
}

/// Record of a call that has not ended. Dropping it ends the record.
pub(super) struct OpenRecord {
    ledger: Ledger,
    index: usize,
    report: Arc<Report>,
}

impl OpenRecord {
    /// Counts the result of a call that a script has made.
    pub(super) fn count_script_result(&self, output: &ToolOutput) {
        let bytes = output.text_bytes() as u64;
        let mut records = self.ledger.records.lock();
        records.script_result_bytes = records.script_result_bytes.saturating_add(bytes);
    }

    pub(super) fn close(self, result: &Result<ToolOutput, CallError>) {
        let mut records = self.ledger.records.lock();
        records.calls[self.index].outcome = match result {
            Ok(_) => Outcome::Ok,
            Err(error) => {
                let message = error.to_string();
                let fits = records.texts.take(message.len());
                let message = if fits { message } else { cut(message, MAX_SHORT_MESSAGE) };
                Outcome::Error { failure: error.into(), message }
            }
        };
        // Dropping `self` records duration, fuel, emitted content and progress.
    }
}

impl Drop for OpenRecord {
    fn drop(&mut self) {
        let emitted = self.report.take_emitted();
        let mut records = self.ledger.records.lock();
        let emitted = if records.emitted.take(emitted.iter().map(Content::cost).sum()) {
            emitted
        } else {
            Vec::new()
        };
        let mut progress = self.report.take_progress();
        if let Some(progress) = &mut progress {
            let bytes = progress.message.as_ref().map_or(0, String::len);
            if !records.texts.take(bytes) {
                progress.message = None;
            }
        }
        let record = &mut records.calls[self.index];
        record.duration = record.started.elapsed();
        record.is_open = false;
        record.fuel = self.report.fuel();
        record.has_acted = self.report.has_acted();
        record.emitted = emitted;
        record.progress = progress;
        record.run = self.report.run();
    }
}

#[cfg(test)]
mod tests;
