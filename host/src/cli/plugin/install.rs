//! `airlock plugin install`.

use std::{cell::RefCell, path::PathBuf};

use anyhow::{Context as _, bail, ensure};
use serde_json::{Map, Value, json};

use super::{
    super::{
        Done,
        output::{self, quoted},
        session::ConfigFile,
    },
    component::Component,
    edit::{self, Document},
    example,
    grant::{self, GrantOption},
    pins::{self, Pins},
    requested::RequestSummary,
};
use crate::{
    config::{Config, Source, environment},
    plugin::{Drift, Refusal, Rights, Settings},
    secret::Secret,
    text::{visible, visible_line},
    tool::{ClientName, ToolDefinition, ToolName},
};

/// Install a plugin
///
/// Shows what the plugin requests and why. If everything that it requires is granted, the component
/// is copied to `plugins/` beside the configuration, the configuration gets an entry for it, and
/// `airlock.lock` pins it. Otherwise nothing is changed, and the command that would install it is
/// printed. Grants belong to a name: use `--replace` to install a changed build of the same plugin,
/// and `--name` to install another plugin under another name.
#[derive(Debug, clap::Args)]
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
    /// `secret.token=env:NAME`, `tool.forecast=CLIENT-TOOL`, `scratch`, `clocks`, `tools`.
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
}

pub(super) async fn run(args: &Args) -> anyhow::Result<Done> {
    let mut component = Component::read(&args.file).await?;
    // Compiled now rather than at the first call: a component that does not load is not installed.
    let compiled = component.compile().await?;
    component.learn(&compiled).await?;
    let name = client_name(args, &component)?;
    // Both files are read before anything is written, so that an unreadable one leaves everything
    // as it was.
    let mut document = Document::open(&args.config.path)?;
    let mut pins = Pins::of(&document.config()?.clients, &args.config.path)?;
    check_place(args, &component, &name, &pins).await?;
    let grants = write_entry(args, &component, &name, document.plugin(&name)?)?;
    let config = document.config()?;
    show_requests(&component, &name)?;
    let notes = match decide(&component, plugin_of(&config, &name)?) {
        Ok(notes) => notes,
        Err(refusal) => bail!("{}", refused(args, &component, &name, &grants, &refusal)),
    };
    let nameless = nameless(&component, plugin_of(&config, &name)?);
    ensure!(
        nameless.len() < component.metadata.tools.len(),
        "{}",
        undescribed(args, &name, &nameless)
    );
    let file = args.config.path.with_file_name("plugins").join(format!("{name}.wasm"));
    edit::write(&file, &component.bytes)?;
    let pinned = pin(&mut pins, &component, &name).await?;
    document.save()?;
    output::line(&format!(
        "installed {} as {name} in {}",
        file.display(),
        args.config.path.display()
    ))?;
    for note in notes.iter().chain(&pinned) {
        output::hint(note);
    }
    if !nameless.is_empty() {
        output::hint(&format!(
            "models do not see these tools until you describe them (--describe): {}",
            nameless.join(", ")
        ));
    }
    if let Some(tool) =
        component.metadata.tools.iter().find(|tool| !nameless.contains(&visible_line(&tool.name)))
    {
        let arguments = quoted(&visible(&example::arguments(tool).to_string()));
        output::line(&format!(
            "\ntry it:\n  airlock call{} {} {arguments}",
            args.config.option(),
            ToolName::new(&name, &tool.name)
        ))?;
    }
    Ok(Done::Yes)
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
        command(args, &ExtraOptions::default()),
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

/// Refuses a component that would replace another one unnoticed. A component chooses its own name,
/// and it would receive the grants of the other one.
async fn check_place(
    args: &Args,
    component: &Component,
    name: &ClientName,
    pins: &Pins,
) -> anyhow::Result<()> {
    let Some(holder) = pins.holder(name).await else { return Ok(()) };
    let (pin, found) = (
        holder.pin(name),
        component.metadata.manifest.as_ref().map(|manifest| manifest.id.as_str()),
    );
    if pin.is_some_and(|pin| pin.component == component.metadata.digest) {
        return Ok(());
    }
    let unchanged = format!("{name} is not installed, and nothing was changed");
    if let Some(pin) = pin.filter(|pin| pin.id.as_deref() != found) {
        let (config, lock) = (args.config.path.display(), pins.path.display());
        bail!(
            "{unchanged}: {} has that name, and this is {}, which would get all its grants\n\n\
             to install it under another name:\n  {}\n\n\
             to use this name, remove {name} from {config} and {lock} first",
            plugin_name(pin.id.as_deref()),
            plugin_name(found),
            command(args, &ExtraOptions { name: Some("OTHER"), ..ExtraOptions::default() }),
        );
    }
    let drift = Drift::between(&holder, name, &component.metadata);
    output::line(&pins::lines(name, component, drift.as_ref()).join("\n"))?;
    ensure!(
        args.replace,
        "{unchanged}: another component has that name, and this one would get all its grants\n\n\
         to install it, if you agree with the changes above:\n  {}",
        command(args, &ExtraOptions { replace: true, ..ExtraOptions::default() })
    );
    Ok(())
}

fn plugin_name(id: Option<&str>) -> String {
    id.map_or_else(
        || "a component without a manifest".to_owned(),
        |id| format!("the plugin {}", visible_line(id)),
    )
}

/// Writes the operator's options into `wasm_config`. Returns the grants that it holds then.
fn write_entry(
    args: &Args,
    component: &Component,
    name: &ClientName,
    entry: &mut Map<String, Value>,
) -> anyhow::Result<Map<String, Value>> {
    entry.insert("component".to_owned(), json!(format!("plugins/{name}.wasm")));
    if let Some(profile) = &args.profile {
        entry.insert("profile".to_owned(), json!(profile));
    }
    for setting in &args.set {
        let (key, value) = setting
            .split_once('=')
            .with_context(|| format!("--set {setting}: expected KEY=VALUE"))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        object(entry, "config")?.insert(key.to_owned(), value);
    }
    for description in &args.describe {
        let (tool, text) = description
            .split_once('=')
            .with_context(|| format!("--describe {description}: expected TOOL=TEXT"))?;
        object(entry, "descriptions")?.insert(tool.to_owned(), json!(text));
    }
    let requests = component.metadata.manifest.as_ref().map(|manifest| &manifest.request);
    let all = requests.filter(|_| args.grant_all).map(GrantOption::all).unwrap_or_default();
    for grant in all.iter().chain(&args.grants) {
        grant.apply(object(entry, "grants")?, requests);
    }
    Ok(entry.get("grants").and_then(Value::as_object).cloned().unwrap_or_default())
}

fn object<'a>(
    entry: &'a mut Map<String, Value>,
    key: &str,
) -> anyhow::Result<&'a mut Map<String, Value>> {
    let value = entry.entry(key).or_insert_with(|| json!({}));
    value.as_object_mut().with_context(|| format!("`wasm_config.{key}` is not an object"))
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

