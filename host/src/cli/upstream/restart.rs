//! `airlock upstream restart`.

use super::running::Server;
use crate::cli::{Done, output};

/// Close the connection to an MCP server and open a new one
///
/// Waits until the server has started and listed its tools. The attempts are counted anew, so this
/// also starts a server in the state `failed`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream restart github")]
pub(super) struct Args {
    #[command(flatten)]
    server: Server,
    /// Print a JSON document: `{status, message}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let done = args
        .server
        .gateway
        .post(&format!("/api/mcp/client/{}/reconnect", args.server.name))
        .await?;
    if args.json {
        output::document(&done)?;
    } else {
        output::line(&format!("{} is connected", args.server.name))?;
    }
    Ok(Done::Yes)
}
