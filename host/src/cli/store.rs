//! `airlock store`: migrates the database of the state that survives a restart, copies it, and seals its
//! secrets.

mod copy;
mod migrate;
mod rekey;

use airlock_terminal::{outcome::CommandOutcome, session::ConfigOfGroup};

/// Migrate the store of a configuration, copy it to another place, or seal its secrets anew
///
/// The store is the database that the key `store` names: a file, or a database of PostgreSQL that several
/// gateways share. A gateway makes and migrates its store when it first needs it, so `migrate` is for those who
/// want to do it before, or to see first whether it has to be done. `copy` moves a gateway from a file to a
/// server, or back. `rekey` follows a change of `store_key`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "Examples:\n  airlock store migrate --check\n  airlock store copy env.DATABASE_URL"
)]
pub(super) struct StoreArgs {
    #[command(flatten)]
    _config: ConfigOfGroup,
    #[command(subcommand)]
    command: StoreCommand,
}

#[derive(Debug, clap::Subcommand)]
enum StoreCommand {
    Migrate(migrate::MigrateArgs),
    Copy(copy::CopyArgs),
    Rekey(rekey::RekeyArgs),
}

pub(super) async fn run(args: &StoreArgs) -> anyhow::Result<CommandOutcome> {
    match &args.command {
        StoreCommand::Migrate(args) => migrate::run(args).await,
        StoreCommand::Copy(args) => copy::run(args).await,
        StoreCommand::Rekey(args) => rekey::run(args).await,
    }
}
