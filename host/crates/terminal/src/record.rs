//! Reports of calls, made from the ledger that the door keeps.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::output::CommandFailure;
use airlock_core::{
    door::{CallRecord, Ledger, Outcome},
    tool::{Content, ContentBlock},
};

/// A call that another call made.
#[derive(Debug, Serialize)]
pub struct NestedCall {
    name: String,
    arguments: Value,
    /// `ok`, `error` or `cancelled`.
    status: &'static str,
    error: Option<CommandFailure>,
    duration_ms: f64,
    fuel: Option<u64>,
}

/// The call that was made from outside, and the calls made on its behalf.
#[derive(Debug, Default)]
pub struct LedgerReport {
    /// Time of the call.
    pub duration: Duration,
    /// Fuel that it took; `None` if it ran no guest.
    pub fuel: Option<u64>,
    /// Texts that were sent before the result.
    pub emitted: Vec<String>,
    /// The calls on its behalf.
    pub nested: Vec<NestedCall>,
    /// The run of the call, if it ran a script.
    pub run: Option<String>,
}

impl LedgerReport {
    /// Reads a ledger that holds one call from outside.
    pub fn read(ledger: &Ledger) -> Self {
        let (roots, nested): (Vec<_>, Vec<_>) =
            ledger.records().into_iter().partition(|record| record.parent.is_none());
        let nested = nested.into_iter().map(NestedCall::from).collect();
        match roots.into_iter().next() {
            Some(root) => Self {
                duration: root.duration,
                fuel: root.fuel,
                emitted: root.emitted.into_iter().filter_map(into_text).collect(),
                nested,
                run: root.run.map(|id| id.to_string()),
            },
            None => Self { nested, ..Self::default() },
        }
    }
}

impl From<CallRecord> for NestedCall {
    fn from(record: CallRecord) -> Self {
        let (status, error) = match record.outcome {
            Outcome::Ok => ("ok", None),
            Outcome::Cancelled => ("cancelled", None),
            Outcome::Error { failure, message } => {
                ("error", Some(CommandFailure::from_call(failure, message)))
            }
        };
        Self {
            name: record.name.to_string(),
            arguments: serde_json::from_str(&record.arguments).unwrap_or_default(),
            status,
            error,
            duration_ms: millis(record.duration),
            fuel: record.fuel,
        }
    }
}

/// Converts to milliseconds, rounded to the microsecond.
pub fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn into_text(content: Content) -> Option<String> {
    match content.block {
        ContentBlock::Text { text } => Some(text),
        _ => None,
    }
}
