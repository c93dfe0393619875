//! Reports of a golden plugin while a call runs: its log lines, its progress, and the parts that it
//! emits before its result. `tests/golden` has no expected values for them, and does not change; so
//! they are here.

use airlock::{
    Gateway,
    door::{Budget, Caller, CallerCapabilities, Event, Origin},
};
use airlock_tests::{Setup, wait::SOON};
use serde_json::{Value, json};

/// Log lines of `show`, without their times and places.
const LINES: [&str; 5] = [
    r#"TRACE plugin=golden line="a" fields="""#,
    r#"DEBUG plugin=golden line="b" fields="""#,
    r#"INFO plugin=golden line="shows" fields="number=7""#,
    r#"WARN plugin=golden line="d" fields="""#,
    r#"ERROR plugin=golden line="e" fields="""#,
];

/// Checks the events of the calls that report something, in their order.
pub(super) async fn are_as_released(gateway: &Gateway) {
    let progress = json!({"progress": {"done": 1.0, "total": 2.0, "message": "half"}});
    let early = json!({"part": {"type": "text", "text": "early"}});
    assert_eq!(events(gateway, "show").await, [progress, early.clone()]);
    assert_eq!(events(gateway, "fail").await, [early]);
    assert_eq!(events(gateway, "list_all").await, [Value::Null; 0]);
}

/// Returns the events that a call sends before its result.
async fn events(gateway: &Gateway, tool: &str) -> Vec<Value> {
    let view = gateway.caller(Origin::Caller).view().clone();
    let budget = Budget { deadline: SOON, script: SOON, nested_calls: 64, depth: 4, in_flight: 8 };
    let (caller, mut events) =
        Caller::with_events(view, Origin::Caller, budget, CallerCapabilities::default());
    let call = caller.admit(&format!("golden-{tool}"), "{}").expect("it is permitted");
    // One of the tools fails on purpose.
    let _ = call.run().await;
    let mut seen = Vec::new();
    while let Ok(event) = events.try_recv() {
        seen.push(match event {
            Event::Progress { progress, .. } => json!({"progress": progress}),
            Event::Partial { part, .. } => json!({"part": part}),
            Event::Log { .. } => json!("a log message of an MCP server"),
            Event::Deferred { .. } => json!("a task of an MCP server"),
        });
    }
    seen
}

/// Checks the log lines of a call, at every level.
pub(super) async fn are_logged_as_released(setup: &Setup) {
    let call = setup.airlock("call").arg("golden-show").arg("{}");
    let log = call.env("AIRLOCK_LOG", "airlock=trace").run().await.ok().stderr;
    let lines: Vec<_> = log.lines().filter_map(plugin_line).collect();
    assert_eq!(lines, LINES, "{log}");
}

/// Returns the level and the fields of a log line that a plugin wrote; `None` for another line.
fn plugin_line(line: &str) -> Option<String> {
    let (head, fields) = line.split_once(": plugin log ")?;
    let level = head.split_whitespace().nth(1)?;
    Some(format!("{level} {fields}"))
}
