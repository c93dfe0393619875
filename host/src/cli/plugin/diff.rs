//! `airlock plugin diff`.

use serde_json::json;

use super::{
    super::{Done, output, session::ConfigFile},
    consent::accept_command,
    pins::{Pins, lines},
};

/// Show what has changed of plugins since they were accepted
///
/// Compares the tools, requests and code of each component with `airlock.lock`. Invisible
/// characters are shown as ⟨U+200B⟩. The exit code is 1 if anything differs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  airlock plugin diff\n  airlock plugin diff weather --json")]
pub(super) struct Args {
    /// The plugin's name in the configuration. Default: every plugin.
    client: Option<String>,
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{ok, plugins: [{client, changes: [{change, …}]}]}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let pins = Pins::load(&args.config.path)?;
    let (mut plugins, mut commands) = (Vec::new(), Vec::new());
    for (client, settings) in pins.select(args.client.as_slice())? {
        let (component, drift) = pins.drift(&client, &settings).await?;
        commands.extend(drift.as_ref().map(|drift| accept_command(drift, &args.config)));
        if args.json {
            plugins.push(json!({"client": client, "changes": drift.map(|drift| drift.changes).unwrap_or_default()}));
        } else {
            output::line(&lines(&client, &component, drift.as_ref()).join("\n"))?;
        }
    }
    let is_same = commands.is_empty();
    if args.json {
        output::document(&json!({"ok": is_same, "plugins": plugins}))?;
    } else {
        for command in commands {
            output::hint(&format!("`{command}` accepts it as it is now"));
        }
    }
    Ok(is_same.into())
}
