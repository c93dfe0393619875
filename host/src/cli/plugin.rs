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
mod edit;
mod grant;
mod inspect;
mod install;
mod new;
mod pins;
mod requested;
mod store;
mod typed;
mod upgrade;

pub(super) use self::consent::accept_command;
use super::{outcome::Done, session::ConfigOfGroup};
use crate::telemetry;

/// Write, build, inspect, install and accept plugins
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
pub(super) struct Args {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    New(new::Args),
    Build(build::Args),
    Dev(dev::Args),
    Inspect(inspect::Args),
    Check(check::Args),
    Install(install::Args),
    Diff(diff::Args),
    Accept(accept::Args),
    Store(store::Args),
    Upgrade(upgrade::Args),
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    match &args.command {
        Command::New(args) => new::run(args),
        Command::Build(args) => build::run(args).await,
        Command::Dev(args) => dev::run(args).await,
        Command::Inspect(args) => inspect::run(args).await,
        Command::Check(args) => check::run(args).await,
        Command::Install(args) => install::run(args).await,
        Command::Diff(args) => diff::run(args).await,
        Command::Accept(args) => accept::run(args).await,
        Command::Store(args) => store::run(args).await,
        Command::Upgrade(args) => upgrade::run(args),
    }
}

impl Args {
    /// Log filter that applies unless the operator sets one.
    pub(super) fn log_filter(&self) -> &'static str {
        match &self.command {
            Command::Dev(_) => dev::FILTER,
            _ => telemetry::COMMAND_FILTER,
        }
    }

    pub(super) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Inspect(args) => args.json,
            Command::Check(args) => args.json,
            Command::Diff(args) => args.json,
            Command::Build(args) => args.json,
            Command::Store(args) => args.json,
            Command::New(_)
            | Command::Dev(_)
            | Command::Install(_)
            | Command::Accept(_)
            | Command::Upgrade(_) => false,
        }
    }
}
