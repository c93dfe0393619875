//! `airlock upstream show`.

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::running::NamedServer;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Width of a text of the server, in characters.
const WIDTH: usize = 2_000;

/// Show one MCP server of a running gateway with its history
///
/// Shows the state with its reason, the protocol, the tools, the calls with the quantiles of their
/// last durations, the last failure, and the last changes of the state.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream show github")]
pub(super) struct UpstreamShowArgs {
    #[command(flatten)]
    server: NamedServer,
    /// Print the server's entry of `GET /api/mcp/clients` as a JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &UpstreamShowArgs) -> anyhow::Result<CommandOutcome> {
    let servers = args.server.gateway.servers().await?;
    let found = servers.iter().find(|server| server["config"]["name"] == args.server.name.as_str());
    let server = found.with_context(|| {
        let known: Vec<_> =
            servers.iter().filter_map(|server| server["config"]["name"].as_str()).collect();
        format!(
            "no MCP server is named {:?}; the gateway has: {}",
            args.server.name.as_str(),
            known.join(", ")
        )
    })?;
    if args.json {
        output::document(server)?;
        return Ok(CommandOutcome::Success);
    }
    for line in lines(server) {
        output::line(&line)?;
    }
    Ok(CommandOutcome::Success)
}

fn lines(server: &Value) -> Vec<String> {
    // The holder of a key sees no more than the state and the tools.
    let is_operator = server["phase"].is_string();
    let stale = if server["stale"] == true { ", of an earlier connection" } else { "" };
    let tools = server["tools_total"].as_u64().unwrap_or_default();
    let calls = format!("{} running, {} waiting", server["in_flight"], server["queued"]);
    let attempts =
        format!("{}, failed attempts in a row: {}", server["restarts"], server["attempts"]);
    let mut lines = vec![format!(
        "{} ({})",
        text(&server["config"]["name"]),
        text(&server["config"]["connection_type"])
    )];
    if !is_operator {
        lines.push(member("state", &text(&server["state"])));
        lines.push(member("tools", &tools.to_string()));
        return lines;
    }
    let mut shown = Shown::default();
    lines.extend([
        member("state", &format!("{} since {}", text(&server["phase"]), text(&server["since"]))),
        member("reason", &shown.once(&server["reason"])),
    ]);
    let protocol = &server["protocol"];
    if protocol.is_object() {
        let version =
            format!("{} ({})", text(&protocol["protocol_version"]), text(&protocol["era"]));
        lines.push(member("protocol", &version));
    }
    lines.push(member("tools", &format!("{tools}{stale}")));
    let quarantine: Vec<_> =
        server["quarantine"].as_array().into_iter().flatten().map(text).collect();
    if !quarantine.is_empty() {
        lines.push(member("quarantine", &quarantine.join(", ")));
    }
    let unchecked = server["unchecked"].as_array().into_iter().flatten().map(text);
    lines.extend(unchecked.map(|reason| member("unchecked", &reason)));
    let misfits = server["misfits"].as_array().into_iter().flatten();
    lines.extend(misfits.map(|misfit| {
        let tool = text(&misfit["tool"]);
        let results = &misfit["results"];
        member("misfits", &format!("{results} results of {tool} did not fit those before"))
    }));
    lines.push(member("calls", &calls));
    let latency = &server["latency_ms"];
    if latency.is_object() {
        let quantiles = ["p50", "p90", "p99"]
            .map(|name| format!("{name} {} ms", latency[name].as_f64().unwrap_or_default()));
        lines.push(member("latency", &quantiles.join(", ")));
    }
    lines.push(member("restarts", &attempts));
    let instances = server["instances"].as_array().into_iter().flatten();
    lines.extend(instances.map(instance));
    let failure = &server["last_failure"];
    if failure.is_object() {
        let when = text(&failure["at"]);
        let step = text(&failure["stage"]);
        let message = shown.once(&failure["message"]);
        lines.push(member("failure", &format!("{when} {step}: {message}")));
    }
    let history = server["history"].as_array();
    // Each of several instances has its own, in the document.
    lines.extend(history.map(|_| "  history".to_owned()));
    lines.extend(history.into_iter().flatten().map(|entry| change(entry, &mut shown)));
    lines
}

/// Long reasons that were printed, each of which is printed once.
#[derive(Default)]
struct Shown(Vec<String>);

/// Most characters of a reason that is printed again: enough to find it above.
const MAX_REPEATED: usize = 60;

impl Shown {
    /// Returns a reason, or its beginning if it was printed before. The history has shortened ones.
    fn once(&mut self, reason: &Value) -> String {
        let reason = reason.as_str().unwrap_or_default();
        let whole = reason.strip_suffix('…').unwrap_or(reason);
        if whole.chars().count() <= MAX_REPEATED {
            return output::both_ends(reason, WIDTH);
        }
        if self.0.iter().any(|known| known.starts_with(whole)) {
            let beginning: String = whole.chars().take(MAX_REPEATED).collect();
            return output::both_ends(&format!("{beginning}… (as above)"), WIDTH);
        }
        self.0.push(reason.to_owned());
        output::both_ends(reason, WIDTH)
    }
}

