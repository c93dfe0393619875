//! `airlock upstream`: shows and restarts the MCP servers of a running gateway; logs in at servers;
//! shows what servers have changed, and records the operator's decisions about it in `airlock.lock`.

mod accept;
mod diff;
mod list;
mod login;
mod logout;
mod logs;
mod restart;
mod reviews;
mod show;

use airlock_terminal::{outcome::CommandOutcome, session::ConfigOfGroup};

/// Show and restart MCP servers, log in at them, and accept changes of their tools
///
/// `list` shows all servers of a running gateway with their state, and `show` one with its history.
/// `logs` shows the last lines that a server wrote to standard error. `restart` closes the connection
/// to a server and opens a new one; this also starts a server again whose attempts are used up. These
/// commands talk to the running gateway of the configuration through its Unix socket, which only its
/// own user can use, or to the one at --url, with the token of an operator in the environment variable
/// `AIRLOCK_OPERATOR_TOKEN`. Without a token, `list` and `show` show the tools that a caller sees: set
/// `AIRLOCK_KEY` to a virtual key if the gateway requires one.
///
/// `login` logs in at a server with OAuth, whose `auth_type` is "oauth". `logout` forgets the login. A
/// running gateway uses either within seconds.
///
/// The gateway pins the definitions of tools: names, descriptions, schemas and all other members. A
/// tool that has changed since it was accepted, or first used, stays in quarantine, and its old
/// definition stays in use. `diff` shows the changes and `accept` accepts them.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock upstream list\n  airlock upstream logs github --url http://127.0.0.1:8080\n  airlock upstream restart github\n  airlock upstream login github\n  airlock upstream diff\n  airlock upstream accept github search_code"
)]
pub(super) struct UpstreamArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: UpstreamCommand,
}

#[derive(Debug, clap::Subcommand)]
enum UpstreamCommand {
    Diff(diff::UpstreamDiffArgs),
    Accept(accept::UpstreamAcceptArgs),
    List(list::UpstreamListArgs),
    Show(show::UpstreamShowArgs),
    Logs(logs::LogsArgs),
    Restart(restart::RestartArgs),
    Login(login::LoginArgs),
    Logout(logout::LogoutArgs),
}

pub(super) async fn run(args: &UpstreamArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        UpstreamCommand::Diff(args) => Box::pin(diff::run(args)).await,
        UpstreamCommand::Accept(args) => Box::pin(accept::run(args)).await,
        UpstreamCommand::List(args) => list::run(args).await,
        UpstreamCommand::Show(args) => show::run(args).await,
        UpstreamCommand::Logs(args) => logs::run(args).await,
        UpstreamCommand::Restart(args) => restart::run(args).await,
        UpstreamCommand::Login(args) => login::run(args).await,
        UpstreamCommand::Logout(args) => logout::run(args).await,
    }
}
