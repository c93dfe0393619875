//! Record of the work for one request, and the `airlock` object that describes it:
//!
//! ```json
//! {"calls": [{"id": "0198…", "tool_call_id": "call_1", "parent": null, "name": "fs-read", "arguments": {"path": "a"},
//!             "status": "error", "error": {"code": "airlock.deadline", "kind": "timeout", "message": "…"}, "duration_ms": 30000.1, "fuel": 12345}],
//!  "rounds": 1,
//!  "cost": {"usd_micros": 1250},
//!  "depth_limit_reached": true,
//!  "tokens": {"estimated": true, "definitions": 900, "results": 40, "scripts": 25,
//!             "kept_out": {"definitions": 12000, "results": 0, "script_results": 310}},
//!  "pending": [{"tool_call_id": "call_2", "name": "executeToolCode", "reason": "needs_approval",
//!               "needs": {"name": "fs-write", "arguments": {}}}]}
//! ```
//!
//! A call that the model asked for also has a `result`, even if it failed or was refused: the text that the model received, up to 64 KiB, and if it had more than texts, `raw_result`: the
//! handle with which programs read it unchanged. `calls` holds every call, in the order in which
//! the model asked for them. Each is followed by the calls that it made in turn, which name it as
//! their `parent`. `status` is `ok`, `error` or `cancelled`. A call that was refused before it ran
//! has the `id` null. `reason` is `needs_approval`, `in_doubt` (a call of a script may have been made), `input_required`,
//! `not_offered` or `depth_limit`; `full_name` is that of the tool, if the model has called it by another one; `sources` has
//! the untrusted sources that the model had read before; `asked_by` has the guards that require an approval, with their
//! reasons; `needs` names the first call inside a script that needs a decision, and `input_required` has the questions of a
//! tool. `run` describes the run of a script that has
//! stopped: its id, the calls that were made, and those that wait for a decision. The `airlock`
//! object has the first such run too. `cost` is that of all requests to models, if a price of each is known. `tokens`
//! are those of the gateway's tools, if the request asks for them.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{
    answer::ToolResult,
    conversation::Conversation,
    record::{self, Arguments, RecordIndex},
    round::{CallOutcome, PendingCall, PendingReason},
    tokens::{TOKENS, TokenReport},
};
use airlock_conversation::Object;
use airlock_core::{
    door::{CallId, CallRecord, Caller, Origin, View},
    model_control::ToolTokens,
    threads,
    tool::{InputRequired, ToolName},
};
use airlock_strings::cut;

/// Maximum length of a result in the `airlock` object, and of the arguments of a refused call, in
/// bytes. Longer text is cut there; the model receives all of it. A result of a server has up to 1 MiB, and
/// the object repeats those of all calls of a request. The records of calls keep as much of the arguments.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// Maximum number of calls, nested ones included, that are described on a worker. Each takes a few microseconds, and a
/// request may make 20,000.
const INLINE_CALLS: usize = 256;

/// Member with the questions of a tool that waits for answers.
pub const INPUT_REQUIRED: &str = "input_required";

/// Member with the run of a script that has stopped.
pub const RUN: &str = "run";

/// Returns the questions of a tool, with the state that its caller sends back with the answers.
pub fn input_required(asked: &InputRequired) -> Value {
    json!({
        "client": asked.client.as_str(),
        "input_requests": asked.to_requests(),
        "request_state": asked.token,
    })
}

/// Record of the work for one request so far. Parts that few requests have are boxed: the record of each stream would
/// have room for them.
pub(super) struct Trace<'a> {
    caller: &'a Caller,
    /// Members of the `airlock` object that do not depend on the calls.
    notes: Option<Box<Object>>,
    /// Calls of all rounds. Shared with a thread that describes many of them.
    tops: Arc<Vec<TopCall>>,
    cost: RequestsCost,
    /// `None` if the tokens of tools are not counted.
    tokens: Option<Box<TokenReport>>,
}

/// Cost of the requests to models so far.
#[derive(Default)]
struct RequestsCost {
    /// In millionths of a US dollar; `None` until a price is known.
    sum: Option<u64>,
    /// True if a request has no known price, so that the sum would be too low.
    is_unknown: bool,
}

/// A call that the model itself asked for.
#[derive(Clone)]
struct TopCall {
    name: String,
    tool_call_id: String,
    id: Option<CallId>,
    /// Text that the model received; `None` if the call waits for the caller.
    result: Option<Arc<str>>,
    /// Handle of the unchanged result; `None` if it is not kept.
    raw: Option<String>,
    /// JSON of the call if the ledger has no record of it.
    refused: Value,
}

impl<'a> Trace<'a> {
    pub(super) fn new(caller: &'a Caller, notes: Object) -> Self {
        let notes = (!notes.is_empty()).then(|| Box::new(notes));
        let tops = Arc::default();
        Self { caller, notes, tops, cost: RequestsCost::default(), tokens: None }
    }

