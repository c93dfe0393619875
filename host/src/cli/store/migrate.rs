//! `airlock store migrate`.

use serde_json::json;

use airlock_store::{Database, SchemaState, Settings};
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Migrate the store to the tables of this version
///
/// Makes the store if there is none. Of several gateways and commands that do it at the same time, one does,
/// and the others wait. With `--check`, nothing is changed, and the exit code is 1 if a migration is due.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock store migrate --check\n  airlock store migrate")]
pub(super) struct MigrateArgs {
    /// Show the version of the tables, and change nothing.
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{store, found, known, migrated}`, where `found` is the version before.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &MigrateArgs) -> anyhow::Result<CommandOutcome> {
    let location = args.config.load()?.store;
    let settings = Settings::at(location.clone());
    let state = Database::schema_state(settings.clone()).await?;
    let is_migrated = state.needs_migration() && !args.check;
    if is_migrated {
        Database::open(settings).await?;
    }
    let SchemaState { found, known } = state;
    if args.json {
        let store = location.to_string();
        output::document(
            &json!({"store": store, "found": found, "known": known, "migrated": is_migrated}),
        )?;
    } else {
        let tables =
            found.map_or("no tables".to_owned(), |found| format!("tables of version {found}"));
        output::line(&match (is_migrated, state.needs_migration()) {
            (true, _) => format!("{location} had {tables}, and is migrated to version {known}"),
            (false, true) => {
                format!("{location} has {tables}, and has to be migrated to version {known}")
            }
            (false, false) => format!("{location} has {tables}, which this version uses"),
        })?;
    }
    Ok((is_migrated || !state.needs_migration()).into())
}
