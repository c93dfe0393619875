//! `airlock demo`.

use crate::demo;
use airlock_terminal::{outcome::CommandOutcome, spinner};

/// Show what Airlock does, in a minute and without a model
///
/// Starts a real gateway with sample plugins, an MCP server and a scripted model, and plays eight scenes
/// over HTTP: a tool call in the sandbox, a script over forty files, hostile code that is stopped, a
/// tool that needs approval, a streamed response, an agent that is an MCP client, three gateways on one store,
/// and a limit and an audit log of two.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock demo")]
pub(super) struct DemoArgs {
    /// Print what happened as a JSON document.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &DemoArgs) -> anyhow::Result<CommandOutcome> {
    Ok(demo::run(args.json, spinner::compiling).await?.into())
}

/// The MCP server that the demo connects to, on standard input and output.
pub(super) async fn mcp_server() -> anyhow::Result<CommandOutcome> {
    demo::mcp_server::run().await?;
    Ok(CommandOutcome::Success)
}
