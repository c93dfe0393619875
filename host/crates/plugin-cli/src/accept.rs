//! `airlock plugin accept`.

use anyhow::ensure;

use super::{
    consent::{ConsentOptions, accept_command},
    difference, install,
};
use airlock_authoring::install::{AcceptedPlugins, ComparedPlugin};
use airlock_config::Config;
use airlock_core::tool::ClientName;
use airlock_lock::FILE_NAME as LOCK_FILE;
use airlock_plugin::{Configured, Consent};
use airlock_terminal::{
    confirm::confirm, outcome::CommandOutcome, output, session::ConfigFile, signals::Signals,
    spinner,
};

/// Accept plugins as they are now
///
/// Shows what has changed since they were accepted, and what they are granted where that differs from what they
/// request; asks, and pins them in `airlock.lock`. A running gateway loads them within seconds. If the file exists, a
/// plugin that is not in it is not loaded.
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

pub(super) async fn run(args: &PluginAcceptArgs) -> anyhow::Result<CommandOutcome> {
    let consent = args.consent.consent();
    ensure!(
        consent == Consent::default() || args.clients.len() == 1,
        "--regrant and --change-id are for one plugin; accept it in a command of its own"
    );
    let config = Config::load(&args.config.path)?;
    let mut accepted = AcceptedPlugins::read(&config.clients, &args.config.path)?;
    let mut refusals = Vec::new();
    let mut is_changed = accepted.is_new;
    let selected = accepted.select(&args.clients)?;
    let count = selected.len();
    for plugin in selected {
        let compared = accepted.compare(&plugin, &config, &spinner::compiling).await?;
        let ComparedPlugin { component, drift, obstacles, notes, pin } = &compared;
        let Configured { client, settings, .. } = plugin;
        let lines = difference::lines(&client, component, drift.as_ref(), obstacles, notes);
        output::line(&lines.join("\n"))?;
        let unknown = consent.unknown(component.metadata.manifest.as_ref(), &settings.grant);
        ensure!(unknown.is_empty(), "{}", unknown.join("\n  "));
        for note in consent.unneeded(drift.as_ref()) {
            output::hint(&note);
        }
        let was = accepted.lock.pin(&client).and_then(|was| was.publisher.as_ref());
        is_changed |= drift.is_some() || was != pin.publisher.as_ref();
        refusals.extend(refusal(args, &client, &compared).await?);
        accepted.lock.accept(pin.clone());
    }
    ensure!(refusals.is_empty(), "{}", text(&refusals));
    let path = accepted.path.display();
    if is_changed {
        if !args.yes {
            confirm(&question(count), &mut Signals::catch()?).await?;
        }
        accepted.save()?;
        output::line(&format!("accepted in {path}"))?;
    } else {
        output::line(&format!("nothing has changed since it was accepted; {path} stays as it is"))?;
    }
    for client in accepted.unpinned() {
        output::hint(&format!(
            "{client} is not in it and is not loaded before you type `airlock plugin accept {client}{}`",
            args.config.option()
        ));
    }
    Ok(CommandOutcome::Success)
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
    client: &ClientName,
    ComparedPlugin { component, drift, obstacles, .. }: &ComparedPlugin,
) -> anyhow::Result<Option<RefusedPlugin>> {
    let consent = args.consent.consent();
    let changes = drift.iter().flat_map(|drift| &drift.changes);
    let lacking = changes.filter(|change| consent.lacks(change));
    let lacking = lacking.map(|change| format!("  {client}: {change}"));
    let reasons = obstacles.iter().map(|obstacle| format!("  {client}: {obstacle}"));
    let reasons: Vec<_> = reasons.chain(lacking).collect();
    if reasons.is_empty() {
        return Ok(None);
    }
    let remedy = match drift {
        Some(drift) if obstacles.is_empty() => {
            Some(format!("if you agree:\n  {}", accept_command(drift, &args.config)))
        }
        _ => install::remedy(component, client, &args.config, &args.consent).await?,
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
