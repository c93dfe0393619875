//! Runs as text for people. What a person decides about is shown whole.

use std::{
    fmt::Write as _,
    time::{Duration, UNIX_EPOCH},
};

use serde_json::Value;

use airlock_core::{
    run::Stage,
    tool::{GuardQuestions, SourceSet, SourcesByPath},
};
use airlock_scripts::runs::{EffectManifest, document};
use airlock_store::runs::{ShownCall, ShownRun};
use airlock_strings::{visible_json, visible_line};
use airlock_terminal::output;

/// Number of characters of a line of arguments.
const WIDTH: usize = 96;
/// Longest arguments of a call that waits for no decision, in characters: two lines.
const MAX_ARGUMENTS: usize = 200;
/// Longest error of a call, in characters: `airlock runs show --json` has all of it.
const MAX_ERROR: usize = 400;
/// Longest beginning of a script in a list, in characters: a row stays one line of a wide terminal.
const MAX_BEGINNING: usize = 40;
/// Most tools that a row of a list names, for the same reason.
const MAX_TOOLS: usize = 3;

/// The line above a list.
pub(super) const HEADER: &str = "ID                                    STATE        BEGAN                 LANGUAGE  WAITS FOR / SCRIPT";

/// Returns the line of a run in a list. `summary` is its description, `run` the run with its calls.
pub(super) fn row(summary: &Value, shown: &ShownRun) -> String {
    let ShownRun { run, calls } = shown;
    let state = text(&summary["state"]);
    let language = text(&summary["language"]);
    let mut tools: Vec<&str> =
        calls.iter().filter(|call| waits(call)).map(|call| &*call.call.called.tool).collect();
    tools.dedup();
    let more = tools.len().saturating_sub(MAX_TOOLS);
    tools.truncate(MAX_TOOLS);
    let mut waiting = tools.iter().map(|tool| visible_line(tool)).collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(waiting, " and {more} more");
    }
    if !waiting.is_empty() {
        waiting.push_str(": ");
    }
    let first = run.script.lines().map(str::trim).find(|line| !line.is_empty());
    let first = output::one_line(first.unwrap_or_default(), MAX_BEGINNING);
    let id = &run.id;
    let began = time(run.created_ms);
    format!("{id:<36}  {state:<11}  {began:<20}  {language:<8}  {waiting}{first}")
        .trim_end()
        .to_owned()
}

/// Returns a run with its script, calls, output and end.
pub(super) fn run(shown: &ShownRun) -> String {
    let ShownRun { run, calls } = shown;
    let document = document(shown);
    let mut lines = vec![
        format!("{}  {}", run.id, text(&document["state"])),
        format!("language: {}", text(&document["language"])),
        format!("began: {}, changed: {}", time(run.created_ms), time(run.changed_ms)),
        "script:".to_owned(),
    ];
    let width = run.script.lines().count().max(1).to_string().len();
    let numbered = run.script.lines().enumerate();
    lines
        .extend(numbered.map(|(at, line)| format!("  {:>width$}  {}", at + 1, visible_line(line))));
    if !calls.is_empty() {
        lines.push("calls:".to_owned());
    }
    let described = document["calls"].as_array().into_iter().flatten();
    for (call, described) in calls.iter().zip(described) {
        lines.extend(call_lines(call, described));
    }
    let error = match document["error"]["line"].as_u64() {
        Some(line) => format!("error in line {line}"),
        None => "error".to_owned(),
    };
    let source = document["error"]["line"].as_u64().and_then(|line| {
        let line = run.script.lines().nth(usize::try_from(line).ok()?.checked_sub(1)?)?;
        Some(format!("  {}\n", visible_line(line)))
    });
    if let Some(output) = document["output"].as_str().filter(|text| !text.is_empty()) {
        lines.push(format!("output:\n{output}"));
    }
    if let Some(message) = document["error"]["message"].as_str().filter(|text| !text.is_empty()) {
        lines.push(format!("{error}:\n{}{message}", source.unwrap_or_default()));
    }
    if !document["result"].is_null() {
        lines.push(format!("result:\n{:#}", document["result"]));
    }
    lines.join("\n")
}