    /// Counts the tokens of tools from now on, if the conversation offers tools. With `is_shown`, the `airlock`
    /// object has them.
    pub(super) fn count_tokens(&mut self, conversation: &Conversation, is_shown: bool) {
        self.tokens = TokenReport::begin(conversation, self.caller, is_shown).map(Box::new);
    }

    /// Returns the tokens of tools until now; `None` if they are not counted.
    pub(super) fn tokens(&self) -> Option<ToolTokens> {
        self.tokens.as_ref().map(|report| report.tokens(self.caller))
    }

    /// Adds the cost of a request to a model, in millionths of a US dollar; `None` if no price is known.
    pub(super) fn add_cost(&mut self, cost: Option<u64>) {
        match cost {
            Some(cost) => {
                self.cost.sum = Some(self.cost.sum.unwrap_or_default().saturating_add(cost));
            }
            None => self.cost.is_unknown = true,
        }
    }

    /// Cost of all requests to models, in millionths of a US dollar; `None` if no price is known for one of them.
    pub(super) fn cost(&self) -> Option<u64> {
        self.cost.sum.filter(|_| !self.cost.is_unknown)
    }

    /// Records a round.
    pub(super) fn record(&mut self, round: &[CallOutcome]) {
        Arc::make_mut(&mut self.tops).extend(round.iter().map(TopCall::new));
        if let Some(tokens) = &mut self.tokens {
            tokens.add(round, self.caller);
        }
    }

    /// Returns whether calls of any round have results.
    pub(super) fn has_results(&self) -> bool {
        self.tops.iter().any(|top| top.result.is_some())
    }

    /// Iterates over the results of all rounds.
    pub(super) fn results(&self) -> impl Iterator<Item = ToolResult<'_>> {
        self.tops.iter().filter_map(|top| {
            let text = top.result.as_deref()?;
            Some(ToolResult { tool: &top.name, tool_call_id: &top.tool_call_id, text })
        })
    }

    /// Returns the members of the `airlock` object that do not depend on the calls, and the tokens.
    fn facts(&self) -> Object {
        let mut facts = self.notes.as_deref().cloned().unwrap_or_default();
        if let Some(report) = self.tokens.as_ref().filter(|report| report.is_shown()) {
            facts.insert(TOKENS.to_owned(), report.tokens(self.caller).to_json());
        }
        facts
    }

    /// Returns the `airlock` object; `None` if there were no calls and there is nothing else to describe.
    pub(super) async fn extension(&self, rounds: u32, pending: &[PendingCall]) -> Option<Object> {
        if self.tops.is_empty() && pending.is_empty() {
            return Some(self.facts()).filter(|facts| !facts.is_empty());
        }
        let calls = self.calls().await;
        // Not by `json!`, which would copy them.
        let mut extension = Object::from_iter([
            ("calls".to_owned(), calls.into()),
            ("rounds".to_owned(), rounds.into()),
        ]);
        extension.extend(self.facts());
        if let Some(cost) = self.cost() {
            extension.insert("cost".to_owned(), json!({"usd_micros": cost}));
        }
        if PendingReason::is_depth_limit(pending) {
            extension.insert("depth_limit_reached".to_owned(), true.into());
        }
        let run = pending.iter().find_map(|pending| match &pending.reason {
            PendingReason::Suspended(suspension) => Some(suspension.to_json()),
            _ => None,
        });
        if !pending.is_empty() {
            let view = self.caller.view();
            let mut arguments = Arguments::new();
            let pending: Vec<_> =
                pending.iter().map(|call| call.to_json(view, &mut arguments)).collect();
            extension.insert("pending".to_owned(), pending.into());
        }
        if let Some(run) = run {
            extension.insert(RUN.to_owned(), run);
        }
        Some(extension)
    }

    /// Describes all calls: here if they and their arguments are few, else on a blocking thread.
    async fn calls(&self) -> Vec<Value> {
        let records = self.caller.ledger().records();
        let arguments: usize = records.iter().map(|record| record.arguments.len()).sum();
        if records.len() <= INLINE_CALLS && arguments <= threads::INLINE_BYTES {
            return described(&self.tops, &records);
        }
        let tops = self.tops.clone();
        let describing =
            threads::run(self.caller.view().tenant(), move || described(&tops, &records));
        // Boxed: most requests make few calls.
        Box::pin(describing).await
    }
}

/// Describes the calls of a model, each followed by those that it made in turn.
fn described(tops: &[TopCall], records: &[CallRecord]) -> Vec<Value> {
    let index = RecordIndex::new(records);
    let mut arguments = Arguments::new();
    let mut calls = Vec::new();
    for top in tops {
        let record = top.id.and_then(|id| index.find(id));
        let mut call = match record {
            Some(record) => record::to_json(record, Some(&top.tool_call_id), &mut arguments),
            None => top.refused.clone(),
        };
        if let Some(result) = &top.result {
            call["result"] = shortened(result).into();
        }
        if let Some(raw) = &top.raw {
            call["raw_result"] = raw.as_str().into();
        }
        calls.push(call);
        if let Some(record) = record {
            calls.extend(index.describe_below(record.id, &mut arguments));
        }
    }
    calls
}

