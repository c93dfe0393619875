//! `airlock store rekey`.

use anyhow::ensure;
use serde_json::json;

use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile};

/// Seal the secrets in the store anew with the present key
///
/// Seals what is stored in plain text, or was sealed with a key of `store_old_keys`, with the key that `store_key`
/// names. Gateways that know both keys may run meanwhile. It can be stopped at any time and run again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock store rekey")]
pub(super) struct RekeyArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{store, sealed}`, where `sealed` is the number of secrets that were sealed.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &RekeyArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let settings = config.store_settings()?;
    ensure!(
        settings.seal.is_some(),
        "{} has no `store_key`, with which secrets are sealed; it may be `env.NAME` or {{\"file\": \"PATH\"}}",
        args.config.path.display()
    );
    let sealed = airlock_store::rekey(settings).await?;
    let store = config.store.to_string();
    if args.json {
        output::document(&json!({"store": store, "sealed": sealed}))?;
    } else {
        output::line(&format!("sealed {sealed} secrets of {store} anew with the present key"))?;
    }
    Ok(CommandOutcome::Success)
}
