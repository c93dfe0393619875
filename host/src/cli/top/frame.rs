//! A sample as lines of text. Names and reasons come from servers: they are cut, and their invisible characters are
//! made visible.

use std::time::Duration;

use super::sample::{LiveCall, Sample, ServerState, ToolState};
use airlock_terminal::output::{both_ends, one_line};

/// Width of the name of a tool, in characters.
const TOOL: usize = 40;
/// Width of the name of a server, a key or an origin, in characters.
const NAME: usize = 20;
/// Most rows of each list.
const ROWS: usize = 10;

/// Returns the lines of a frame, at most `height`, each of at most `width` characters.
pub(super) fn lines(sample: &Sample, width: usize, height: usize) -> Vec<String> {
    let mut lines = head(sample);
    lines.extend(table("SERVERS", &server_head(), sample.servers.iter().map(server)));
    lines.extend(table("TOOLS", &tool_head(), sample.tools.iter().take(ROWS).map(tool)));
    let live = sample.live_calls.as_deref().unwrap_or_default();
    lines.extend(table("LONGEST CALLS", &call_head(), live.iter().take(ROWS).map(call)));
    if !sample.missing.is_empty() {
        lines.push(String::new());
        lines.push(format!("not shown by the gateway: {}", sample.missing.join(", ")));
    }
    lines.truncate(height);
    lines.iter().map(|line| line.chars().take(width).collect()).collect()
}

/// Returns the lines about the gateway as a whole.
fn head(sample: &Sample) -> Vec<String> {
    let gateway = &sample.gateway;
    let version = one_line(gateway.version.as_deref().unwrap_or("?"), NAME);
    let address = gateway.address.as_deref().map(|address| format!(" at {address}"));
    let uptime = gateway.uptime_seconds.map(Duration::from_secs);
    let uptime = uptime.map(|time| format!(", up {}", humantime::format_duration(time)));
    let decisions = sample.decisions.iter();
    let decisions: Vec<_> = decisions
        .map(|(decision, count)| format!("{count} {}", one_line(decision, NAME)))
        .collect();
    let approvals = sample.approvals.as_ref().map(|approvals| {
        let more = if approvals.has_more { "+" } else { "" };
        format!("{}{more}", approvals.waiting)
    });
    let rate = sample.calls_per_second.map(|rate| format!("{rate:.1}"));
    vec![
        format!("airlock {version}{}{}", address.unwrap_or_default(), uptime.unwrap_or_default()),
        format!(
            "requests in flight {}   calls {}   calls/s {}   approvals waiting {}",
            shown(sample.requests_in_flight),
            shown(sample.calls),
            shown(rate),
            shown(approvals)
        ),
        format!("decisions {}", shown((!decisions.is_empty()).then(|| decisions.join(", ")))),
    ]
}

/// Returns the lines of a table with an empty line before it; none without rows.
fn table(title: &str, head: &str, rows: impl Iterator<Item = String>) -> Vec<String> {
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let head = [String::new(), format!("{title} ({})", rows.len()), head.to_owned()];
    head.into_iter().chain(rows).collect()
}

fn server_head() -> String {
    format!(
        "{:NAME$}  {:10}  {:>7}  {:>6}  {:>8}  {:>8}  {:>8}  REASON",
        "NAME", "STATE", "RUNNING", "QUEUED", "RESTARTS", "P50 ms", "P95 ms"
    )
}

fn server(server: &ServerState) -> String {
    let ServerState { name, state, in_flight, queue, restarts, p50_ms, p95_ms, reason } = server;
    let row = format!(
        "{:NAME$}  {:10}  {in_flight:>7}  {queue:>6}  {restarts:>8}  {:>8}  {:>8}  {}",
        one_line(name, NAME),
        one_line(state, 10),
        shown(*p50_ms),
        shown(*p95_ms),
        both_ends(reason.as_deref().unwrap_or_default(), 60)
    );
    row.trim_end().to_owned()
}

fn tool_head() -> String {
    format!(
        "{:TOOL$}  {:>7}  {:>8}  {:>8}  {:>8}  {:>8}",
        "NAME", "RUNNING", "CALLS", "ERRORS", "P50 ms", "P95 ms"
    )
}

fn tool(tool: &ToolState) -> String {
    let ToolState { tool, in_flight, calls, errors, p50_ms, p95_ms } = tool;
    format!(
        "{:TOOL$}  {in_flight:>7}  {calls:>8}  {errors:>8}  {:>8}  {:>8}",
        one_line(tool, TOOL),
        shown(*p50_ms),
        shown(*p95_ms)
    )
}

fn call_head() -> String {
    format!("{:TOOL$}  {:>10}  {:NAME$}  {:NAME$}  ID", "TOOL", "SECONDS", "KEY", "ORIGIN")
}

fn call(call: &LiveCall) -> String {
    let LiveCall { id, tool, key, origin, age_ms } = call;
    let tenths = age_ms / 100;
    let seconds = format!("{}.{}", tenths / 10, tenths % 10);
    format!(
        "{:TOOL$}  {seconds:>10}  {:NAME$}  {:NAME$}  {}",
        one_line(tool, TOOL),
        one_line(key.as_deref().unwrap_or("-"), NAME),
        one_line(origin, NAME),
        one_line(id, TOOL)
    )
}

fn shown(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cli::top::sample::{GatewayState, WaitingApprovals};

    fn sample() -> Sample {
        let hostile = "up-\u{1b}[2J\u{202e}tool";
        Sample::of_test(
            GatewayState {
                address: None,
                version: Some("1.2.3".to_owned()),
                uptime_seconds: Some(3_661),
            },
            BTreeMap::from([("allowed".to_owned(), 5), ("refused".to_owned(), 1)]),
            WaitingApprovals { waiting: 2, has_more: true },
            vec![ToolState {
                tool: hostile.to_owned(),
                in_flight: 1,
                calls: 7,
                p50_ms: Some(12.0),
                ..ToolState::default()
            }],
            vec![LiveCall {
                id: "call_1".to_owned(),
                tool: hostile.to_owned(),
                key: None,
                origin: "model".to_owned(),
                age_ms: 61_250,
            }],
        )
    }

    #[test]
    fn a_frame_has_no_character_that_acts_on_the_terminal() {
        let lines = lines(&sample(), 200, 100);
        let text = lines.join("\n");
        assert!(text.contains("up-⟨U+001B⟩[2J⟨U+202E⟩tool"), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        assert_eq!(lines[0], "airlock 1.2.3, up 1h 1m 1s");
        assert_eq!(lines[1], "requests in flight -   calls -   calls/s -   approvals waiting 2+");
        assert_eq!(lines[2], "decisions 5 allowed, 1 refused");
        assert!(text.contains("61.2"), "{text}");
    }

    #[test]
    fn a_frame_fits_into_the_terminal() {
        let lines = lines(&sample(), 30, 5);
        assert_eq!(lines.len(), 5);
        assert!(lines.iter().all(|line| line.chars().count() <= 30), "{lines:?}");
    }
}
