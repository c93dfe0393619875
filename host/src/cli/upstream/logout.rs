//! `airlock upstream logout`.

use serde_json::json;

use airlock_core::tool::ClientName;
use airlock_mcp_oauth::Logins;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Forget the login at an MCP server
///
/// Removes the tokens from the store. They are not revoked at the authorization server, and expire
/// there. The exit code is 1 if there was no login.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock upstream logout github")]
pub(super) struct LogoutArgs {
    /// The client's name in the configuration. The client need not be in it any more.
    #[arg(value_name = "NAME", value_parser = ClientName::parse)]
    name: ClientName,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{client, removed}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &LogoutArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let removed = Logins::new(config.store_settings()?.into()).remove(&args.name).await?;
    if args.json {
        output::document(&json!({"client": args.name, "removed": removed}))?;
    } else if removed {
        output::line(&format!("the login at {} is removed", args.name))?;
    } else {
        output::line(&format!("there is no login at {}", args.name))?;
    }
    Ok(removed.into())
}
