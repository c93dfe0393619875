//! `airlock schema`.

use airlock_config as config;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Print the JSON Schema of the configuration file
///
/// Editors use it to complete and check a configuration that names it in "$schema".
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock schema > airlock.schema.json")]
pub(super) struct SchemaArgs {}

pub(super) fn run(_: &SchemaArgs) -> anyhow::Result<CommandOutcome> {
    output::document(&config::schema())?;
    Ok(CommandOutcome::Success)
}