/// Returns the lines of calls that a person decides about, with all their arguments.
pub(super) fn decided(calls: &[&ShownCall]) -> Vec<String> {
    let lines = calls.iter().flat_map(|call| {
        let tool = visible_line(&call.call.called.tool);
        [format!("{}  {tool}", call.position)].into_iter().chain(whole(call))
    });
    lines.collect()
}

fn call_lines(call: &ShownCall, described: &Value) -> Vec<String> {
    let tool = visible_line(&call.call.called.tool);
    let head = format!("  {}  {}  {tool}", call.position, text(&described["state"]));
    let mut lines = if waits(call) {
        [head].into_iter().chain(whole(call).into_iter().map(|line| format!("  {line}"))).collect()
    } else {
        let arguments = output::both_ends(&call.call.called.arguments, MAX_ARGUMENTS);
        vec![format!("{head}  {arguments}")]
    };
    if let Some(message) = described["error"]["message"].as_str() {
        lines.push(format!("      failed: {}", output::both_ends(message, MAX_ERROR)));
    }
    lines
}

/// Returns whether a person has to decide about a call.
fn waits(call: &ShownCall) -> bool {
    matches!(call.call.claimed().stage, Stage::Pending { .. } | Stage::InDoubt { .. })
}

/// Returns all arguments of a call as JSON text on lines of equal length, without invisible
/// characters; of a manifest, its lines.
fn whole(call: &ShownCall) -> Vec<String> {
    let called = &call.call.called;
    let lines = match EffectManifest::from_call(&called.tool, &called.arguments) {
        Some(manifest) => manifest.lines(),
        None => wrapped(&visible_json(&called.arguments).replace('\n', " ")),
    };
    let lines = lines.into_iter().map(|line| format!("    {line}"));
    let sources = SourceSet::from_json(called.sources.as_deref());
    let read = (!sources.is_empty())
        .then(|| format!("    (made after reading untrusted content from {sources})"));
    let known = SourcesByPath::from_stored(called.sources.as_deref());
    let of_arguments = known.iter().flat_map(SourcesByPath::lines);
    let of_arguments = of_arguments.map(|line| format!("    ({line})"));
    let asked_by = GuardQuestions::from_json(called.asked_by.as_deref());
    let asked = (!asked_by.is_empty()).then(|| format!("    ({asked_by})"));
    read.into_iter().chain(of_arguments).chain(asked).chain(lines).collect()
}

/// Returns a text on lines of equal length.
fn wrapped(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(WIDTH).map(|line| line.iter().collect()).collect()
}

