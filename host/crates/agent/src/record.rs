//! Renders the door's call records as JSON.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use airlock_core::{
    door::{CallId, CallRecord, Outcome},
    tool::CallFailure,
};

/// Records by identifier and by parent call.
pub(super) struct RecordIndex<'a> {
    by_id: HashMap<CallId, &'a CallRecord>,
    below: HashMap<CallId, Vec<&'a CallRecord>>,
}

impl<'a> RecordIndex<'a> {
    pub(super) fn new(records: &'a [CallRecord]) -> Self {
        let mut index =
            Self { by_id: HashMap::with_capacity(records.len()), below: HashMap::new() };
        for record in records {
            index.by_id.insert(record.id, record);
            if let Some(parent) = record.parent {
                index.below.entry(parent).or_default().push(record);
            }
        }
        index
    }

    pub(super) fn find(&self, id: CallId) -> Option<&'a CallRecord> {
        self.by_id.get(&id).copied()
    }

    /// Describes every call below `parent`, each followed by the calls that it made in turn.
    pub(super) fn describe_below(&self, parent: CallId) -> Vec<Value> {
        let mut out = Vec::new();
        let mut next: Vec<&CallRecord> = self.made_by(parent).collect();
        while let Some(record) = next.pop() {
            out.push(to_json(record, None));
            next.extend(self.made_by(record.id));
        }
        out
    }

    /// Returns the calls that `parent` made, the last one first.
    fn made_by(&self, parent: CallId) -> impl Iterator<Item = &'a CallRecord> {
        self.below.get(&parent).into_iter().flatten().rev().copied()
    }
}

/// Describes every call below `parent`, each followed by the calls that it made in turn.
pub fn describe(records: &[CallRecord], parent: CallId) -> Vec<Value> {
    RecordIndex::new(records).describe_below(parent)
}

/// Renders one call. `tool_call_id` is the identifier in the model's request for the call.
pub(super) fn to_json(record: &CallRecord, tool_call_id: Option<&str>) -> Value {
    let (status, error) = match &record.outcome {
        Outcome::Ok => ("ok", None),
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Error { failure, message } => ("error", Some(failure_to_json(failure, message))),
    };
    let mut out = json!({
        "id": record.id,
        "tool_call_id": tool_call_id,
        "parent": record.parent,
        "name": record.name.as_str(),
        "arguments": parsed(&record.arguments),
        "status": status,
    });
    if let Some(error) = error {
        out["error"] = error;
    }
    out["duration_ms"] = milliseconds(record.duration).into();
    if let Some(fuel) = record.fuel {
        out["fuel"] = fuel.into();
    }
    out
}

/// Renders the failure of a call.
pub(super) fn failure_to_json(failure: &CallFailure, message: &str) -> Value {
    let mut out = json!(failure);
    out["message"] = message.into();
    out
}

/// Parses arguments as JSON. Returns them as text if they are not valid JSON.
pub(super) fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into())
}

/// Returns milliseconds, rounded to microseconds: a call into the sandbox may take as little as
/// five microseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
