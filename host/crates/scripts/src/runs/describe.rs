//! Runs as JSON, for callers and operators.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    EffectManifest, RunEnding, RunOutcome,
    answer::{CallAnswer, NOT_KEPT, StoredAnswer},
};
use airlock_core::{
    run::{Call, Called, Phase, Position, Stage},
    tool::{GuardQuestions, MAX_PARSED, RunCall, SourceSet, SourcesByPath, shown_arguments},
};
use airlock_json::{self as json, Caps, MAX_DEPTH, RawObject, object};
use airlock_store::runs::{ShownAnswer, ShownCall, ShownRun, StoredRun};

/// Maximum bytes of the arguments of a call that a person decides about, if they are data in a
/// document. Longer ones are text: the tree of dense JSON takes 30 times as much memory in a client
/// that reads it.
const MAX_DATA: usize = 64 << 10;
/// Depth of arguments in a document.
const DEPTH: usize = 3;
/// Copies of a run's texts while its document is written: as stored, as members, and as the document.
/// The fourth is for escapes, and for the elements of a list while they are joined.
pub(super) const DOCUMENT_COPIES: u64 = 4;
/// Start of an answer that is a failure, as [`CallAnswer`] is stored.
const FAILURE: &str = "{\"error\"";

/// State of a run, as people see it.
fn state(run: &StoredRun, outcome: Option<&RunOutcome>) -> &'static str {
    match run.lease.phase {
        Phase::Running { .. } if run.is_interrupted => "interrupted",
        Phase::Running { .. } => "running",
        Phase::Suspended => "suspended",
        Phase::Ended => match outcome.map(|outcome| outcome.status) {
            Some(RunEnding::Completed) => "completed",
            Some(RunEnding::Failed) => "failed",
            Some(RunEnding::Cancelled) => "cancelled",
            // Another version of this program has written the outcome.
            None => "ended",
        },
    }
}

