//! `airlock upstream logs`.

use serde_json::Value;

use crate::cli::running::{NamedInstance, NamedServer};
use airlock_terminal::{outcome::CommandOutcome, output};

/// Show the last lines that an MCP server wrote to standard error
///
/// The gateway keeps the last 64 KiB of the present process and of the one before it, without the
/// secrets of the configuration. A server over HTTP has none. Lines of a server with several instances
/// begin with the number of the instance.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream logs github")]
pub(super) struct LogsArgs {
    #[command(flatten)]
    server: NamedServer,
    #[command(flatten)]
    instance: NamedInstance,
    /// Print a JSON document: `{client, lines: […]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &LogsArgs) -> anyhow::Result<CommandOutcome> {
    let path = format!("/api/mcp/client/{}/logs{}", args.server.name, args.instance.query());
    let logs = args.server.gateway.get(&path).await?;
    if args.json {
        output::document(&logs)?;
        return Ok(CommandOutcome::Success);
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
    Ok(CommandOutcome::Success)
}
