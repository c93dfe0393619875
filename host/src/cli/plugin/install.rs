//! `airlock plugin install`.

mod changes;
mod options;
mod plan;
mod proposal;
mod refusal;

use std::path::Path;

use anyhow::{anyhow, bail, ensure};

pub(super) use self::options::InstallArgs;

use self::{
    options::DESCRIPTION,
    plan::{Plan, Site},
    proposal::Proposal,
};
use super::{
    super::{
        outcome::Done,
        output::{self, quoted},
        session::ConfigFile,
        spinner,
    },
    consent::ConsentOptions,
    edit::{self, Document},
    grant::GrantOption,
    pins::{self, Pins},
    requested::RequestSummary,
};
use airlock_authoring::{
    Component,
    example::{self, Sample},
};
use airlock_core::tool::{ClientName, ToolDefinition, ToolName};
use airlock_plugin::{Configured, Settings};
use airlock_strings::{visible, visible_line};

pub(super) async fn run(args: &InstallArgs) -> anyhow::Result<Done> {
    let mut component = Component::read(&args.file).await?;
    // Compiled now rather than at the first call: a component that does not load is not installed.
    let compiled = component.compile(&spinner::compiling).await?;
    component.learn(&compiled).await?;
    let name = client_name(args, &component)?;
    // Both files are read before anything is written, so that an unreadable one leaves everything
    // as it was.
    let document = Document::open(&args.config.path)?;
    let mut pins = Pins::of(&document.config()?.clients, &args.config.path)?;
    let holder = pins.holder(&name).await;
    if args.replace && holder.is_none() && !document.has(&name) {
        bail!("{}", nothing_to_replace(&component, &name, &pins));
    }
    let site = Site { component: &component, name: &name, document: &document, holder };
    let plan = Plan::decide(args, &site)?;
    if plan.drift.is_some() {
        let lines = pins::lines(&name, &component, plan.drift.as_ref(), &[]);
        output::line(&lines.join("\n"))?;
    }
    show_requests(&component, &name)?;
    if !plan.obstacles.is_empty() {
        bail!("{}", refusal::explain(args, &site, &plan, &pins.path)?);
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
    show_installed(args, &component, &name, &file)?;
    let twin = twin(&component, &name, &pins);
    for note in plan.notes.into_iter().chain(pinned).chain(twin) {
        output::hint(&note);
    }
    show_next(args, &component, &name, &nameless)?;
    Ok(Done::Yes)
}

/// Installs a build with these grants, in place of the installed one if there is one.
pub(super) async fn update(
    file: &Path,
    config: &ConfigFile,
    name: &ClientName,
    grants: &[GrantOption],
) -> anyhow::Result<Done> {
    let args = InstallArgs {
        replace: Document::open(&config.path)?.has(name),
        grants: grants.to_vec(),
        ..InstallArgs::new(file.to_owned(), config.clone())
    };
    run(&args).await
}

/// Explains that `--replace` names no installed plugin.
fn nothing_to_replace(component: &Component, name: &ClientName, pins: &Pins) -> String {
    let told =
        format!("--replace: nothing is installed as \"{name}\"; installed: {}", pins.known());
    let same = component.metadata.id().and_then(|id| pins.with_id(id, name));
    same.map_or_else(
        || told.clone(),
        |other| format!("{told}; {other} is this plugin: --name {other}"),
    )
}

/// Explains that the plugin is installed under another name too.
fn twin(component: &Component, name: &ClientName, pins: &Pins) -> Option<String> {
    let id = component.metadata.id()?;
    let other = pins.with_id(id, name)?;
    Some(format!(
        "the plugin {} is installed twice now, as {other} and as {name}: each has its own grants and stores",
        visible_line(id)
    ))
}

/// Decides about a plugin at its configured path, and returns the command that installs it with the
/// grants that it lacks. There is no command if it can be loaded, or if no option helps.
pub(super) async fn remedy(
    component: &Component,
    name: &ClientName,
    pins: &Pins,
    config: &ConfigFile,
    consent: &ConsentOptions,
) -> anyhow::Result<Option<String>> {
    let own = InstallArgs {
        replace: true,
        consent: consent.clone(),
        ..InstallArgs::new(component.path.clone(), config.clone())
    };
    let is_named = client_name(&own, component).ok().as_ref() != Some(name);
    let args = InstallArgs { name: is_named.then(|| name.to_string()), ..own };
    let document = Document::open(&config.path)?;
    let holder = pins.holder(name).await;
    let site = Site { component, name, document: &document, holder };
    let proposal = Proposal::new(&args, &site, &Plan::decide(&args, &site)?)?;
    Ok(proposal.text("if you agree, this grants what it lacks and accepts it"))
}

/// Prints where the plugin is now, and under which name if that is not its own.
fn show_installed(
    args: &InstallArgs,
    component: &Component,
    name: &ClientName,
    file: &Path,
) -> anyhow::Result<()> {
    let file = file.display();
    let config = args.config.path.display();
    output::line(&format!("installed {file} as {name} in {config}"))?;
    let id = component.metadata.id().filter(|id| args.name.is_none() && *id != name.as_str());
    if let Some(id) = id {
        output::hint(&format!(
            "the plugin {id} is named {name} here, because names in the configuration have no `-`"
        ));
    }
    Ok(())
}

/// Prints the tools that need a description, and a call to try.
fn show_next(
    args: &InstallArgs,
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
    let (advice, arguments) = match example::arguments(tool) {
        Sample::Valid(arguments) => ("try it", arguments.to_string()),
        Sample::Outline(names) => ("try it, with values that you know in place of `...`", names),
    };
    output::line(&format!(
        "\n{advice}:\n  airlock call{} {} {}",
        args.config.option(),
        quoted(&full_name),
        quoted(&visible(&arguments))
    ))
}

/// Returns the names of the tools that have no description, neither from their author nor from the
/// operator.
fn nameless(component: &Component, settings: &Settings) -> Vec<String> {
    let nameless = component.metadata.tools.iter().filter(|tool| is_nameless(tool, settings));
    nameless.map(|tool| visible_line(&tool.name)).collect()
}

fn is_nameless(tool: &ToolDefinition, settings: &Settings) -> bool {
    let text = settings.grant.descriptions.get(&tool.name).unwrap_or(&tool.description);
    text.trim().is_empty()
}

/// Explains that the component has no usable tool, with the command that would describe its tools.
fn undescribed(args: &InstallArgs, name: &ClientName, nameless: &[String]) -> String {
    let Some(first) = nameless.first() else {
        return format!("{name} is not installed, and nothing was changed: it has no tools");
    };
    format!(
        "{name} is not installed, and nothing was changed: none of its tools has a description, and a model chooses by it\n\n\
         say what they do ({}):\n  {} --describe {}",
        nameless.join(", "),
        args.command(),
        quoted(&format!("{first}={DESCRIPTION}")),
    )
}

/// Returns the name that the operator chose, else the manifest's id, else the stem of the file
/// name.
fn client_name(args: &InstallArgs, component: &Component) -> anyhow::Result<ClientName> {
    if let Some(name) = &args.name {
        return ClientName::parse(name).map_err(|error| {
            let valid = valid_name(name).map(|name| format!("; try --name {name}"));
            anyhow!("--name: {error}{}", valid.unwrap_or_default())
        });
    }
    let own = match component.metadata.id() {
        Some(id) => id.to_owned(),
        None => args.file.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    ClientName::parse(&own.replace(['-', '.'], "_")).map_err(|error| {
        let name = valid_name(&own).unwrap_or_else(|| "NAME".to_owned());
        anyhow!("the plugin's own name cannot be that of a client: {error}; choose one, such as --name {name}")
    })
}

/// Returns the valid name that is nearest to a text; `None` if the text has no character of a name.
fn valid_name(text: &str) -> Option<String> {
    let begins_badly = !text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let start = if begins_badly { "_" } else { "" };
    let fit = text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    let name: String = start.chars().chain(fit).take(32).collect();
    let has_fit = text.contains(|c: char| c.is_ascii_alphanumeric());
    (has_fit && ClientName::parse(&name).is_ok()).then_some(name)
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
    pins.lock.accept(component.metadata.pin(name));
    let mut notes = Vec::new();
    let others: Vec<_> = pins
        .select(&[])?
        .into_iter()
        .filter(|plugin| pins.is_new && plugin.client != *name)
        .collect();
    for Configured { client, settings, .. } in others {
        match Component::read_with_tools(&settings.component, &spinner::compiling).await {
            Ok(other) => {
                pins.lock.accept(other.metadata.pin(&client));
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
