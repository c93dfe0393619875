//! `airlock plugin upgrade`.

use std::path::PathBuf;

use airlock_authoring::SdkCopy;
use airlock_terminal::{outcome::CommandOutcome, output};

/// Replace the SDK that a plugin carries by that of this airlock
///
/// `airlock plugin new` writes the SDK into a plugin's directory: `sdk` for Rust, `airlock-plugin` for
/// JavaScript and TypeScript, `airlock_plugin`, or `airlock_guard` of a guard, for Python, with the contract
/// in `wit`. These directories are replaced as a whole, with what was changed in them. Nothing else is
/// touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock plugin upgrade weather")]
pub(super) struct UpgradeArgs {
    /// The plugin's directory.
    #[arg(default_value = ".")]
    directory: PathBuf,
}

pub(super) fn run(args: &UpgradeArgs) -> anyhow::Result<CommandOutcome> {
    for copy in SdkCopy::find(&args.directory)? {
        let is_replaced = copy.upgrade()?;
        let state = if is_replaced { "replaced" } else { "is that of this airlock already" };
        output::line(&format!("{}/: {state}", copy.name()))?;
    }
    Ok(CommandOutcome::Success)
}
