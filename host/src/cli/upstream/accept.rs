//! `airlock upstream accept`.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, anyhow, bail, ensure};
use serde_json::{Value, json};

use super::reviews::{Reviewed, first_used, lines, reviewed, select};
use airlock_core::tool::ClientName;
use airlock_gateway::Gateway;
use airlock_lock::{FILE_NAME as LOCK_FILE, Lock, LockedTool};
use airlock_terminal::{
    confirm::confirm,
    outcome::CommandOutcome,
    output,
    session::{ConfigFile, ExecutorLoad, with_gateway},
    signals::Signals,
};
use airlock_upstream::pins::Review;

/// Accept the tools of MCP servers as they are now
///
/// Starts the server, shows what has changed, and asks. Definitions that are in use without having
/// been accepted are shown and written too. What was shown is written to `airlock.lock`,
/// and what the server sends later is compared with it. A running gateway uses it within seconds. A
/// server that is in the file is compared with the file alone.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock upstream accept github\n  airlock upstream accept github search_code get_file\n  airlock upstream accept --all --yes"
)]
pub(super) struct UpstreamAcceptArgs {
    /// The server's name in the configuration.
    #[arg(value_name = "CLIENT", required_unless_present = "all")]
    client: Option<String>,
    /// Accept the changes of these tools only.
    #[arg(value_name = "TOOL", conflicts_with = "all")]
    tools: Vec<String>,
    /// Accept every change; without a server, every change of every server.
    #[arg(long)]
    all: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    /// Accept only if nothing has changed since `airlock upstream diff` printed this digest.
    #[arg(long, value_name = "DIGEST", requires = "client")]
    expect: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, lock, clients: [{client, tools, changed: [tool]}]}`.
    #[arg(long, requires = "yes")]
    json: bool,
}

pub(super) async fn run(args: &UpstreamAcceptArgs) -> anyhow::Result<CommandOutcome> {
    let mut config = args.config.load_merged().await?;
    let clients = select(&config, args.client.as_slice())?;
    config.clients.retain(|client| clients.contains(&client.name));
    with_gateway(
        config,
        ExecutorLoad::OnDemand,
        |_, _| true,
        async |gateway, signals| accept(args, &clients, gateway, signals).await,
    )
    .await
}

/// A server with the definitions that are accepted of it.
struct Accepted {
    client: ClientName,
    /// Digest of the review that was shown.
    review: String,
    tools: Vec<LockedTool>,
    changed: Vec<String>,
}

async fn accept(
    args: &UpstreamAcceptArgs,
    clients: &[ClientName],
    gateway: &Gateway,
    signals: &mut Signals,
) -> anyhow::Result<CommandOutcome> {
    let mut accepted = Vec::new();
    for server in reviewed(gateway, clients) {
        accepted.push(one(args, server)?);
    }
    if !args.yes {
        confirm(&question(&accepted), signals).await?;
    }
    for server in reviewed(gateway, clients) {
        let is_as_shown = accepted.iter().any(|shown| {
            shown.client == server.client
                && server.review.as_ref().is_ok_and(|review| review.digest() == shown.review)
        });
        ensure!(
            is_as_shown,
            "{} has changed its tools since they were shown; nothing was accepted",
            server.client
        );
    }
    let path = args.config.path.with_file_name(LOCK_FILE);
    save(&path, &accepted)?;
    if args.json {
        let clients: Vec<_> = accepted.iter().map(document).collect();
        output::document(&json!({"ok": true, "lock": path, "clients": clients}))?;
    } else {
        for server in &accepted {
            let what = if args.tools.is_empty() {
                format!("{} tools", server.tools.len())
            } else {
                output::one_line(&server.changed.join(", "), usize::MAX)
            };
            output::line(&format!("accepted {what} of {} in {}", server.client, path.display()))?;
        }
    }
    Ok(CommandOutcome::Success)
}

/// Shows the changes of one server, and returns the definitions to accept.
fn one(
    args: &UpstreamAcceptArgs,
    Reviewed { client, review }: Reviewed,
) -> anyhow::Result<Accepted> {
    let review: Review =
        review.map_err(|reason| anyhow!("{client} cannot be accepted: {reason}"))?;
    let named: BTreeSet<_> = args.tools.iter().cloned().collect();
    if !args.json {
        let mut meant = review.clone();
        meant.changes.retain(|change| is_meant(&change.tool, &named));
        let changed = lines(&client, &meant);
        let first_used = first_used(&review);
        output::line(&[changed.lines, first_used.lines].concat().join("\n"))?;
        let hidden = changed.hidden + first_used.hidden;
        ensure!(
            hidden == 0 || args.yes || args.expect.is_some(),
            "{hidden} lines about {client} are not shown, so nothing was accepted: read them with \
             `airlock upstream diff {client} --json`, and accept them with `--expect DIGEST`"
        );
    }
    if let Some(problem) = &review.problem {
        bail!("{client} cannot be accepted: {problem}");
    }
    let digest = review.digest();
    ensure!(
        args.expect.as_ref().is_none_or(|expected| *expected == digest),
        "{client} is not as `airlock upstream diff` showed it: its digest is {digest}"
    );
    let tools = review.accept((!named.is_empty()).then_some(&named))?;
    let meant = review.changes.iter().filter(|change| is_meant(&change.tool, &named));
    let changed = meant.map(|change| change.tool.clone()).collect();
    Ok(Accepted { changed, client, review: digest, tools })
}

/// Returns whether a tool is one of the named ones; without names, every tool is.
fn is_meant(tool: &str, named: &BTreeSet<String>) -> bool {
    named.is_empty() || named.contains(tool)
}

fn document(accepted: &Accepted) -> Value {
    let Accepted { client, tools, changed, .. } = accepted;
    json!({"client": client, "tools": tools.len(), "changed": changed})
}

/// Returns the question about definitions that were shown.
fn question(accepted: &[Accepted]) -> String {
    let changes: usize = accepted.iter().map(|server| server.changed.len()).sum();
    let tools: usize = accepted.iter().map(|server| server.tools.len()).sum();
    format!("write {tools} definitions, {changes} of them changed, to {LOCK_FILE}?")
}

/// Writes the accepted definitions into the lock file. All else in the file stays.
fn save(path: &Path, accepted: &[Accepted]) -> anyhow::Result<()> {
    let mut lock = Lock::load(path)?.unwrap_or_default();
    for server in accepted {
        lock.accept_upstream(&server.client, server.tools.clone());
    }
    lock.save(path).context("nothing was accepted")
}
