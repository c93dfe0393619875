//! What was done for one request, and the `airlock` object that says so:
//!
//! ```json
//! {"calls": [{"id": "0198…", "tool_call_id": "call_1", "parent": null, "name": "fs-read", "arguments": {"path": "a"},
//!             "status": "error", "error": {"code": "deadline", "message": "…"}, "duration_ms": 30000.1, "fuel": 12345}],
//!  "rounds": 1,
//!  "depth_limit_reached": true,
//!  "pending": [{"tool_call_id": "call_2", "name": "executeToolCode", "reason": "needs_approval",
//!               "needs": {"name": "fs-write", "arguments": {}}}]}
//! ```
//!
//! A call that the model asked for has a `result` besides, the text that the model was told, up to 64 KiB of it. `calls` holds every call in the order in which the model asked for them, each followed by those that it made in turn,
//! which name it as their `parent`. `status` is `ok`, `error` or `cancelled`. A call that was refused before it ran has no
//! `id`. `reason` is `needs_approval`, `not_offered` or `depth_limit`; `needs` tells which call inside a script waits.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{
    EXTENSION, answer,
    round::{Ended, Pending, Reason},
    usage::Usage,
};
use crate::{
    catalog::{CallError, cut},
    door::{CallId, CallRecord, Ledger, Outcome},
    model::{Object, object},
};

/// A result in the `airlock` object beyond this is cut: the model had all of it.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// What was done so far.
pub(super) struct Trace<'a> {
    ledger: &'a Ledger,
    /// Rounds of tool calls.
    pub(super) rounds: u32,
    /// What the model used.
    pub(super) usage: Usage,
    tops: Vec<Top>,
    results: Vec<answer::Result>,
    depth_limit_reached: bool,
}

/// A call that the model asked for itself.
struct Top {
    tool_call_id: String,
    id: Option<CallId>,
    /// What the model was told, as far as there is room.
    result: Option<String>,
    /// How it looks if the ledger has nothing of it.
    refused: Value,
}

impl<'a> Trace<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        Self { ledger, rounds: 0, usage: Usage::default(), tops: Vec::new(), results: Vec::new(), depth_limit_reached: false }
    }

    /// Takes down a round. A call that could not go on without an approval has no result; it waits for the caller.
    pub(super) fn note(&mut self, round: &[Ended]) -> Vec<Pending> {
        self.rounds += 1;
        let mut suspended = Vec::new();
        for ended in round {
            self.tops.push(Top::new(ended));
            if let Err(CallError::NeedsApproval { name, arguments }) = &ended.result {
                let reason = Reason::Suspended { tool: name.as_str().to_owned(), arguments: arguments.clone() };
                suspended.push(Pending::new(ended.call.clone(), reason));
            } else {
                let (tool, id) = (ended.call.name.clone(), ended.call.id.clone());
                self.results.push(answer::Result { tool, tool_call_id: id, text: ended.text() });
            }
        }
        suspended
    }

    /// Makes the last answer: the model's own, or a mixed one if calls were run and others wait.
    pub(super) fn finish(self, answer: Object, pending: &[Pending]) -> Object {
        let answer =
            if pending.is_empty() || self.results.is_empty() { answer } else { answer::mixed(answer, &self.results, pending) };
        self.complete(answer, pending)
    }

    /// Makes the last answer of a loop that was stopped: the model's own, with calls that nobody ran.
    pub(super) fn finish_at_limit(mut self, answer: Object, mut pending: Vec<Pending>) -> Object {
        self.depth_limit_reached = true;
        pending.sort_by_key(|pending| pending.call.position);
        self.complete(answer, &pending)
    }

    fn complete(self, mut answer: Object, pending: &[Pending]) -> Object {
        if let Some(extension) = self.extension(pending) {
            answer.insert(EXTENSION.to_owned(), extension.into());
        }
        self.usage.put_into(&mut answer);
        answer
    }

    /// The `airlock` object, if there is anything to say.
    pub(super) fn extension(&self, pending: &[Pending]) -> Option<Object> {
        if self.tops.is_empty() && pending.is_empty() {
            return None;
        }
        let mut extension = object(json!({"calls": self.calls(), "rounds": self.rounds}));
        if self.depth_limit_reached {
            extension.insert("depth_limit_reached".to_owned(), true.into());
        }
        if !pending.is_empty() {
            let pending: Vec<Value> = pending.iter().map(Pending::to_json).collect();
            extension.insert("pending".to_owned(), pending.into());
        }
        Some(extension)
    }

    fn calls(&self) -> Vec<Value> {
        let records = self.ledger.records();
        let mut calls = Vec::new();
        for top in &self.tops {
            match records.iter().find(|record| top.id == Some(record.id)) {
                Some(record) => {
                    let mut call = to_json(record, Some(&top.tool_call_id));
                    if let Some(result) = &top.result {
                        call["result"] = result.as_str().into();
                    }
                    calls.push(call);
                    calls.extend(describe(&records, record.id));
                }
                None => calls.push(top.refused.clone()),
            }
        }
        calls
    }
}

