//! `airlock tools`.

use std::{io::IsTerminal as _, sync::Arc};

use anyhow::bail;
use rustix::termios::tcgetwinsize;
use serde_json::{Value, json};

use airlock_core::door::{
    ApprovalChoice, Entry, Filter, Keys, Origin, Placement, VirtualKey, roles_view,
};
use airlock_gateway::{Gateway, command_line};
use airlock_strings::{nearest, visible, visible_line};
use airlock_terminal::{
    outcome::CommandOutcome,
    output,
    session::{self, ConfigFile, ExecutorLoad},
};

/// Default filter of the log: failures, except for names in the configuration that no tool has and
/// for tools that are left out, which the table has.
pub(super) const FILTER: &str = "warn,rmcp=off,airlock_catalog::report=error";

/// Width of a table line on a terminal of unknown width, in columns.
const TERMINAL_WIDTH: usize = 80;
/// Width of a table line elsewhere: descriptions are cut only to keep one line per tool.
const FILE_WIDTH: usize = 400;
/// Smallest width of a description beside its name, in columns: a few words. On a narrower terminal it
/// is on a line of its own.
const MIN_DESCRIPTION: usize = 24;
/// Width of the column of modes, with the gaps on both sides.
const MODE_WIDTH: usize = 16;

/// List every tool and how it may be called
///
/// A tool in mode `auto` runs when a model calls it; in mode `asks` it waits for an approval. A
/// tool in mode `script` is offered to scripts and not to models. With a name, shows the whole
/// description and the schemas of that tool.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock tools --config airlock.json\n  airlock tools text-word_count\n  airlock tools --why --key ann\n  airlock tools --why --role reader"
)]
pub(super) struct ToolsArgs {
    #[command(flatten)]
    config: ConfigFile,
    /// The tool to show, by its name in the list.
    name: Option<String>,
    /// Print a JSON document: `{tools: [{name, client, mode, …}], sources: [{name, state, …}]}`; with a
    /// name, the tool alone.
    #[arg(long)]
    json: bool,
    /// For each tool of each source, show whether a request would see it, and which rules hide it.
    #[arg(long, conflicts_with_all = ["name", "json"])]
    why: bool,
    /// With `--why`, the name of the request's virtual key. Default: a request without a key.
    #[arg(long, value_name = "NAME", requires = "why")]
    key: Option<String>,
    /// With `--why`, a role that the request has by its access token. May be given several times.
    #[arg(long = "role", value_name = "NAME", requires = "why", conflicts_with = "key")]
    roles: Vec<String>,
}

pub(super) async fn run(args: &ToolsArgs) -> anyhow::Result<CommandOutcome> {
    let config = args.config.load()?;
    let approval = config.agent.approval;
    session::with_gateway(
        config,
        ExecutorLoad::OnDemand,
        |_, _| true,
        async |gateway, _| {
            match &args.name {
                Some(name) => one(gateway, name, args)?,
                None if args.why => {
                    let sender = sender(&command_line::keys(gateway), args)?;
                    why(gateway, sender.as_deref(), approval)?;
                }
                None if args.json => output::document(&document(gateway))?,
                None => table(gateway, &args.config)?,
            }
            Ok(CommandOutcome::Success)
        },
    )
    .await
}

/// Returns the key of the request, or the one that stands for its roles.
fn sender(keys: &Keys, args: &ToolsArgs) -> anyhow::Result<Option<Arc<VirtualKey>>> {
    if let Some(name) = &args.key {
        let Some(key) = keys.named(name) else {
            bail!(
                "no active virtual key is named {name:?}; `--key` takes the name of a virtual key"
            );
        };
        return Ok(Some(key.clone()));
    }
    if args.roles.is_empty() {
        return Ok(None);
    }
    let Some(key) = keys.view(&roles_view(&args.roles)) else {
        bail!("one of the roles does not exist; `--role` takes the name of a role");
    };
    Ok(Some(key))
}

/// Prints which tools a request would see, and which rules hide the others.
fn why(
    gateway: &Gateway,
    key: Option<&VirtualKey>,
    approval: ApprovalChoice,
) -> anyhow::Result<()> {
    let snapshot = gateway.catalog().snapshot();
    let filter = Filter::none();
    for line in snapshot.explain(&filter, key).with_approval(approval).lines() {
        output::line(&line)?;
    }
    Ok(())
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
    let rows: Vec<_> = entries
        .iter()
        .map(|entry| (entry.tool.name.as_str(), mode(entry), entry.tool.announced_description()))
        .collect();
    for line in lines(&rows, width()) {
        output::line(&line)?;
    }
    let absent = session::absent_sources(gateway, |_| true);
    let left_out = left_out(gateway);
    let mismatched = session::mismatched_sources(gateway, |_| true);
    let held = session::held_sources(gateway, config, |_| true);
    for line in absent.into_iter().chain(left_out).chain(mismatched).chain(held) {
        output::line(&format!("\n{line}"))?;
    }
    Ok(())
}

/// Returns a line for each tool of a source that is left out, with the reason.
fn left_out(gateway: &Gateway) -> Vec<String> {
    let snapshot = gateway.catalog().snapshot();
    let mut lines = Vec::new();
    for client in snapshot.clients() {
        lines.extend(client.left_out.iter().map(|left_out| {
            let reason = output::one_line(&left_out.reason, FILE_WIDTH);
            format!("{}: left out: {reason}", client.name)
        }));
    }
    lines
}

