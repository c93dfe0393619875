//! `airlock upstream logs`.

use serde_json::Value;

use crate::cli::{outcome::Done, output, running::NamedServer};

/// Show the last lines that an MCP server wrote to standard error
///
/// The gateway keeps the last 64 KiB of the present process and of the one before it, without the
/// secrets of the configuration. A server over HTTP has none.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream logs github")]
pub(super) struct LogsArgs {
    #[command(flatten)]
    server: NamedServer,
    /// Print a JSON document: `{client, lines: […]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &LogsArgs) -> anyhow::Result<Done> {
    let logs =
        args.server.gateway.get(&format!("/api/mcp/client/{}/logs", args.server.name)).await?;
    if args.json {
        output::document(&logs)?;
        return Ok(Done::Yes);
    }
    let lines: Vec<_> =
        logs["lines"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if lines.is_empty() {
        output::hint(&format!(
            "{} has written nothing to standard error; a server over HTTP has none",
            args.server.name
        ));
    }
    for line in lines {
        output::line(&output::for_stdout(line))?;
    }
    Ok(Done::Yes)
}
