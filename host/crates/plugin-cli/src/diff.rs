//! `airlock plugin diff`.

use serde_json::json;

use super::{
    consent::{ConsentOptions, accept_command},
    difference, install,
};
use airlock_authoring::install::{AcceptedPlugins, ComparedPlugin, Obstacle};
use airlock_config::Config;
use airlock_terminal::{outcome::CommandOutcome, output, session::ConfigFile, spinner};

/// Show what has changed of plugins since they were accepted
///
/// Compares the tools, requests and code of each component with `airlock.lock`, and shows what keeps
/// a changed one from being loaded, such as a required request that is not granted, and what is granted
/// where that differs from what it requests. Invisible characters are shown as ⟨U+200B⟩. The exit code
/// is 1 if anything differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock plugin diff\n  airlock plugin diff weather --json")]
pub(super) struct PluginDiffArgs {
    /// The plugin's name in the configuration. Default: every plugin.
    client: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, plugins: [{client, changes: [{change, …}], obstacles: [text],
    /// notes: [text]}]}`.
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: &PluginDiffArgs) -> anyhow::Result<CommandOutcome> {
    let config = Config::load(&args.config.path)?;
    let accepted = AcceptedPlugins::read(&config.clients, &args.config.path)?;
    let mut plugins = Vec::new();
    let mut remedies = Vec::new();
    let mut is_same = true;
    for plugin in accepted.select(args.client.as_slice())? {
        let compared = accepted.compare(&plugin, &config, &spinner::compiling).await?;
        let ComparedPlugin { component, drift, obstacles, notes, .. } = compared;
        let client = plugin.client;
        is_same &= drift.is_none();
        if args.json {
            let obstacles: Vec<_> = obstacles.iter().map(Obstacle::to_string).collect();
            let changes = drift.map(|drift| drift.changes).unwrap_or_default();
            plugins.push(json!({
                "client": client, "changes": changes, "obstacles": obstacles, "notes": notes,
            }));
            continue;
        }
        let lines = difference::lines(&client, &component, drift.as_ref(), &obstacles, &notes);
        output::line(&lines.join("\n"))?;
        let Some(drift) = drift else { continue };
        if obstacles.is_empty() {
            let command = accept_command(&drift, &args.config);
            remedies.push(format!("`{command}` accepts it as it is now"));
        } else {
            let consent = ConsentOptions::default();
            let remedy = install::remedy(&component, &client, &args.config, &consent).await?;
            remedies.extend(remedy.map(|remedy| remedy.replace('\n', "\n  ")));
        }
    }
    if args.json {
        output::document(&json!({"ok": is_same, "plugins": plugins}))?;
    }
    for remedy in remedies {
        output::hint(&remedy);
    }
    Ok(is_same.into())
}