impl TopCall {
    fn new(ended: &CallOutcome) -> Self {
        let text = shortened(ended.call.arguments.as_deref().unwrap_or_default());
        let error = ended
            .error
            .as_ref()
            .map(|error| record::failure_to_json(&error.into(), &error.to_string()));
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
        let result = (!ended.is_waiting()).then(|| ended.text.clone());
        let name = ended.call.name.clone();
        let tool_call_id = ended.call.id.clone();
        let raw = ended.raw.clone();
        Self { name, tool_call_id, id: ended.id, result, raw, refused }
    }
}

/// Cuts a text to the length that the `airlock` object repeats.
fn shortened(text: &str) -> String {
    // Reads slightly more than the limit, so that `cut` detects the overflow.
    cut(text[..text.floor_char_boundary(MAX_TEXT_BYTES + 4)].to_owned(), MAX_TEXT_BYTES)
}

impl PendingCall {
    /// Returns the full name of the tool; `None` if the model has called it by this name, or if it is the caller's own.
    fn full_name<'v>(&self, view: &'v View) -> Option<&'v ToolName> {
        if matches!(self.reason, PendingReason::NotOffered) {
            return None;
        }
        let entry = view.find(&Origin::Caller, &self.call.name)?;
        Some(&entry.tool.full_name).filter(|name| name.as_str() != self.call.name)
    }

    fn to_json(&self, view: &View, arguments: &mut Arguments) -> Value {
        let (reason, needs) = match &self.reason {
            PendingReason::NeedsApproval => ("needs_approval", None),
            PendingReason::Stopped { tool, arguments } => {
                ("needs_approval", Some((tool, arguments)))
            }
            PendingReason::Suspended(suspension) => {
                let first = suspension.pending.first().or(suspension.in_doubt.first());
                let reason =
                    if suspension.pending.is_empty() { "in_doubt" } else { "needs_approval" };
                (reason, first.map(|call| (&call.tool, &call.arguments)))
            }
            PendingReason::InputRequired(_) => ("input_required", None),
            PendingReason::NotOffered => ("not_offered", None),
            PendingReason::DepthLimit => ("depth_limit", None),
        };
        let mut out =
            json!({"tool_call_id": self.call.id, "name": self.call.name, "reason": reason});
        if let Some(name) = self.full_name(view) {
            out["full_name"] = json!(name);
        }
        if !self.sources.is_empty() {
            out["sources"] = json!(self.sources);
        }
        if !self.asked_by.is_empty() {
            out["asked_by"] = json!(self.asked_by);
        }
        if let PendingReason::InputRequired(asked) = &self.reason {
            out[INPUT_REQUIRED] = input_required(asked);
        }
        if let PendingReason::Suspended(suspension) = &self.reason {
            out[RUN] = suspension.to_json();
        }
        if let Some((tool, needed)) = needs {
            out["needs"] = json!({"name": tool, "arguments": arguments.parsed(needed)});
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use airlock_core::door::Filter;
    use airlock_fakes as fake;

    #[tokio::test]
    async fn many_calls_are_not_described_on_a_worker() {
        let (catalog, _) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Model, fake::BUDGET);
        let trace = Trace::new(&caller, Object::new());
        for (calls, is_here) in [(INLINE_CALLS, true), (1, false)] {
            for _ in 0..calls {
                let call = caller.admit("desk-echo", "{}").expect("it is listed");
                drop(call.run().await);
            }
            let held = threads::occupy(caller.view().tenant()).await;
            let mut describing = Box::pin(trace.calls());
            assert_eq!(describing.as_mut().now_or_never().is_some(), is_here, "{calls}");
            drop(held);
        }
    }

    #[tokio::test]
    async fn long_arguments_are_not_described_on_a_worker() {
        let (catalog, _) = fake::catalog();
        let view = catalog.snapshot().view(&Filter::none(), None);
        let caller = Caller::new(view, Origin::Model, fake::BUDGET);
        let trace = Trace::new(&caller, Object::new());
        let long = json!({"a": "x".repeat(threads::INLINE_BYTES)}).to_string();
        for (arguments, is_here) in [("{}", true), (&*long, false)] {
            let call = caller.admit("desk-echo", arguments).expect("it is listed");
            drop(call.run().await);
            let held = threads::occupy(caller.view().tenant()).await;
            let mut describing = Box::pin(trace.calls());
            assert_eq!(describing.as_mut().now_or_never().is_some(), is_here);
            drop(held);
        }
    }
}