fn member(name: &str, value: &str) -> String {
    format!("  {name:10}  {value}").trim_end().to_owned()
}

fn instance(instance: &Value) -> String {
    let value = format!(
        "{}: {}, {} calls running, {} restarts: {}",
        instance["instance"],
        text(&instance["phase"]),
        instance["in_flight"],
        instance["restarts"],
        text(&instance["reason"])
    );
    member("instance", &value)
}

fn change(change: &Value, shown: &mut Shown) -> String {
    let at = text(&change["at"]);
    let phase = text(&change["phase"]);
    format!("    {at}  {phase:10}  {}", shown.once(&change["reason"])).trim_end().to_owned()
}

fn text(value: &Value) -> String {
    output::both_ends(value.as_str().unwrap_or_default(), WIDTH)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_is_shown_with_its_history() {
        let server = json!({
            "config": {"name": "fs", "connection_type": "stdio"}, "tools_total": 1, "stale": true,
            "phase": "restarting", "since": "2026-11-23T01:02:03Z", "reason": "the connection ended",
            "protocol": {"protocol_version": "2025-11-25", "era": "legacy"},
            "in_flight": 1, "queued": 0, "latency_ms": {"p50": 1.5, "p90": 2.0, "p99": 30.25},
            "restarts": 3, "attempts": 2, "quarantine": ["delete\u{200b}"],
            "misfits": [{"tool": "read", "results": 2}],
            "unchecked": ["tool \"t\": nothing can be checked against the inputSchema: #: too deep"],
            "last_failure": {"stage": "transport_lost", "message": "the connection ended",
                             "at": "2026-11-23T01:02:03Z"},
            "history": [{"phase": "starting", "reason": "first start", "at": "2026-11-23T01:02:00Z"}],
        });
        insta::assert_snapshot!(lines(&server).join("\n"), @"
        fs (stdio)
          state       restarting since 2026-11-23T01:02:03Z
          reason      the connection ended
          protocol    2025-11-25 (legacy)
          tools       1, of an earlier connection
          quarantine  delete⟨U+200B⟩
          unchecked   tool \"t\": nothing can be checked against the inputSchema: #: too deep
          misfits     2 results of read did not fit those before
          calls       1 running, 0 waiting
          latency     p50 1.5 ms, p90 2 ms, p99 30.25 ms
          restarts    3, failed attempts in a row: 2
          failure     2026-11-23T01:02:03Z transport_lost: the connection ended
          history
            2026-11-23T01:02:00Z  starting    first start
        ");
    }

    #[test]
    fn a_long_reason_is_shown_once() {
        let reason = format!("the connection ended; its stderr ends with: {}", "x".repeat(600));
        let short: String = reason.chars().take(511).chain(['…']).collect();
        let server = json!({
            "config": {"name": "fs"}, "phase": "restarting", "reason": reason,
            "last_failure": {"stage": "connect", "message": short, "at": "2026-11-23T01:02:03Z"},
            "history": [restart(&short), restart("first start"), restart(&reason)],
        });
        let text = lines(&server).join("\n");
        assert_eq!(text.matches(&"x".repeat(600)).count(), 1, "{text}");
        assert_eq!(text.matches("… (as above)").count(), 3, "{text}");
        assert!(text.contains("first start"), "{text}");
    }

    #[test]
    fn each_of_several_instances_has_a_line() {
        let server = json!({
            "config": {"name": "fs", "connection_type": "stdio"}, "tools_total": 2,
            "phase": "ready", "since": "2026-11-23T01:02:03Z", "in_flight": 1, "queued": 0,
            "reason": "1 of 2 instances get calls; instance 2 is held_out", "restarts": 1, "attempts": 0,
            "instances": [
                {"instance": 1, "phase": "ready", "reason": "it listed 2 tools", "restarts": 1, "in_flight": 1},
                {"instance": 2, "phase": "held_out", "reason": "1 of its tools\ndiffers", "restarts": 0, "in_flight": 0},
            ],
        });
        insta::assert_snapshot!(lines(&server).join("\n"), @"
        fs (stdio)
          state       ready since 2026-11-23T01:02:03Z
          reason      1 of 2 instances get calls; instance 2 is held_out
          tools       2
          calls       1 running, 0 waiting
          restarts    1, failed attempts in a row: 0
          instance    1: ready, 1 calls running, 1 restarts: it listed 2 tools
          instance    2: held_out, 0 calls running, 0 restarts: 1 of its tools differs
        ");
    }

    fn restart(reason: &str) -> Value {
        json!({"phase": "restarting", "reason": reason, "at": "2026-11-23T01:02:03Z"})
    }

    #[test]
    fn members_that_are_missing_are_left_out() {
        let server = json!({"config": {"name": "fs"}, "phase": "stopped", "in_flight": 0});
        let text = lines(&server).join("\n");
        assert!(!text.contains("latency") && !text.contains("failure"), "{text}");
        let of_key = json!({"config": {"name": "fs", "connection_type": "http"}, "state": "connected", "tools_total": 1});
        insta::assert_snapshot!(lines(&of_key).join("\n"), @"
        fs (http)
          state       connected
          tools       1
        ");
    }
}