/// Returns a time in milliseconds since 1970 in the form of RFC 3339.
pub(super) fn time(since_1970_ms: i64) -> String {
    let since = Duration::from_millis(since_1970_ms.try_into().unwrap_or_default());
    let time = UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH);
    humantime::format_rfc3339_seconds(time).to_string()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use airlock_core::run::{Call, Called, Lease, Phase, Position};
    use airlock_scripts::runs::{CallAnswer, summary};
    use airlock_store::runs::{ShownAnswer, StoredRun};

    fn call(block: u32, arguments: &str, stage: Stage, answer: Option<&str>) -> ShownCall {
        let called = Called {
            tool: "rec-write".into(),
            arguments: arguments.into(),
            definition: "".into(),
            is_repeatable: false,
            written: None,
            sources: None,
            asked_by: None,
        };
        let position = Position { block, branch: 0 };
        let answer = answer.map(|answer| ShownAnswer::Whole(answer.to_owned()));
        ShownCall { position, call: Call { called, stage }, answer }
    }

    fn stored(calls: Vec<ShownCall>, outcome: Option<Value>) -> ShownRun {
        let phase = if outcome.is_some() { Phase::Ended } else { Phase::Suspended };
        let run = StoredRun {
            id: format!("run_{}", "0".repeat(32)),
            created_ms: 1_000,
            changed_ms: 61_000,
            lease: Lease { epoch: 1, phase, is_cancelled: false },
            is_interrupted: false,
            language: "starlark".to_owned(),
            bytes: 0,
            pending: 1,
            outcome: outcome.map(|outcome| outcome.to_string()),
            script: "\nx = rec.write()\ny = 1\u{202e}".to_owned(),
            bindings: String::new(),
            clock_ms: None,
            trace: None,
            sources: None,
            calls: Vec::new(),
        };
        ShownRun { run, calls }
    }

    const PENDING: Stage = Stage::Pending { attempts: 0 };

    #[test]
    fn what_waits_is_shown_whole_and_what_ran_is_shortened() {
        let arguments = json!({"a": "x".repeat(5_000), "path": "/etc/pass\u{200b}wd"}).to_string();
        let calls =
            vec![call(1, &arguments, Stage::Answered, None), call(2, &arguments, PENDING, None)];
        let text = run(&stored(calls, None));
        let (ran, waits) = text.split_once("  2  pending  rec-write\n").expect("both calls");
        assert!(ran.contains("\n  1  answered  rec-write  {\"a\"") && ran.len() < 800, "{ran}");
        assert!(waits.lines().all(|line| line.chars().count() <= WIDTH + 6), "{waits}");
        let joined: String = waits.lines().map(|line| &line[6..]).collect();
        assert_eq!(joined, arguments.replace('\u{200b}', "\\u200b"));
    }

    #[test]
    fn a_call_that_waits_is_shown_with_the_sources_of_each_argument() {
        let mut waits = call(1, r#"{"to":"ann"}"#, PENDING, None);
        let stored = r#"{"read":["crm","web"],"arguments":{"body":["web"],"to\n":["crm"]}}"#;
        waits.call.called.sources = Some(stored.into());
        assert_eq!(
            decided(&[&waits]),
            [
                "1  rec-write",
                "    (made after reading untrusted content from crm, web)",
                "    (the argument \"body\" may come from web)",
                "    (the argument \"to\u{27e8}U+000A\u{27e9}\" may come from crm)",
                "    {\"to\":\"ann\"}",
            ]
        );
    }

    #[test]
    fn a_run_is_shown_with_its_script_errors_and_output() {
        let error = r#"{"error":{"kind":"conflict","message":"it is closed"}}"#;
        assert!(serde_json::from_str::<CallAnswer>(error).is_ok());
        let outcome = json!({"status": "failed", "output": "one", "error": ["script_runtime", "no x"], "line": 2});
        let calls = vec![call(1, "{}", Stage::Answered, Some(error))];
        insta::assert_snapshot!(run(&stored(calls, Some(outcome))), @r"
        run_00000000000000000000000000000000  failed
        language: starlark
        began: 1970-01-01T00:00:01Z, changed: 1970-01-01T00:01:01Z
        script:
          1  
          2  x = rec.write()
          3  y = 1⟨U+202E⟩
        calls:
          1  answered  rec-write  {}
              failed: it is closed
        output:
        one
        error in line 2:
          x = rec.write()
        no x
        ");
    }

    #[test]
    fn a_row_has_what_a_run_waits_for_and_how_its_script_begins() {
        let run = stored(vec![call(1, "{}", PENDING, None)], None);
        let row = row(&summary(&run.run), &run);
        let expected = format!(
            "{}  suspended    1970-01-01T00:00:01Z  starlark  rec-write: x = rec.write()",
            run.run.id
        );
        assert_eq!(row, expected);
        assert_eq!(row.find("suspended"), Some(column("STATE")));
        assert_eq!(row.find("starlark"), Some(column("LANGUAGE")));
        assert_eq!(row.find("rec-write"), Some(column("WAITS")));
    }

    fn column(name: &str) -> usize {
        HEADER.find(name).expect("a column")
    }
}