/// Describes a run in a list.
pub fn summary(run: &StoredRun) -> Value {
    let outcome = run.outcome.as_deref().and_then(RunOutcome::read);
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
///
/// # Panics
///
/// If the arguments of a call are not JSON, which the journal never stores.
pub fn document(shown: &ShownRun) -> Value {
    serde_json::from_str(&document_text(shown)).expect("arguments are JSON of a bounded depth")
}

/// Returns what [`document`] does as JSON text. Arguments stay text: the tree of dense ones takes
/// thirty times as much memory.
pub fn document_text(shown: &ShownRun) -> String {
    let ShownRun { run, calls } = shown;
    let mut out = RawObject::from(&object(summary(run)));
    out.set("script", text(&run.script));
    out.set("calls", list(calls.iter().map(call)));
    out.set("request_state", text(&format!("{}.{}", run.id, run.lease.epoch)));
    out.set("pending", waiting_list(calls, |stage| matches!(stage, Stage::Pending { .. })));
    // While the script runs, a call that was sent waits for its answer.
    if run.is_interrupted || run.lease.phase == Phase::Suspended {
        out.set("in_doubt", waiting_list(calls, |stage| matches!(stage, Stage::InDoubt { .. })));
    }
    if let Some(outcome) = run.outcome.as_deref().and_then(RunOutcome::read) {
        out.set("content", text(&outcome.text));
        for (name, value) in object(end(outcome)) {
            out.set(&name, value.to_string());
        }
    }
    out.to_text()
}

fn text(text: &str) -> String {
    Value::from(text).to_string()
}

fn list(elements: impl Iterator<Item = String>) -> String {
    format!("[{}]", elements.collect::<Vec<_>>().join(","))
}

/// Describes the end of a run: `result`, `output`, `fuel`, and `error` if it has one. The text for the
/// model is not in it, because that names the servers of the request.
pub fn end(outcome: RunOutcome) -> Value {
    let mut out = json!({"result": outcome.result, "output": outcome.output, "fuel": outcome.fuel});
    if let Some((code, message)) = outcome.error {
        out["error"] = json!({"code": code, "message": message});
        if let Some(line) = outcome.line {
            out["error"]["line"] = line.into();
        }
    }
    out
}

/// Returns a call of a run as people see it.
pub fn run_call(position: Position, called: &Called) -> RunCall {
    let tool = called.tool.to_string();
    let arguments = called.arguments.to_string();
    let manifest = EffectManifest::from_call(&tool, &arguments);
    RunCall {
        position,
        sources: SourceSet::from_json(called.sources.as_deref()),
        argument_sources: SourcesByPath::from_stored(called.sources.as_deref()),
        asked_by: GuardQuestions::from_json(called.asked_by.as_deref()),
        manifest: manifest.map(|manifest| manifest.lines()).unwrap_or_default(),
        tool,
        arguments,
    }
}

/// Renders the calls whose stage meets a condition.
fn waiting_list(calls: &[ShownCall], is_listed: fn(&Stage) -> bool) -> String {
    list(calls.iter().filter(|call| is_listed(&call.call.claimed().stage)).map(waiting))
}

/// Describes a call to decide about, as `airlock.run` does, with its whole arguments.
fn waiting(shown: &ShownCall) -> String {
    let called = &shown.call.called;
    let mut sources = String::new();
    for (name, value) in source_members(called) {
        let _ = write!(sources, r#","{name}":{value}"#);
    }
    let asked_by = called.asked_by.as_ref().map(|asked_by| format!(r#","asked_by":{asked_by}"#));
    let manifest = EffectManifest::from_call(&called.tool, &called.arguments);
    let manifest = manifest.map(|manifest| format!(r#","manifest":{}"#, json!(manifest.lines())));
    format!(
        r#"{{"position":{},"tool":{},"arguments":{}{}{}{}}}"#,
        text(&shown.position.to_string()),
        text(&called.tool),
        arguments(&called.arguments),
        sources,
        asked_by.unwrap_or_default(),
        manifest.unwrap_or_default()
    )
}

/// Returns the members with the sources that a script had read before a call, and with those of its arguments.
fn source_members(called: &Called) -> Vec<(&'static str, String)> {
    let stored = called.sources.as_deref();
    let read = SourceSet::from_json(stored).to_json();
    let of_arguments = SourcesByPath::from_stored(stored).map(|known| json!(known).to_string());
    let members = [("sources", read), ("argument_sources", of_arguments)];
    members.into_iter().filter_map(|(name, json)| Some((name, json?))).collect()
}

/// Returns arguments as JSON text: as data, or as a string if they are longer than [`MAX_DATA`].
/// Nothing is cut.
fn arguments(arguments: &str) -> String {
    let caps = Caps { depth: MAX_DEPTH - DEPTH, ..Caps::memory(usize::MAX) };
    if arguments.len() <= MAX_DATA && json::check(arguments.as_bytes(), &caps).is_ok() {
        return arguments.to_owned();
    }
    text(arguments)
}

fn call(shown: &ShownCall) -> String {
    let Call { called, stage } = &shown.call;
    let mut out = json!({
        "position": shown.position.to_string(),
        "tool": &*called.tool,
        "arguments": null,
        "state": match stage {
            Stage::Pending { .. } => "pending",
            Stage::Approved { .. } | Stage::Retried { .. } => "approved",
            Stage::Denied => "denied",
            Stage::Sent { .. } => "sent",
            Stage::InDoubt { .. } => "in_doubt",
            Stage::Answered => "answered",
        },
        "repeatable": called.is_repeatable,
    });
    if let Stage::Approved { until_ms, .. } | Stage::Retried { until_ms, .. } = stage {
        out["approval_expires_at_ms"] = (*until_ms).into();
    }
    match &shown.answer {
        Some(ShownAnswer::Whole(text)) if text == NOT_KEPT => out["answer_kept"] = false.into(),
        Some(ShownAnswer::Whole(text)) if text.starts_with(FAILURE) => {
            match StoredAnswer::read(text) {
                StoredAnswer::Answer(CallAnswer::Error(failure), _) => {
                    out["error"] = json!(failure);
                }
                // Another version of this program has stored it.
                _ => out["answer_kept"] = false.into(),
            }
        }
        Some(ShownAnswer::Head { head, bytes }) if head.starts_with(FAILURE) => {
            let message = format!(
                "the call failed with an error of {bytes} bytes, which is too long to show"
            );
            out["error"] = json!({"message": message});
        }
        _ => {}
    }
    let mut out = RawObject::from(&object(out));
    let own = &called.arguments;
    for (name, sources) in source_members(called) {
        out.set(name, sources);
    }
    if let Some(asked_by) = &called.asked_by {
        out.set("asked_by", asked_by.clone());
    }
    out.set(
        "arguments",
        if own.len() > MAX_PARSED { shown_arguments(own).to_string() } else { arguments(own) },
    );
    out.to_text()
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::{door::ArgumentSources, run::Lease, tool::CallError};

    fn call_of(n: u32, arguments: &str, stage: Stage, answer: Option<ShownAnswer>) -> ShownCall {
        let called = Called {
            tool: "a-b".into(),
            arguments: arguments.into(),
            definition: "d".into(),
            is_repeatable: false,
            written: None,
            sources: None,
            asked_by: None,
        };
        let position = Position { block: n, branch: 0 };
        ShownCall { position, call: Call { called, stage }, answer }
    }

    fn run_of(phase: Phase, calls: Vec<ShownCall>) -> ShownRun {
        let run = StoredRun {
            id: "run_1".into(),
            created_ms: 1,
            changed_ms: 2,
            lease: Lease { epoch: 3, phase, is_cancelled: false },
            is_interrupted: false,
            language: "starlark".into(),
            bytes: 0,
            pending: 0,
            outcome: None,
            script: "s".into(),
            bindings: String::new(),
            clock_ms: None,
            trace: None,
            sources: None,
            calls: Vec::new(),
        };
        ShownRun { run, calls }
    }

    #[test]
    fn an_answer_is_shown_if_it_is_an_error_or_was_not_kept() {
        let failed = CallAnswer::new(Err(CallError::cancelled()), "a-b").to_stored();
        let answers = [
            ShownAnswer::Whole(failed),
            ShownAnswer::Whole(NOT_KEPT.to_owned()),
            ShownAnswer::Whole(CallAnswer::Text("{\"error\"".into()).to_stored()),
            ShownAnswer::Whole(CallAnswer::Value(json!({"error": 1})).to_stored()),
            ShownAnswer::Head { head: "{\"error\":{\"kind\"".into(), bytes: 20_000 },
            ShownAnswer::Head { head: "{\"text\":\"{\\\"err".into(), bytes: 20_000 },
        ];
        let calls = answers.map(|answer| call_of(1, "{}", Stage::Answered, Some(answer)));
        let document = document(&run_of(Phase::Suspended, calls.into()));
        let calls = document["calls"].as_array().expect("calls");
        let shown: Vec<_> = calls
            .iter()
            .map(|call| {
                (call["error"]["code"].as_str(), call["error"].is_object(), &call["answer_kept"])
            })
            .collect();
        assert_eq!(
            shown,
            [
                (Some("airlock.cancelled"), true, &Value::Null),
                (None, false, &json!(false)),
                (None, false, &Value::Null),
                (None, false, &Value::Null),
                (None, true, &Value::Null),
                (None, false, &Value::Null),
            ]
        );
        let message = calls[4]["error"]["message"].as_str().expect("a message");
        assert!(message.contains("20000 bytes"), "{message}");
    }

    #[test]
    fn arguments_are_data_only_if_they_are_json_that_can_be_read_in_the_document() {
        let most = MAX_DEPTH - DEPTH;
        let texts = [nested(most), nested(most + 1), "[1".to_owned(), "1 \u{1}".to_owned()];
        let pending = Stage::Pending { attempts: 0 };
        let calls = texts.iter().map(|text| call_of(1, text, pending, None)).collect();
        let document = document(&run_of(Phase::Suspended, calls));
        for list in ["pending", "calls"] {
            let shown = document[list].as_array().expect("a list").iter();
            let shown: Vec<_> = shown.map(|call| call["arguments"].clone()).collect();
            assert_eq!(shown[0].to_string(), texts[0]);
            assert_eq!(shown[1..], texts[1..], "{list}");
        }
    }

    #[test]
    fn the_sources_of_a_call_are_shown_with_those_of_its_arguments() {
        let mut values = ArgumentSources::default();
        let read = SourceSet::from_iter(["crm", "web"]);
        values.add("to", &SourceSet::from_iter(["crm"]));
        let stored = [read.to_json(), values.to_json(&read), None];
        let calls = stored.map(|sources| {
            let mut shown = call_of(1, "{}", Stage::Pending { attempts: 0 }, None);
            shown.call.called.sources = sources.map(Into::into);
            shown
        });
        let document = document(&run_of(Phase::Suspended, calls.into()));
        for list in ["pending", "calls"] {
            let shown = document[list].as_array().expect("a list");
            let both = json!(["crm", "web"]);
            assert_eq!((&shown[0]["sources"], &shown[1]["sources"]), (&both, &both), "{list}");
            assert_eq!(shown[0]["argument_sources"], Value::Null);
            assert_eq!(shown[1]["argument_sources"], json!({"to": ["crm"]}));
            assert_eq!(shown[2]["sources"], Value::Null);
        }
    }

    #[test]
    fn a_call_is_shown_to_callers_with_the_members_of_its_document() {
        let mut shown = call_of(1, r#"{"n":1}"#, Stage::Pending { attempts: 0 }, None);
        let read = SourceSet::from_iter(["crm", "web"]);
        let mut values = ArgumentSources::default();
        values.add("n", &SourceSet::from_iter(["crm"]));
        let mut asked_by = GuardQuestions::new();
        asked_by.push("mail".into(), "to others");
        shown.call.called.sources = values.to_json(&read).map(Into::into);
        shown.call.called.asked_by = asked_by.to_json().map(Into::into);
        let call = run_call(shown.position, &shown.call.called);
        assert_eq!((&call.sources, &call.asked_by), (&read, &asked_by));
        assert_eq!(call.source_lines(), ["the argument \"n\" may come from crm"]);
        let document = document(&run_of(Phase::Suspended, vec![shown]));
        assert_eq!(json!(call), document["pending"][0]);
    }

    fn nested(depth: usize) -> String {
        "[".repeat(depth) + &"]".repeat(depth)
    }

    #[test]
    fn arguments_of_calls_to_decide_about_are_whole_at_every_length() {
        let short = json!({"path": "x".repeat(20_000)}).to_string();
        let long = json!({"path": "y".repeat(MAX_DATA)}).to_string();
        let pending = Stage::Pending { attempts: 0 };
        let calls = vec![
            call_of(1, &short, pending, None),
            call_of(2, &long, pending, None),
            call_of(3, &long, Stage::Sent { attempt: 1 }, None),
            call_of(4, &long, Stage::Denied, None),
        ];
        let document = document(&run_of(Phase::Suspended, calls));
        assert_eq!(document["pending"][0]["arguments"]["path"], "x".repeat(20_000));
        assert_eq!(document["pending"][1]["arguments"], long);
        assert_eq!(document["pending"].as_array().map(Vec::len), Some(2));
        assert_eq!(document["in_doubt"][0]["arguments"], long);
        assert!(document["calls"][3]["arguments"].as_str().is_some_and(|text| text.len() < 20_000));
    }
}
