//! `airlock upstream restart`.

use super::running::Running;
use crate::{
    cli::{Done, output},
    tool::ClientName,
};

/// Close the connection to an MCP server and open a new one
///
/// Waits until the server has started and listed its tools. The attempts are counted anew, so this
/// also starts a server in the state `failed`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream restart github")]
pub(super) struct Args {
    /// The client's name in the configuration.
    #[arg(value_name = "NAME", value_parser = ClientName::parse)]
    name: ClientName,
    #[command(flatten)]
    gateway: Running,
    /// Print a JSON document: `{status, message}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let done = args.gateway.post(&format!("/api/mcp/client/{}/reconnect", args.name)).await?;
    if args.json {
        output::document(&done)?;
    } else {
        output::line(&format!("{} is connected", args.name))?;
    }
    Ok(Done::Yes)
}
