//! `airlock upstream list`.

use std::io::IsTerminal as _;

use serde_json::{Value, json};

use crate::cli::running::RunningGateway;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Widths of the last column on a terminal and elsewhere, in characters.
const TERMINAL_WIDTH: usize = 60;
const FILE_WIDTH: usize = 600;

/// List the MCP servers of a running gateway
///
/// A server is `ready` for calls, `degraded` if its last list of tools is in doubt, `starting`,
/// `restarting` after a failure, `stopped` until a call needs it, `disabled` in its settings, or
/// `failed` until an operator acts: see its reason. A server with several instances is in the best state of
/// them. Tools in quarantine differ from what was accepted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream list --url http://127.0.0.1:8080")]
pub(super) struct UpstreamListArgs {
    #[command(flatten)]
    gateway: RunningGateway,
    /// Print a JSON document: `{upstreams: [{config, tools, state, phase, reason, …}]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &UpstreamListArgs) -> anyhow::Result<CommandOutcome> {
    let servers = args.gateway.servers().await?;
    if args.json {
        output::document(&json!({"upstreams": servers}))?;
        return Ok(CommandOutcome::Success);
    }
    let width = if std::io::stdout().is_terminal() { TERMINAL_WIDTH } else { FILE_WIDTH };
    for line in table(&servers, width) {
        output::line(&line)?;
    }
    Ok(CommandOutcome::Success)
}

/// Returns the lines of the table. The reason has at most `width` characters.
fn table(servers: &[Value], width: usize) -> Vec<String> {
    let name_width = servers.iter().map(|server| name(server).len()).max().unwrap_or(0).max(4);
    let head = format!(
        "{:name_width$}  {:6}  {:10}  {:>5}  {:>10}  {:>8}  REASON",
        "NAME", "TYPE", "STATE", "TOOLS", "QUARANTINE", "RESTARTS"
    );
    let rows = servers.iter().map(|server| {
        let reason = output::both_ends(server["reason"].as_str().unwrap_or_default(), width);
        let row = format!(
            "{:name_width$}  {:6}  {:10}  {:>5}  {:>10}  {:>8}  {reason}",
            name(server),
            text(&server["config"]["connection_type"]),
            // The holder of a key does not see the phase.
            text(server.get("phase").unwrap_or(&server["state"])),
            server["tools_total"].as_u64().unwrap_or_default(),
            count(server["quarantine"].as_array().map(Vec::len)),
            count(server["restarts"].as_u64()),
        );
        row.trim_end().to_owned()
    });
    std::iter::once(head).chain(rows).collect()
}

fn name(server: &Value) -> String {
    text(&server["config"]["name"])
}

fn count(count: Option<impl ToString>) -> String {
    count.map_or("-".to_owned(), |count| count.to_string())
}

fn text(value: &Value) -> String {
    output::one_line(value.as_str().unwrap_or_default(), usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_one_line_for_each_server_without_invisible_characters() {
        let servers = [
            server("fs", "ready", "it listed 2 tools"),
            server("github_enterprise", "failed", "it ended\n\u{1b}[2J with exit status: 1"),
            json!({"config": {"name": "key", "connection_type": "http"}, "tools_total": 0, "state": "connected"}),
        ];
        insta::assert_snapshot!(table(&servers, 30).join("\n"), @"
        NAME               TYPE    STATE       TOOLS  QUARANTINE  RESTARTS  REASON
        fs                 stdio   ready           2           1        12  it listed 2 tools
        github_enterprise  stdio   failed          2           1        12  it ended ⟨U+00… exit status: 1
        key                http    connected       0           -         -
        ");
    }

    fn server(name: &str, phase: &str, reason: &str) -> Value {
        json!({
            "config": {"name": name, "connection_type": "stdio"}, "phase": phase,
            "tools_total": 2, "restarts": 12, "reason": reason, "quarantine": ["a"],
        })
    }
}
