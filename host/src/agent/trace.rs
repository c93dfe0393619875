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
//! A call that the model asked for has a `result` besides, the text that the model was told, up to
//! 64 KiB of it. `calls` holds every call in the order in which the model asked for them, each
//! followed by those that it made in turn, which name it as their `parent`. `status` is `ok`,
//! `error` or `cancelled`. A call that was refused before it ran has no `id`. `reason` is
//! `needs_approval`, `not_offered` or `depth_limit`; `needs` tells which call inside a script
//! waits.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    EXTENSION, answer,
    record::{self, Index},
    round::{Ended, Pending, Reason},
    usage::Usage,
};
use crate::{
    door::{CallId, Ledger},
    model::{Object, object},
    text::cut,
    tool::CallError,
};

/// A result in the `airlock` object beyond this is cut, the model had all of it; so are arguments
/// of a call that was refused.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// What was done so far.
pub(super) struct Trace<'a> {
    ledger: &'a Ledger,
    /// Rounds of tool calls.
    pub(super) rounds: u32,
    /// What the model used.
    pub(super) usage: Usage,
    tops: Vec<Top>,
    results: Vec<answer::Result>,
    /// Whether the last answer has calls that were not run because there were so many rounds.
    pub(super) depth_limit_reached: bool,
}

/// A call that the model asked for itself.
struct Top {
    tool_call_id: String,
    id: Option<CallId>,
    /// Text that the model received; `None` if the call waits for an approval.
    result: Option<Arc<str>>,
    /// How it looks if the ledger has nothing of it.
    refused: Value,
}

impl<'a> Trace<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        Self {
            ledger,
            rounds: 0,
            usage: Usage::default(),
            tops: Vec::new(),
            results: Vec::new(),
            depth_limit_reached: false,
        }
    }

    /// Takes down a round. A call that could not go on without an approval has no result; it waits
    /// for the caller.
    pub(super) fn note(&mut self, round: &[Ended]) -> Vec<Pending> {
        self.rounds += 1;
        let mut suspended = Vec::new();
        for ended in round {
            self.tops.push(Top::new(ended));
            if let Some(CallError::NeedsApproval { name, arguments }) = &ended.error {
                let reason = Reason::Suspended {
                    tool: name.as_str().to_owned(),
                    arguments: arguments.clone(),
                };
                suspended.push(Pending::new(ended.call.clone(), reason));
            } else {
                let (tool, tool_call_id) = (ended.call.name.clone(), ended.call.id.clone());
                self.results.push(answer::Result { tool, tool_call_id, text: ended.text.clone() });
            }
        }
        suspended
    }

    /// Makes the last answer: the model's own, or a mixed one if calls were run and others wait. A
    /// loop that was stopped by its depth ends with the model's own, whose calls nobody ran.
    pub(super) fn finish(self, mut answer: Object, mut pending: Vec<Pending>) -> Object {
        pending.sort_by_key(|pending| pending.call.position);
        if !pending.is_empty() && !self.results.is_empty() && !self.depth_limit_reached {
            answer = answer::mixed(answer, &self.results, &pending);
        }
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
        let index = Index::new(&records);
        let mut calls = Vec::new();
        for top in &self.tops {
            match top.id.and_then(|id| index.find(id)) {
                Some(record) => {
                    let mut call = record::to_json(record, Some(&top.tool_call_id));
                    if let Some(result) = &top.result {
                        call["result"] = shortened(result).into();
                    }
                    calls.push(call);
                    calls.extend(index.describe_below(record.id));
                }
                None => calls.push(top.refused.clone()),
            }
        }
        calls
    }
}

impl Top {
    fn new(ended: &Ended) -> Self {
        let text = shortened(ended.call.arguments.as_deref().unwrap_or_default());
        let error = ended
            .error
            .as_ref()
            .map(|error| json!({"code": error.code(), "message": error.to_string()}));
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
        let result = (!ended.needs_approval()).then(|| ended.text.clone());
        Self { tool_call_id: ended.call.id.clone(), id: ended.id, result, refused }
    }
}

/// As much of a text as the `airlock` object repeats.
fn shortened(text: &str) -> String {
    // One character more than fits says that there is more.
    cut(text[..text.floor_char_boundary(MAX_TEXT_BYTES + 4)].to_owned(), MAX_TEXT_BYTES)
}

impl Pending {
    fn to_json(&self) -> Value {
        let (reason, needs) = match &self.reason {
            Reason::NeedsApproval => ("needs_approval", None),
            Reason::Suspended { tool, arguments } => ("needs_approval", Some((tool, arguments))),
            Reason::NotOffered => ("not_offered", None),
            Reason::DepthLimit => ("depth_limit", None),
        };
        let mut out =
            json!({"tool_call_id": self.call.id, "name": self.call.name, "reason": reason});
        if let Some((tool, arguments)) = needs {
            out["needs"] = json!({"name": tool, "arguments": record::parsed(arguments)});
        }
        out
    }
}
