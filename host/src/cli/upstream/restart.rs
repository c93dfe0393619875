//! `airlock upstream restart`.

use anyhow::anyhow;

use crate::cli::{
    outcome::Done,
    output,
    running::{GatewayRefusal, NamedServer},
};

/// Width of the reason of a failure, in characters.
const WIDTH: usize = 2_000;

/// Close the connection to an MCP server and open a new one
///
/// Waits until the server has started and listed its tools. The attempts are counted anew, so this
/// also starts a server in the state `failed`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream restart github")]
pub(super) struct RestartArgs {
    #[command(flatten)]
    server: NamedServer,
    /// Print a JSON document: `{status, message}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &RestartArgs) -> anyhow::Result<Done> {
    let name = &args.server.name;
    let done = args.server.gateway.post(&format!("/api/mcp/client/{name}/reconnect")).await;
    let done = done.map_err(|error| match error.downcast_ref::<GatewayRefusal>() {
        Some(refused) if refused.code == "upstream_failed" => {
            anyhow!("{name} did not start: {}", output::both_ends(&refused.message, WIDTH))
        }
        _ => error,
    })?;
    if args.json {
        output::document(&done)?;
    } else {
        output::line(&format!("{name} is connected"))?;
    }
    Ok(Done::Yes)
}
