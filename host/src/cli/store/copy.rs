//! `airlock store copy`.

use anyhow::Context as _;
use serde_json::json;

use airlock_config::environment;
use airlock_store::{Location, Settings};
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Beginning of a target that is in the environment.
const VARIABLE: &str = "env.";

/// Copy everything in the store to another place, which has to be empty
///
/// The copy is complete, or nothing is copied. Stop the gateways that use the store before: what they write
/// after the copy began is not copied. Then set the key `store` to the new place.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock store copy env.DATABASE_URL\n  airlock store copy /var/lib/airlock/copy.db"
)]
pub(super) struct CopyArgs {
    /// The new place: a path, a URL that begins with postgres://, or env.NAME for one in the environment, so
    /// that the list of processes does not show its password.
    #[arg(value_name = "TO")]
    to: String,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{from, to, rows}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &CopyArgs) -> anyhow::Result<CommandOutcome> {
    let from = args.config.load()?.store;
    let to = target(&args.to)?;
    let rows = airlock_store::copy(Settings::at(from.clone()), Settings::at(to.clone())).await?;
    let [from, to] = [from, to].map(|location| location.to_string());
    if args.json {
        output::document(&json!({"from": from, "to": to, "rows": rows}))?;
    } else {
        output::line(&format!("{rows} rows of {from} are copied to {to}"))?;
    }
    Ok(true.into())
}

fn target(text: &str) -> anyhow::Result<Location> {
    let Some(name) = text.strip_prefix(VARIABLE) else { return Ok(text.parse()?) };
    let value = environment(name).filter(|value| !value.is_empty());
    let value = value.with_context(|| format!("the environment variable {name} is not set"))?;
    value.parse().with_context(|| format!("the environment variable {name} cannot be used"))
}
