//! Runs as JSON, for callers and operators.

use serde_json::{Value, json};

use super::{
    Ending, Outcome,
    answer::{Answer, Stored},
};
use crate::{
    run::{Called, Phase, Stage},
    store::runs::{StoredCall, StoredRun},
    tool::shown_arguments,
};

/// State of a run, as people see it.
fn state(run: &StoredRun, outcome: Option<&Outcome>) -> &'static str {
    match run.lease.phase {
        Phase::Running { .. } if run.is_interrupted => "interrupted",
        Phase::Running { .. } => "running",
        Phase::Suspended => "suspended",
        Phase::Ended => match outcome.map(|outcome| outcome.status) {
            Some(Ending::Completed) => "completed",
            Some(Ending::Failed) => "failed",
            Some(Ending::Cancelled) => "cancelled",
            // Another version of this program has written the outcome.
            None => "ended",
        },
    }
}

/// Describes a run in a list.
pub(crate) fn summary(run: &StoredRun) -> Value {
    let outcome = run.outcome.as_deref().and_then(Outcome::read);
    json!({
        "id": run.id,
        "object": "airlock.run",
        "state": state(run, outcome.as_ref()),
        "language": run.language,
        "pending_calls": run.pending,
        "created_at_ms": run.created_ms,
        "changed_at_ms": run.changed_ms,
    })
}

/// Describes a run with its script, its calls and its outcome.
pub(crate) fn document(run: &StoredRun) -> Value {
    let mut out = summary(run);
    out["script"] = run.script.clone().into();
    out["calls"] = run.calls.iter().map(call).collect();
    let of = |is_so: fn(&Stage) -> bool| -> Value {
        let calls = run.calls.iter().filter(|it| is_so(&it.call.claimed().stage));
        calls.map(waiting).collect()
    };
    out["request_state"] = format!("{}.{}", run.id, run.lease.epoch).into();
    out["pending"] = of(|stage| matches!(stage, Stage::Pending { .. }));
    // While the script runs, a call that was sent waits for its answer.
    if run.is_interrupted || run.lease.phase == Phase::Suspended {
        out["in_doubt"] = of(|stage| matches!(stage, Stage::InDoubt { .. }));
    }
    if let Some(outcome) = run.outcome.as_deref().and_then(Outcome::read) {
        out["content"] = outcome.text.clone().into();
        if let (Some(out), Value::Object(end)) = (out.as_object_mut(), end(outcome)) {
            out.extend(end);
        }
    }
    out
}

/// Describes the end of a run: `result`, `output`, `fuel`, and `error` if it has one. The text for the
/// model is not in it, because that names the servers of the request.
pub(crate) fn end(outcome: Outcome) -> Value {
    let mut out = json!({"result": outcome.result, "output": outcome.output, "fuel": outcome.fuel});
    if let Some((code, message)) = outcome.error {
        out["error"] = json!({"code": code, "message": message});
        if let Some(line) = outcome.line {
            out["error"]["line"] = line.into();
        }
    }
    out
}

/// Describes a call to decide about, as `airlock.run` does.
fn waiting(stored: &StoredCall) -> Value {
    let Called { tool, arguments, .. } = &stored.call.called;
    json!({
        "position": stored.position.to_string(),
        "tool": &**tool,
        "arguments": shown_arguments(arguments),
    })
}

fn call(stored: &StoredCall) -> Value {
    let called = &stored.call.called;
    let mut out = json!({
        "position": stored.position.to_string(),
        "tool": &*called.tool,
        "arguments": shown_arguments(&called.arguments),
        "state": match stored.call.stage {
            Stage::Pending { .. } => "pending",
            Stage::Approved { .. } | Stage::Retried { .. } => "approved",
            Stage::Denied => "denied",
            Stage::Sent { .. } => "sent",
            Stage::InDoubt { .. } => "in_doubt",
            Stage::Answered => "answered",
        },
        "repeatable": called.is_repeatable,
    });
    if let Stage::Approved { until_ms, .. } | Stage::Retried { until_ms, .. } = stored.call.stage {
        out["approval_expires_at_ms"] = until_ms.into();
    }
    match stored.answer.as_deref().map(Stored::read) {
        Some(Stored::Answer(Answer::Error(failure))) => out["error"] = json!(failure),
        Some(Stored::NotKept | Stored::Unreadable) => out["answer_kept"] = false.into(),
        _ => {}
    }
    out
}
