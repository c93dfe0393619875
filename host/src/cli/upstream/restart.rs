//! `airlock upstream restart`.

use anyhow::anyhow;
use serde_json::Value;

use crate::cli::running::{GatewayRefusal, NamedInstance, NamedServer};
use airlock_terminal::{outcome::CommandOutcome, output};

/// Width of the reason of a failure, in characters.
const WIDTH: usize = 2_000;

/// Close the connection to an MCP server and open a new one
///
/// Waits until the server has started and listed its tools. The attempts are counted anew, so this
/// also starts a server in the state `failed`. The instances of a server that has several are restarted
/// one after the other; it succeeds if one of them is connected, with a warning for each one that is not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream restart github")]
pub(super) struct RestartArgs {
    #[command(flatten)]
    server: NamedServer,
    #[command(flatten)]
    instance: NamedInstance,
    /// Print a JSON document: `{status, message, warnings}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &RestartArgs) -> anyhow::Result<CommandOutcome> {
    let name = &args.server.name;
    let path = format!("/api/mcp/client/{name}/reconnect{}", args.instance.query());
    let done = args.server.gateway.post(&path).await;
    let done = done.map_err(|error| match error.downcast_ref::<GatewayRefusal>() {
        Some(refused) if refused.code == "upstream_failed" => {
            anyhow!("{name} did not start: {}", output::both_ends(&refused.message, WIDTH))
        }
        _ => error,
    })?;
    if args.json {
        output::document(&done)?;
    } else {
        for reason in done["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            output::warning(&format!("not connected: {}", output::both_ends(reason, WIDTH)));
        }
        output::line(&format!("{name} is connected"))?;
    }
    Ok(CommandOutcome::Success)
}
