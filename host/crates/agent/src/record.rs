//! Renders the door's call records as JSON.

use std::{collections::HashMap, time::Duration};

use serde_json::{Value, json};

use airlock_core::{
    door::{CallId, CallRecord, Outcome},
    tool::CallFailure,
};
use airlock_json::{self as json, Caps};

/// Limit on the memory of the parsed arguments in one description, in bytes. Dense arguments take some 60 times
/// their length as a tree, and the records of a request keep 4 MiB of them. It holds the arguments
/// of all calls of a request that a record keeps, if they are mostly texts.
const MAX_TREES_BYTES: usize = 32 << 20;

/// Parses the arguments of the calls in one description.
pub(super) struct Arguments {
    /// Memory that their trees may still take, in bytes.
    left: usize,
}

/// Records by identifier and by parent call.
pub(super) struct RecordIndex<'a> {
    by_id: HashMap<CallId, &'a CallRecord>,
    below: HashMap<CallId, Vec<&'a CallRecord>>,
}

impl Arguments {
    pub(super) fn new() -> Self {
        Self { left: MAX_TREES_BYTES }
    }

    /// Parses arguments as JSON. Returns them as text if they are not valid JSON, or if their tree would take more
    /// memory than is left.
    pub(super) fn parsed(&mut self, arguments: &str) -> Value {
        let Ok(cost) = json::check(arguments.as_bytes(), &Caps::memory(self.left)) else {
            return arguments.into();
        };
        self.left = self.left.saturating_sub(cost.tree_bytes);
        serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into())
    }
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
    pub(super) fn describe_below(&self, parent: CallId, arguments: &mut Arguments) -> Vec<Value> {
        let mut out = Vec::new();
        let mut next: Vec<&CallRecord> = self.made_by(parent).collect();
        while let Some(record) = next.pop() {
            out.push(to_json(record, None, arguments));
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
    RecordIndex::new(records).describe_below(parent, &mut Arguments::new())
}

/// Renders one call. `tool_call_id` is the identifier in the model's request for the call.
pub(super) fn to_json(
    record: &CallRecord,
    tool_call_id: Option<&str>,
    arguments: &mut Arguments,
) -> Value {
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
        "arguments": arguments.parsed(&record.arguments),
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

/// Returns milliseconds, rounded to microseconds: a call into the sandbox may take as little as
/// five microseconds.
pub fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dense_arguments_are_text_once_their_trees_are_too_large() {
        let dense = format!("[{}0]", r#"{"":0},"#.repeat(8 << 10));
        let mut arguments = Arguments::new();
        let parsed = (0..64).filter(|_| arguments.parsed(&dense).is_array()).count();
        let tree =
            json::check(dense.as_bytes(), &Caps::memory(usize::MAX)).expect("valid").tree_bytes;
        assert_eq!(parsed, MAX_TREES_BYTES / tree);
        assert_eq!(arguments.parsed(&dense), Value::from(dense.as_str()));
        assert_eq!(arguments.parsed(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(arguments.parsed("…"), json!("…"));
    }
}
