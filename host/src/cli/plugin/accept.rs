//! `airlock plugin accept`.

use anyhow::ensure;

use super::{
    super::{Done, output, session::ConfigFile},
    consent::{ConsentOptions, accept_command},
    pins::{Pins, lines},
};
use crate::plugin::{Consent, Drift};

/// Accept plugins as they are now
///
/// Shows what has changed since they were accepted, and pins them in `airlock.lock`. A running
/// gateway loads them within seconds. If the file exists, a plugin that is not in it is not loaded.
/// A granted request that has become wider must be named with `--regrant`, and another id needs
/// `--change-id`; otherwise nothing is accepted.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin accept weather\n  airlock plugin accept weather --regrant http.api\n  airlock plugin accept --all"
)]
pub(super) struct Args {
    /// The plugins' names in the configuration.
    #[arg(value_name = "CLIENT", required_unless_present = "all")]
    clients: Vec<String>,
    /// Accept every plugin.
    #[arg(long, conflicts_with_all = ["clients", "regrant", "change_id"])]
    all: bool,
    #[command(flatten)]
    consent: ConsentOptions,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let consent = args.consent.consent();
    ensure!(
        consent == Consent::default() || args.clients.len() == 1,
        "--regrant and --change-id are for one plugin; accept it in a command of its own"
    );
    let mut pins = Pins::load(&args.config.path)?;
    let mut refused = Vec::new();
    for (client, settings) in pins.select(&args.clients)? {
        let (component, drift) = pins.drift(&client, &settings).await?;
        output::line(&lines(&client, &component, drift.as_ref()).join("\n"))?;
        args.consent.check(component.metadata.manifest.as_ref())?;
        let lacks = |drift: &Drift| drift.changes.iter().any(|change| consent.lacks(change));
        refused.extend(drift.filter(lacks));
        pins.lock.accept(&client, &component.metadata);
    }
    ensure!(refused.is_empty(), "{}", refusal(&refused, &consent, &args.config));
    pins.save()?;
    output::line(&format!("accepted in {}", pins.path.display()))?;
    for client in pins.unpinned() {
        output::hint(&format!(
            "{client} is not in it and is not loaded before you type `airlock plugin accept {client}{}`",
            args.config.option()
        ));
    }
    Ok(Done::Yes)
}

/// Explains what needs the operator's consent, with the commands that give it.
fn refusal(refused: &[Drift], consent: &Consent, config: &ConfigFile) -> String {
    let mut lines = vec!["nothing was accepted:".to_owned()];
    for drift in refused {
        let lacking = drift.changes.iter().filter(|change| consent.lacks(change));
        lines.extend(lacking.map(|change| format!("  {}: {change}", drift.client)));
    }
    lines.push("\nif you agree:".to_owned());
    lines.extend(refused.iter().map(|drift| format!("  {}", accept_command(drift, config))));
    lines.join("\n")
}
