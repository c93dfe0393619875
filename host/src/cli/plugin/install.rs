//! `airlock plugin install`.

mod command;
mod plan;
mod refusal;

use std::path::PathBuf;

use anyhow::{Context as _, bail, ensure};

use self::plan::{Plan, Site};
use super::{
    super::{
        Done,
        output::{self, quoted},
        session::ConfigFile,
    },
    component::Component,
    consent::ConsentOptions,
    edit::{self, Document},
    example,
    grant::GrantOption,
    pins::{self, Pins},
    requested::RequestSummary,
};
use crate::{
    plugin::Settings,
    text::{visible, visible_line},
    tool::{ClientName, ToolDefinition, ToolName},
};

/// Install a plugin
///
/// Shows what the plugin requests and why. If everything that it requires is granted, the component
/// is copied to `plugins/` beside the configuration, the configuration gets an entry for it, and
/// `airlock.lock` pins it. Otherwise nothing is changed, and the command that would install it is
/// printed. Grants belong to a name: use `--replace` to install a changed build of the same plugin,
/// and `--name` to install another plugin under another name. A granted request that is wider in
/// the changed build must be named again, with `--regrant` or `--grant`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    after_help = "Examples:\n  airlock plugin install text.wasm\n  airlock plugin install weather.wasm --grant http.api --grant \
                  secret.token=env:WEATHER_TOKEN\n  airlock plugin install weather.wasm --replace"
)]
pub(super) struct Args {
    /// The component.
    file: PathBuf,
    #[command(flatten)]
    config: ConfigFile,
    /// Its name in the configuration, the prefix of its tools. Default: the plugin's id.
    #[arg(long)]
    name: Option<String>,
    /// Grant something that it requests: `http.api`, `kv.notes`, `files.data=/path:rw`,
    /// `secret.token=env:NAME`, `slot.forecast=CLIENT-TOOL`, `scratch`, `clocks`, `tools`.
    #[arg(long = "grant", value_name = "WHAT")]
    grants: Vec<GrantOption>,
    /// Grant everything that it requests, except what needs a value from you.
    #[arg(long)]
    grant_all: bool,
    /// The ceiling: `untrusted`, or `trusted` for private networks, plain HTTP and larger limits.
    #[arg(long, value_parser = ["untrusted", "trusted"])]
    profile: Option<String>,
    /// Set a value of the plugin's own configuration; text, or JSON.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Set the description of a tool that has none, or replace its own.
    #[arg(long = "describe", value_name = "TOOL=TEXT")]
    describe: Vec<String>,
    /// Replace the installed build, and keep its grants. The changes are shown.
    #[arg(long)]
    replace: bool,
    #[command(flatten)]
    consent: ConsentOptions,
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let mut component = Component::read(&args.file).await?;
    // Compiled now rather than at the first call: a component that does not load is not installed.
    let compiled = component.compile().await?;
    component.learn(&compiled).await?;
    let name = client_name(args, &component)?;
    // Both files are read before anything is written, so that an unreadable one leaves everything
    // as it was.
    let document = Document::open(&args.config.path)?;
    let mut pins = Pins::of(&document.config()?.clients, &args.config.path)?;
    let holder = pins.holder(&name).await;
    let site = Site { component: &component, name: &name, document: &document, holder };
    let plan = Plan::of(args, &site)?;
    if plan.drift.is_some() {
        let lines = pins::lines(&name, &component, plan.drift.as_ref());
        output::line(&lines.join("\n"))?;
    }
    show_requests(&component, &name)?;
    if !plan.obstacles.is_empty() {
        bail!("{}", refusal::refused(args, &site, &plan, &pins.path)?);
    }
    let nameless = nameless(&component, &plan.settings);
    ensure!(
        nameless.len() < component.metadata.tools.len(),
        "{}",
        undescribed(args, &name, &nameless)
    );
    let file = args.config.path.with_file_name("plugins").join(format!("{name}.wasm"));
    edit::write(&file, &component.bytes)?;
    let pinned = pin(&mut pins, &component, &name).await?;
    plan.document.save()?;
    output::line(&format!(
        "installed {} as {name} in {}",
        file.display(),
        args.config.path.display()
    ))?;
    for note in plan.notes.iter().chain(&pinned) {
        output::hint(note);
    }
    show_next(args, &component, &name, &nameless)?;
    Ok(Done::Yes)
}

