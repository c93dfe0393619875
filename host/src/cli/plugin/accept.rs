//! `airlock plugin accept`.

use anyhow::ensure;

use super::{
    super::{confirm::confirm, outcome::Done, output, session::ConfigFile, signals::Signals},
    consent::{ConsentOptions, accept_command},
    install,
    obstacle::{Obstacle, obstacles_to_accepting},
    pins::{Pins, lines},
};
use airlock_authoring::Component;
use airlock_config::Config;
use airlock_core::tool::ClientName;
use airlock_lock::FILE_NAME as LOCK_FILE;
use airlock_plugin::{Configured, Consent, Drift};

/// Accept plugins as they are now
///
/// Shows what has changed since they were accepted, asks, and pins them in `airlock.lock`. A running
/// gateway loads them within seconds. If the file exists, a plugin that is not in it is not loaded.
/// A granted request that has become wider must be named with `--regrant`, and another id needs
/// `--change-id`; otherwise nothing is accepted. The same holds for a plugin that cannot be loaded, for
/// example because it requires a request that is not granted.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "airlock plugin accept [OPTIONS] <CLIENT>...\n       airlock plugin accept [OPTIONS] --all",
    after_help = "Examples:\n  airlock plugin accept weather\n  airlock plugin accept weather --regrant http.api\n  airlock plugin accept --all\n  airlock plugin accept --all --yes"
)]
pub(super) struct PluginAcceptArgs {
    /// The plugins' names in the configuration.
    #[arg(value_name = "CLIENT", required_unless_present = "all")]
    clients: Vec<String>,
    /// Accept every plugin.
    #[arg(long, conflicts_with_all = ["clients", "regrant", "change_id"])]
    all: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    consent: ConsentOptions,
    #[command(flatten)]
    config: ConfigFile,
}

pub(super) async fn run(args: &PluginAcceptArgs) -> anyhow::Result<Done> {
    let consent = args.consent.consent();
    ensure!(
        consent == Consent::default() || args.clients.len() == 1,
        "--regrant and --change-id are for one plugin; accept it in a command of its own"
    );
    let config = Config::load(&args.config.path)?;
    let mut pins = Pins::of(&config.clients, &args.config.path)?;
    let mut refusals = Vec::new();
    let mut is_changed = pins.is_new;
    let selected = pins.select(&args.clients)?;
    let count = selected.len();
    for plugin in selected {
        let (component, drift) = pins.drift(&plugin).await?;
        let Configured { client, settings, .. } = plugin;
        let obstacles = obstacles_to_accepting(drift.as_ref(), &component, &client, &config);
        output::line(&lines(&client, &component, drift.as_ref(), &obstacles).join("\n"))?;
        let unknown = args.consent.unknown(component.metadata.manifest.as_ref(), &settings.grant);
        ensure!(unknown.is_empty(), "{}", unknown.join("\n  "));
        for note in args.consent.unneeded(drift.as_ref()) {
            output::hint(&note);
        }
        is_changed |= drift.is_some();
        if let Some(drift) = drift {
            refusals.extend(refusal(args, &pins, &client, &component, &drift, &obstacles).await?);
        }
        pins.lock.accept(component.metadata.pin(&client));
    }
    ensure!(refusals.is_empty(), "{}", text(&refusals));
    let path = pins.path.display();
    if is_changed {
        if !args.yes {
            confirm(&question(count), &mut Signals::catch()?).await?;
        }
        pins.save()?;
        output::line(&format!("accepted in {path}"))?;
    } else {
        output::line(&format!("nothing has changed since it was accepted; {path} stays as it is"))?;
    }
    for client in pins.unpinned() {
        output::hint(&format!(
            "{client} is not in it and is not loaded before you type `airlock plugin accept {client}{}`",
            args.config.option()
        ));
    }
    Ok(Done::Yes)
}

/// Returns the question about plugins that were shown.
fn question(count: usize) -> String {
    let noun = if count == 1 { "plugin" } else { "plugins" };
    format!("write {count} {noun} as shown to {LOCK_FILE}?")
}

/// A plugin that is not accepted.
struct RefusedPlugin {
    reasons: Vec<String>,
    /// The command that accepts it, below its heading; `None` if no option helps.
    remedy: Option<String>,
}

/// Returns the reasons that a plugin is not accepted; `None` if it is.
async fn refusal(
    args: &PluginAcceptArgs,
    pins: &Pins,
    client: &ClientName,
    component: &Component,
    drift: &Drift,
    obstacles: &[Obstacle],
) -> anyhow::Result<Option<RefusedPlugin>> {
    let consent = args.consent.consent();
    let lacking = drift.changes.iter().filter(|change| consent.lacks(change));
    let lacking = lacking.map(|change| format!("  {client}: {change}"));
    let reasons = obstacles.iter().map(|obstacle| format!("  {client}: {obstacle}"));
    let reasons: Vec<_> = reasons.chain(lacking).collect();
    if reasons.is_empty() {
        return Ok(None);
    }
    let remedy = if obstacles.is_empty() {
        Some(format!("if you agree:\n  {}", accept_command(drift, &args.config)))
    } else {
        install::remedy(component, client, pins, &args.config, &args.consent).await?
    };
    Ok(Some(RefusedPlugin { reasons, remedy }))
}

/// Explains why nothing was accepted, with the commands that accept each plugin.
fn text(refusals: &[RefusedPlugin]) -> String {
    let mut lines = vec!["nothing was accepted:".to_owned()];
    lines.extend(refusals.iter().flat_map(|refusal| &refusal.reasons).cloned());
    let remedies = refusals.iter().filter_map(|refusal| refusal.remedy.as_ref());
    lines.extend(remedies.map(|remedy| format!("\n{remedy}")));
    lines.join("\n")
}