impl Top {
    fn new(ended: &Ended) -> Self {
        let text = ended.call.arguments.clone().unwrap_or_default();
        let error = ended.result.as_ref().err().map(|error| json!({"code": error.code(), "message": error.to_string()}));
        let refused = json!({
            "id": null,
            "tool_call_id": ended.call.id,
            "parent": null,
            "name": ended.call.name,
            "arguments": text,
            "status": "error",
            "error": error,
            "duration_ms": 0.0,
        });
        // A call that waits for an approval has no result.
        let has_result = !matches!(ended.result, Err(CallError::NeedsApproval { .. }));
        let result = has_result.then(|| cut(ended.text(), MAX_RESULT_BYTES));
        Self { tool_call_id: ended.call.id.clone(), id: ended.id, result, refused }
    }
}

impl Pending {
    fn to_json(&self) -> Value {
        let (reason, needs) = match &self.reason {
            Reason::NeedsApproval => ("needs_approval", None),
            Reason::Suspended { tool, arguments } => ("needs_approval", Some((tool, arguments))),
            Reason::NotOffered => ("not_offered", None),
            Reason::DepthLimit => ("depth_limit", None),
        };
        let mut out = json!({"tool_call_id": self.call.id, "name": self.call.name, "reason": reason});
        if let Some((tool, arguments)) = needs {
            out["needs"] = json!({"name": tool, "arguments": parsed(arguments)});
        }
        out
    }
}

/// Every call below `parent`, each followed by those that it made in turn.
pub(crate) fn describe(records: &[CallRecord], parent: CallId) -> Vec<Value> {
    let mut children: HashMap<CallId, Vec<&CallRecord>> = HashMap::new();
    for record in records {
        if let Some(parent) = record.parent {
            children.entry(parent).or_default().push(record);
        }
    }
    let below = |id: CallId| children.get(&id).into_iter().flatten().rev().copied();
    let mut out = Vec::new();
    let mut next: Vec<&CallRecord> = below(parent).collect();
    while let Some(record) = next.pop() {
        out.push(to_json(record, None));
        next.extend(below(record.id));
    }
    out
}

fn to_json(record: &CallRecord, tool_call_id: Option<&str>) -> Value {
    let (status, error) = match &record.outcome {
        Outcome::Ok => ("ok", None),
        Outcome::Cancelled => ("cancelled", None),
        Outcome::Error { code, message } => ("error", Some(json!({"code": code, "message": message}))),
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

/// Arguments as a value; as text if they are no JSON after all.
fn parsed(arguments: &str) -> Value {
    serde_json::from_str(arguments).unwrap_or_else(|_| arguments.into())
}

/// Milliseconds to the microsecond: a call into the sandbox may take five of these.
pub(crate) fn milliseconds(duration: std::time::Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