fn plugin_of<'a>(config: &'a Config, name: &ClientName) -> anyhow::Result<&'a Settings> {
    let client = config.clients.iter().find(|client| client.name == *name);
    match client.map(|client| &client.source) {
        Some(Source::Plugin(settings)) => Ok(settings),
        _ => bail!("the configuration has no plugin named {name}"),
    }
}

/// Decides as the gateway will. Returns notes for the operator. A secret that cannot be read in
/// this shell may be readable where the gateway runs.
fn decide(component: &Component, settings: &Settings) -> Result<Vec<String>, Refusal> {
    let absent = RefCell::new(Vec::new());
    let read = |source: &crate::secret::Source| {
        Ok(source.read(&environment).unwrap_or_else(|error| {
            absent.borrow_mut().push(format!("the gateway will need it: {error}"));
            Secret::new("a secret that is not here")
        }))
    };
    let rights = Rights::intersect(component.metadata.manifest.as_ref(), &settings.grant, &read)?;
    Ok(rights
        .notes
        .into_iter()
        .chain(absent.into_inner())
        .map(|note| visible_line(&note))
        .collect())
}

/// Explains why the plugin is not installed, with the command that would install it.
fn refused(
    args: &Args,
    component: &Component,
    name: &ClientName,
    grants: &Map<String, Value>,
    refusal: &Refusal,
) -> String {
    let reasons: Vec<_> =
        refusal.reasons.iter().map(|reason| format!("\n  {}", visible_line(reason))).collect();
    let mut message =
        format!("{name} is not installed, and nothing was changed:{}", reasons.concat());
    let requests = component.metadata.manifest.iter().flat_map(|manifest| manifest.request.all());
    let missing: Vec<_> = requests
        .filter(|request| !request.is_optional() && !grant::is_granted(grants, *request))
        .map(|request| grant::suggestion(name.as_str(), request))
        .collect();
    if !missing.is_empty() {
        message.push_str("\n\nthis would install it:\n  ");
        message.push_str(&command(
            args,
            &ExtraOptions { grants: &missing, ..ExtraOptions::default() },
        ));
    }
    message
}

/// Options that are added to the command as it was typed.
#[derive(Default)]
struct ExtraOptions<'a> {
    name: Option<&'a str>,
    grants: &'a [String],
    replace: bool,
}

/// Returns the command as it was typed, with the options of `extra` added.
fn command(args: &Args, extra: &ExtraOptions<'_>) -> String {
    let mut words =
        vec!["airlock plugin install".to_owned(), quoted(&args.file.display().to_string())];
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), quoted(value)]);
    if !args.config.is_default() {
        option("--config", &args.config.path.display().to_string());
    }
    for (name, value) in
        [("--name", extra.name.or(args.name.as_deref())), ("--profile", args.profile.as_deref())]
    {
        if let Some(value) = value {
            option(name, value);
        }
    }
    args.set.iter().for_each(|setting| option("--set", setting));
    args.describe.iter().for_each(|description| option("--describe", description));
    args.grants.iter().for_each(|grant| option("--grant", &grant.to_string()));
    for grant in extra.grants {
        option("--grant", grant);
    }
    // With another name there is nothing to replace.
    let replace = extra.replace || (args.replace && extra.name.is_none());
    for (word, is_said) in [("--grant-all", args.grant_all), ("--replace", replace)] {
        words.extend(is_said.then(|| word.to_owned()));
    }
    words.join(" ")
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