/// Prints the tools that need a description, and a call to try.
fn show_next(
    args: &Args,
    component: &Component,
    name: &ClientName,
    nameless: &[String],
) -> anyhow::Result<()> {
    if !nameless.is_empty() {
        output::hint(&format!(
            "models do not see these tools until you describe them (--describe): {}",
            nameless.join(", ")
        ));
    }
    let mut tools = component.metadata.tools.iter();
    let Some(tool) = tools.find(|tool| !nameless.contains(&visible_line(&tool.name))) else {
        return Ok(());
    };
    let full_name = visible_line(&ToolName::new(name, &tool.name).to_string());
    let arguments = visible(&example::arguments(tool).to_string());
    output::line(&format!(
        "\ntry it:\n  airlock call{} {} {}",
        args.config.option(),
        quoted(&full_name),
        quoted(&arguments)
    ))
}

/// Returns the names of the tools that have no description, neither from their author nor from the
/// operator.
fn nameless(component: &Component, settings: &Settings) -> Vec<String> {
    let has_none = |tool: &&ToolDefinition| {
        let text = settings.grant.descriptions.get(&tool.name).unwrap_or(&tool.description);
        text.trim().is_empty()
    };
    component.metadata.tools.iter().filter(has_none).map(|tool| visible_line(&tool.name)).collect()
}

/// Explains that the component has no usable tool, with the command that would describe its tools.
fn undescribed(args: &Args, name: &ClientName, nameless: &[String]) -> String {
    let Some(first) = nameless.first() else {
        return format!("{name} is not installed, and nothing was changed: it has no tools");
    };
    format!(
        "{name} is not installed, and nothing was changed: none of its tools has a description, and a model chooses by it\n\n\
         say what they do ({}):\n  {} --describe {}",
        nameless.join(", "),
        args.command(),
        quoted(&format!("{first}=WHAT IT DOES")),
    )
}

/// Returns the name that the operator chose, else the manifest's id, else the stem of the file
/// name.
fn client_name(args: &Args, component: &Component) -> anyhow::Result<ClientName> {
    let stem = || args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let own = || {
        component
            .metadata
            .manifest
            .as_ref()
            .map_or_else(stem, |manifest| manifest.id.clone())
            .replace(['-', '.'], "_")
    };
    let name = args.name.clone().unwrap_or_else(own);
    ClientName::parse(&name).context("no name for the plugin; choose one with --name")
}

fn show_requests(component: &Component, name: &ClientName) -> anyhow::Result<()> {
    let requests = RequestSummary::all(&component.metadata);
    let version = component
        .metadata
        .manifest
        .as_ref()
        .map(|manifest| format!(" {}", manifest.version))
        .unwrap_or_default();
    let verb = if requests.is_empty() { "requests nothing" } else { "requests" };
    output::line(&format!("{name}{version} {verb}"))?;
    for request in &requests {
        output::line(&request.lines().join("\n"))?;
    }
    Ok(())
}

/// Records the component as accepted. If this creates the lock, the other plugins are recorded as
/// they are: a lock without them would keep them from loading.
async fn pin(
    pins: &mut Pins,
    component: &Component,
    name: &ClientName,
) -> anyhow::Result<Vec<String>> {
    pins.lock.accept(name, &component.metadata);
    let mut notes = Vec::new();
    let others: Vec<_> =
        pins.select(&[])?.into_iter().filter(|(client, _)| pins.is_new && client != name).collect();
    for (client, settings) in others {
        match Component::read_with_tools(&settings.component).await {
            Ok(other) => {
                pins.lock.accept(&client, &other.metadata);
                notes.push(format!(
                    "{client} is pinned as it is now, because there was no lock file"
                ));
            }
            Err(error) => notes.push(format!(
                "{client} is not pinned and will not be loaded: {}",
                visible(&error.to_string())
            )),
        }
    }
    pins.save()?;
    Ok(notes)
}

#[cfg(test)]
mod tests;
