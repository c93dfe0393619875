//! `airlock tools`.

use std::io::IsTerminal as _;

use serde_json::{Value, json};

use super::{
    Done, output,
    session::{self, ConfigFile},
};
use crate::{
    door::{Entry, Origin, Placement},
    gateway::Gateway,
    text::{visible, visible_line},
};

/// Width of a table line on a terminal, in columns. Elsewhere, descriptions are cut only to keep
/// one line per tool.
const TERMINAL_WIDTH: usize = 100;
const FILE_WIDTH: usize = 400;

/// List every tool and how it may be called
///
/// A tool in mode `auto` runs when a model calls it; in mode `asks` it waits for an approval. A
/// tool in mode `script` is offered to scripts and not to models.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  airlock tools --config airlock.json")]
pub(super) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Print a JSON document: `{tools: [{name, client, mode, …}], sources: [{name, state, …}]}`.
    #[arg(long)]
    pub(super) json: bool,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    args.config
        .with_gateway(
            |_, _| true,
            async |gateway, _| {
                if args.json {
                    output::document(&document(gateway))?;
                } else {
                    table(gateway, &args.config)?;
                }
                Ok(Done::Yes)
            },
        )
        .await
}

fn mode(entry: &Entry) -> &'static str {
    match (entry.placement, entry.auto) {
        (Placement::Script, true) => "script",
        (Placement::Script, false) => "script, asks",
        (Placement::Direct | Placement::Meta | Placement::Reader, true) => "auto",
        (Placement::Direct | Placement::Meta | Placement::Reader, false) => "asks",
    }
}

fn table(gateway: &Gateway, config: &ConfigFile) -> anyhow::Result<()> {
    let caller = gateway.caller(Origin::Caller);
    let entries: Vec<_> = caller.list().collect();
    let width = if std::io::stdout().is_terminal() { TERMINAL_WIDTH } else { FILE_WIDTH };
    let name_width =
        entries.iter().map(|entry| entry.tool.name.as_str().len()).max().unwrap_or(0).max(4);
    let rest = width.saturating_sub(name_width + 16).max(20);
    output::line(&format!("{:name_width$}  {:12}  DESCRIPTION", "NAME", "MODE"))?;
    for entry in entries {
        let (name, mode) = (entry.tool.name.as_str(), mode(entry));
        let description = output::one_line(entry.tool.announced_description(), rest);
        output::line(format!("{name:name_width$}  {mode:12}  {description}").trim_end())?;
    }
    let absent = session::absent_sources(gateway, |_| true);
    for line in absent.into_iter().chain(session::held_sources(gateway, config, |_| true)) {
        output::line(&format!("\n{line}"))?;
    }
    Ok(())
}

fn document(gateway: &Gateway) -> Value {
    let caller = gateway.caller(Origin::Caller);
    let tool = |entry: &Entry| {
        json!({
            "name": entry.tool.name,
            "client": entry.tool.client,
            "mode": mode(entry),
            "title": entry.tool.announced_title().map(visible_line),
            "description": visible(entry.tool.announced_description()),
            "input_schema": entry.tool.visible_schema(),
            "output_schema": entry.tool.output_schema,
            "annotations": entry.tool.annotations,
            "full_name": entry.tool.full_name,
            "original_name": visible_line(&entry.tool.original),
            "repairs": entry.tool.changes().collect::<Vec<_>>(),
        })
    };
    let snapshot = gateway.catalog().snapshot();
    let sources = snapshot.clients().map(|client| {
        let pins = gateway.upstream_pins().client(client.name.as_str());
        json!({
            "name": client.name,
            "connection_type": client.connection_type,
            "state": client.state.name(),
            "reason": client.state.reason(),
            "tools": client.tools.len(),
            "left_out": client.left_out,
            "quarantine": pins.as_ref().map(|pins| pins.held()).unwrap_or_default(),
            "pin_problem": pins.and_then(|pins| pins.problem()),
        })
    });
    json!({"tools": caller.list().map(tool).collect::<Vec<_>>(), "sources": sources.collect::<Vec<_>>()})
}
