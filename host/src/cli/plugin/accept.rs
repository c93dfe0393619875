//! `airlock plugin accept`.

use super::{
    super::{Done, output, session::ConfigFile},
    pins::{Pins, lines},
};

/// Accept plugins as they are now
///
/// Shows what has changed since they were accepted, and pins them in `airlock.lock`. A running
/// gateway loads them within seconds. If the file exists, a plugin that is not in it is not loaded.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock plugin accept weather\n  airlock plugin accept --all")]
pub(super) struct Args {
    /// The plugins' names in the configuration.
    #[arg(value_name = "CLIENT", required_unless_present = "all")]
    clients: Vec<String>,
    /// Accept every plugin.
    #[arg(long, conflicts_with = "clients")]
    all: bool,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let mut pins = Pins::load(&args.config.path)?;
    for (client, settings) in pins.select(&args.clients)? {
        let (component, drift) = pins.drift(&client, &settings).await?;
        output::line(&lines(&client, &component, drift.as_ref()).join("\n"))?;
        pins.lock.accept(&client, &component.metadata);
    }
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
