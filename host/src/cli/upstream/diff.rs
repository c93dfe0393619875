//! `airlock upstream diff`.

use serde_json::json;

use super::reviews::{differs, document, lines, reviewed, select};
use airlock_terminal::{
    outcome::CommandOutcome,
    output,
    session::{ConfigFile, ExecutorLoad, with_gateway},
};

/// Show what MCP servers have changed since it was accepted
///
/// Starts the servers, and compares every member of every definition with the accepted one, or with
/// the first one that the gateway used. Invisible characters are shown as ⟨U+200B⟩. The exit code is
/// 1 if anything differs, or if a server does not respond.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock upstream diff\n  airlock upstream diff github --json")]
pub(super) struct UpstreamDiffArgs {
    /// The servers' names in the configuration. Default: every MCP server.
    #[arg(value_name = "CLIENT")]
    clients: Vec<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, clients: [{client, review, changes: [{tool, kind, digest,
    /// accepted_digest, accepted, pending, diff}], first_used: [{tool, definition}], …}]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &UpstreamDiffArgs) -> anyhow::Result<CommandOutcome> {
    let mut config = args.config.load_merged().await?;
    let clients = select(&config, &args.clients)?;
    config.clients.retain(|client| clients.contains(&client.name));
    with_gateway(
        config,
        ExecutorLoad::OnDemand,
        |_, _| true,
        async |gateway, _| {
            let reviewed = reviewed(gateway, &clients);
            let is_same = reviewed.iter().all(|server| {
                server.review.as_ref().is_ok_and(|review| !differs(review))
            });
            if args.json {
                let clients: Vec<_> = reviewed.iter().map(document).collect();
                output::document(&json!({"ok": is_same, "clients": clients}))?;
                return Ok(is_same.into());
            }
            for server in &reviewed {
                let client = &server.client;
                match &server.review {
                    Ok(review) => output::line(&lines(client, review).lines.join("\n"))?,
                    Err(reason) => output::line(&format!("{client}: {reason}"))?,
                }
                if let Ok(review) = &server.review
                    && differs(review)
                {
                    let option = args.config.option();
                    output::hint(&format!(
                        "`airlock upstream accept {client}{option} --expect {}` accepts exactly this",
                        review.digest()
                    ));
                }
            }
            Ok(is_same.into())
        },
    )
    .await
}
