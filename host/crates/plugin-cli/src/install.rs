//! `airlock plugin install`.

mod options;
mod refusal;

use std::path::Path;

use anyhow::{Context as _, bail};

pub(super) use self::options::{InstallArgs, parse_setting};

use self::options::DESCRIPTION;
use super::{
    consent::ConsentOptions,
    difference,
    place::{ComponentPlace, show_origin},
};
use airlock_authoring::{
    Component,
    example::{self, Sample},
    install::{
        ConfigDocument, GrantOption, InstallError, InstallProposal, Installation, Installed,
    },
};
use airlock_core::tool::{ClientName, ToolDefinition, ToolName};
use airlock_plugin::RequestSummary;
use airlock_strings::{visible, visible_line};
use airlock_terminal::{
    outcome::CommandOutcome,
    output::{self, quoted},
    session::ConfigFile,
    spinner,
};

pub(super) async fn run(args: &InstallArgs) -> anyhow::Result<CommandOutcome> {
    let publishers = ConfigDocument::open(&args.config.path)?.config()?.publishers;
    let place = ComponentPlace::parse(&args.file)?;
    let (mut component, file) = place.read(&args.network).await?;
    // A proposed command names the component that was shown, also if the tag is moved meanwhile.
    let args = &InstallArgs { file, ..args.clone() };
    let authentic = component.authenticate(&publishers);
    authentic.context("the plugin is not installed, and nothing was changed")?;
    // Compiled now rather than at the first call: a component that does not load is not installed.
    let compiled = component.compile(&spinner::compiling).await?;
    component.learn(&compiled).await?;
    let installation = open(args, &component).await?;
    let name = installation.name.clone();
    let options = args.options();
    let plan = installation.plan(&options)?;
    if plan.drift.is_some() {
        // Its obstacles and notes come after the requests.
        let lines = difference::lines(&name, &component, plan.drift.as_ref(), &[], &[]);
        output::line(&lines.join("\n"))?;
    }
    show_origin(&component.origin)?;
    show_requests(&component, &name)?;
    if !plan.obstacles.is_empty() {
        bail!("{}", refusal::explain(args, &options, &installation, &plan)?);
    }
    let installed = match installation.install(&plan, &spinner::compiling).await {
        Err(InstallError::Undescribed { tools, .. }) => {
            bail!("{}", undescribed(args, &name, &tools))
        }
        installed => installed?,
    };
    show_installed(args, &component, &name, &installed.file)?;
    for note in plan.notes.into_iter().chain(notes(installed, &component, &name)) {
        output::hint(&note);
    }
    show_next(args, &component, &name, &plan.undescribed)?;
    Ok(CommandOutcome::Success)
}

async fn open<'c>(
    args: &InstallArgs,
    component: &'c Component,
) -> Result<Installation<'c>, InstallError> {
    let name = args.name.as_deref();
    Installation::open(component, name, &args.config.path, &spinner::compiling).await
}

/// Installs a build with these grants, in place of the installed one if there is one. Returns its name
/// in the configuration.
pub(super) async fn update(
    file: &Path,
    config: &ConfigFile,
    grants: &[GrantOption],
) -> anyhow::Result<ClientName> {
    let name = Component::read(file).await?.client_name()?;
    let args = InstallArgs {
        replace: ConfigDocument::open(&config.path)?.has(&name),
        grants: grants.to_vec(),
        ..InstallArgs::new(file.to_owned(), config.clone())
    };
    run(&args).await?;
    Ok(name)
}

/// Decides about a plugin at its configured path, and returns the command that installs it with the
/// grants that it lacks. There is no command if it can be loaded, or if no option helps.
pub(super) async fn remedy(
    component: &Component,
    name: &ClientName,
    config: &ConfigFile,
    consent: &ConsentOptions,
) -> anyhow::Result<Option<String>> {
    let own = InstallArgs {
        replace: true,
        consent: consent.clone(),
        ..InstallArgs::new(component.path.clone(), config.clone())
    };
    let is_own = component.client_name().is_ok_and(|own| own == *name);
    let args = InstallArgs { name: (!is_own).then(|| name.to_string()), ..own };
    let installation = open(&args, component).await?;
    let options = args.options();
    let plan = installation.plan(&options)?;
    let proposal = InstallProposal::new(&installation, &options, &plan)?;
    let heading = "if you agree, this grants what it lacks and accepts it";
    Ok(refusal::command(&args, proposal, heading))
}

/// Returns notes about other plugins, and about the same one under another name.
fn notes(installed: Installed, component: &Component, name: &ClientName) -> Vec<String> {
    let Installed { pinned, unpinned, twin, .. } = installed;
    let pinned = pinned
        .iter()
        .map(|client| format!("{client} is pinned as it is now, because there was no lock file"));
    let unpinned = unpinned.iter().map(|(client, reason)| {
        format!("{client} is not pinned and will not be loaded: {}", visible(reason))
    });
    let id = visible_line(component.metadata.id().unwrap_or_default());
    let twin = twin.map(|other| {
        format!("the plugin {id} is installed twice now, as {other} and as {name}: each has its own grants and stores")
    });
    pinned.chain(unpinned).chain(twin).collect()
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
    undescribed: &[String],
) -> anyhow::Result<()> {
    if !undescribed.is_empty() {
        output::hint(&format!(
            "models do not see these tools until you describe them (--describe): {}",
            undescribed.join(", ")
        ));
    }
    if !args.replace {
        output::hint(&format!(
            "calls of its tools by a model need an approval, unless `tools_to_auto_execute` in {} names the tool",
            args.config.path.display()
        ));
    }
    let Some(tool) = tool_to_try(&component.metadata.tools, undescribed) else { return Ok(()) };
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

/// Returns the tool of the call to try: the first described one that only reads, or else the first described one.
fn tool_to_try<'t>(
    tools: &'t [ToolDefinition],
    undescribed: &[String],
) -> Option<&'t ToolDefinition> {
    let described = tools.iter().filter(|tool| !undescribed.contains(&visible_line(&tool.name)));
    let described: Vec<_> = described.collect();
    let reader = described.iter().find(|tool| tool.annotations.read_only == Some(true));
    reader.or(described.first()).copied()
}

/// Explains that the component has no usable tool, with the command that would describe its tools.
fn undescribed(args: &InstallArgs, name: &ClientName, tools: &[String]) -> String {
    let Some(first) = tools.first() else {
        return format!("{name} is not installed, and nothing was changed: it has no tools");
    };
    format!(
        "{name} is not installed, and nothing was changed: none of its tools has a description, and a model chooses by it\n\n\
         say what they do ({}):\n  {} --describe {}",
        tools.join(", "),
        args.command(),
        quoted(&format!("{first}={DESCRIPTION}")),
    )
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

#[cfg(test)]
mod tests;