/// Returns the width of a line of the table.
fn width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return FILE_WIDTH;
    }
    let columns = tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { TERMINAL_WIDTH } else { columns }
}

/// Returns the lines of the table: name, mode and description of each tool.
fn lines(rows: &[(&str, &str, &str)], width: usize) -> Vec<String> {
    let name_width = rows.iter().map(|(name, _, _)| name.len()).max().unwrap_or(0).max(4);
    let rest = width.saturating_sub(name_width + MODE_WIDTH);
    if rest < MIN_DESCRIPTION {
        let stacked = rows.iter().flat_map(|(name, mode, description)| {
            let description = output::one_line(description, width.saturating_sub(2));
            [format!("{name}  {mode}"), format!("  {description}").trim_end().to_owned()]
        });
        return stacked.filter(|line| !line.is_empty()).collect();
    }
    let header = std::iter::once(&("NAME", "MODE", "DESCRIPTION"));
    let lines = header.chain(rows).map(|(name, mode, description)| {
        let description = output::one_line(description, rest);
        format!("{name:name_width$}  {mode:12}  {description}").trim_end().to_owned()
    });
    lines.collect()
}

/// Shows one tool. Fails if there is none of this name.
fn one(gateway: &Gateway, name: &str, args: &ToolsArgs) -> anyhow::Result<()> {
    let caller = gateway.caller(Origin::Caller);
    let found = caller
        .list()
        .find(|entry| entry.tool.name.as_str() == name || entry.tool.full_name.as_str() == name);
    let Some(entry) = found else {
        let names: Vec<_> = caller.list().map(|entry| entry.tool.name.as_str()).collect();
        let known = session::with_own_name(&caller, name)
            .into_iter()
            .next()
            .or_else(|| nearest(name, names.iter().copied()).map(str::to_owned));
        bail!("{}", unknown(name, known.as_deref(), &args.config.option()));
    };
    let tool = document_of(entry);
    if args.json {
        return output::document(&tool);
    }
    output::line(&format!("{}  {}", entry.tool.name, mode(entry)))?;
    for (label, member) in
        [("title", "title"), ("client", "client"), ("name at the source", "original_name")]
    {
        if let Some(text) = tool[member].as_str() {
            output::line(&format!("{label}: {text}"))?;
        }
    }
    output::line(&format!("\n{}", output::for_stdout(entry.tool.announced_description())))?;
    for (label, member) in [
        ("input schema", "input_schema"),
        ("output schema", "output_schema"),
        ("annotations", "annotations"),
        ("changes to the source's definition", "repairs"),
    ] {
        let value = &tool[member];
        if !value.is_null() && *value != json!([]) && *value != json!({}) {
            output::line(&format!("\n{label}:"))?;
            output::document(value)?;
        }
    }
    Ok(())
}

/// Explains that no tool has a name. `near` is a similar name, and `option` names the configuration.
fn unknown(name: &str, near: Option<&str>, option: &str) -> String {
    let meant = near.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
    format!(
        "no tool that may be called is named {name:?}; {meant}`airlock tools{option}` lists them"
    )
}

fn document_of(entry: &Entry) -> Value {
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
}

fn document(gateway: &Gateway) -> Value {
    let caller = gateway.caller(Origin::Caller);
    let snapshot = gateway.catalog().snapshot();
    let sources = snapshot.clients().map(|client| {
        let pins = command_line::upstream_pins(gateway).client(client.name.as_str());
        json!({
            "name": client.name,
            "connection_type": client.kind.name(),
            "state": client.state.name(),
            "reason": client.state.reason(),
            "tools": client.tools.len(),
            "left_out": client.left_out.iter().map(|left_out| &left_out.reason).collect::<Vec<_>>(),
            "mismatches": client.mismatches(),
            "quarantine": pins.as_ref().map(|pins| pins.held()).unwrap_or_default(),
            "pin_problem": pins.and_then(|pins| pins.problem()),
        })
    });
    json!({"tools": caller.list().map(document_of).collect::<Vec<_>>(), "sources": sources.collect::<Vec<_>>()})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_explained_with_and_without_a_similar_one() {
        insta::assert_snapshot!(unknown("fs-raed", Some("fs-read"), ""), @r#"no tool that may be called is named "fs-raed"; did you mean "fs-read"? `airlock tools` lists them"#);
        insta::assert_snapshot!(unknown("x", None, " --config a.json"), @r#"no tool that may be called is named "x"; `airlock tools --config a.json` lists them"#);
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let rows = [("a-read", "auto", "Reads a file and returns its text."), ("b", "asks", "")];
        assert_eq!(
            lines(&rows, 46),
            [
                "NAME    MODE          DESCRIPTION",
                "a-read  auto          Reads a file and return…",
                "b       asks"
            ]
        );
        assert_eq!(lines(&rows, 20), ["a-read  auto", "  Reads a file and …", "b  asks"]);
        for width in [20, 45, 46, 80] {
            let longest = lines(&rows, width).iter().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{width}");
        }
    }
}
