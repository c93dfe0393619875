//! `airlock plugin`: writes, builds and checks plugins, and records the operator's decisions about
//! them.
//!
//! No command here grants anything to a running plugin. A component is compiled, and asked for its
//! tools with everything denied. The operator's decisions go into the configuration and into
//! `airlock.lock`.

mod accept;
mod build;
mod check;
mod consent;
mod dev;
mod diff;
mod difference;
mod index;
mod inspect;
mod install;
mod new;
mod place;
mod pull;
mod push;
mod search;
mod store;
mod upgrade;

pub use self::consent::accept_command;
use airlock_terminal::{outcome::CommandOutcome, session::ConfigOfGroup};

/// Write, build, inspect, publish, install and accept plugins
///
/// A plugin is a WebAssembly component. It requests rights, and the configuration grants them.
/// `airlock.lock`, beside the configuration, pins the components that you have accepted. If the
/// file exists, the gateway loads no other component; without it, the gateway loads any component
/// that is configured. `install` and `accept` write the file.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock plugin new weather --lang python\n  airlock plugin dev weather --call get_weather '{\"city\": \"Oslo\"}'\n  airlock plugin build weather\n  airlock plugin inspect weather.wasm\n  airlock plugin install weather.wasm --grant http.api"
)]
pub struct PluginArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: PluginCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PluginCommand {
    New(new::NewArgs),
    Build(build::BuildArgs),
    Dev(dev::DevArgs),
    Inspect(inspect::InspectArgs),
    Check(check::PluginCheckArgs),
    Install(install::InstallArgs),
    Diff(diff::PluginDiffArgs),
    Accept(accept::PluginAcceptArgs),
    Push(push::PushArgs),
    Pull(pull::PullArgs),
    Index(index::IndexArgs),
    Search(search::SearchArgs),
    Store(store::StoreArgs),
    Upgrade(upgrade::UpgradeArgs),
}

/// Runs the command that the arguments name.
pub async fn run(args: &PluginArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        PluginCommand::New(args) => new::run(args),
        PluginCommand::Build(args) => build::run(args).await,
        PluginCommand::Dev(args) => dev::run(args).await,
        PluginCommand::Inspect(args) => inspect::run(args).await,
        PluginCommand::Check(args) => check::run(args).await,
        PluginCommand::Install(args) => install::run(args).await,
        PluginCommand::Diff(args) => diff::run(args).await,
        PluginCommand::Accept(args) => accept::run(args).await,
        PluginCommand::Push(args) => push::run(args).await,
        PluginCommand::Pull(args) => pull::run(args).await,
        PluginCommand::Index(args) => index::run(args).await,
        PluginCommand::Search(args) => search::run(args).await,
        PluginCommand::Store(args) => store::run(args).await,
        PluginCommand::Upgrade(args) => upgrade::run(args),
    }
}

impl PluginArgs {
    /// Log filter that applies unless the operator sets one; `None` for that of all commands.
    pub fn log_filter(&self) -> Option<&'static str> {
        match &self.command {
            PluginCommand::Dev(_) => Some(dev::FILTER),
            _ => None,
        }
    }
}
