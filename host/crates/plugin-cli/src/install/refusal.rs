//! Explains why a plugin is not installed, with the command that would install it.

use super::options::InstallArgs;
use airlock_authoring::install::{
    InstallOptions, InstallPlan, InstallProposal, Installation, Obstacle,
};
use airlock_core::tool::ClientName;
use airlock_plugin::{Change, Drift};
use airlock_strings::{MAX_REASON_BYTES, cut, visible_line};

/// Name in a proposed command that stands for one of the operator's choice. It is no valid name.
const OTHER_NAME: &str = "<NAME>";

/// Explains why the plugin is not installed with these options.
pub(super) fn explain(
    args: &InstallArgs,
    options: &InstallOptions,
    installation: &Installation<'_>,
    plan: &InstallPlan,
) -> anyhow::Result<String> {
    let is_other = plan.drift.as_ref().is_some_and(Drift::has_other_id);
    let name = &installation.name;
    let identity = is_other.then(|| identity(installation));
    let mut paragraphs = vec![reasons(name, plan, identity)];
    if is_other {
        let other = Some(OTHER_NAME.to_owned());
        let command = InstallArgs { name: other, replace: false, ..args.clone() }.command();
        paragraphs.push(format!(
            "to install it as another plugin, with a name of yours and grants of its own:\n  {command}"
        ));
        let config = args.config.path.display();
        let lock = installation.lock_file().display();
        paragraphs.push(format!(
            "to use this name without its grants, remove {name} from {config} and {lock} first"
        ));
    }
    paragraphs.extend(known_tools(args, installation, plan)?);
    let heading = match plan.drift {
        Some(_) => "to install it, if you agree with the changes above",
        None => "this would install it",
    };
    let proposal = InstallProposal::new(installation, options, plan)?;
    let consequences = proposal.consequences.join("\n  ");
    if let Some(command) = command(args, proposal, heading) {
        if !consequences.is_empty() {
            paragraphs.push(format!("what these grants need in turn:\n  {consequences}"));
        }
        paragraphs.push(command);
    }
    Ok(paragraphs.join("\n\n"))
}

/// Returns the command of a proposal below its heading, which is `heading` if the command installs the
/// plugin; `None` if no option helps.
pub(super) fn command(
    args: &InstallArgs,
    proposal: InstallProposal,
    heading: &str,
) -> Option<String> {
    let InstallProposal { options, choices, is_other, installs, .. } = proposal;
    let heading = if installs {
        heading
    } else {
        "this would do the rest, once you have resolved what is left"
    };
    let is_hidden = options.grants.iter().any(|grant| grant.printable() != *grant);
    let choices = if is_hidden || !choices.is_empty() {
        ", with your values in place of `<…>`"
    } else {
        ""
    };
    is_other.then(|| format!("{heading}{choices}:\n  {}", args.with(options).command()))
}

/// Lists the tools that a slot can be bound to, if one is bound to a tool that does not exist and the
/// reason does not list them already.
fn known_tools(
    args: &InstallArgs,
    installation: &Installation<'_>,
    plan: &InstallPlan,
) -> anyhow::Result<Option<String>> {
    let mut texts = plan.obstacles.iter().filter_map(|obstacle| match obstacle {
        Obstacle::Slot { text, .. } => Some(text),
        _ => None,
    });
    let known = installation.known_tools()?;
    let is_new = texts.any(|text| known.iter().any(|tool| !text.contains(tool)));
    let option = args.config.option();
    Ok(is_new.then(|| {
        let known = visible_line(&cut(known.join(", "), MAX_REASON_BYTES));
        format!("tools of installed plugins: {known}\n`airlock tools{option}` lists those of MCP servers too")
    }))
}

/// Lists the obstacles. Two plugins that claim one name are named first, as `identity` says.
fn reasons(name: &ClientName, plan: &InstallPlan, identity: Option<String>) -> String {
    let mut lines = vec![format!("{name} is not installed, and nothing was changed:")];
    for obstacle in &plan.obstacles {
        let is_identity = matches!(obstacle, Obstacle::Taken | Obstacle::Change(Change::Id { .. }));
        if !(identity.is_some() && is_identity) {
            lines.push(obstacle.to_string());
        }
    }
    lines.splice(1..1, identity);
    lines.join("\n  ")
}

/// Describes two plugins that claim one name.
fn identity(installation: &Installation<'_>) -> String {
    format!(
        "{} has that name, and this is {}, which would get all its grants",
        plugin(installation.holder_id()),
        plugin(installation.component.metadata.id())
    )
}

fn plugin(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("the plugin {}", visible_line(id)),
        None => "a component without a manifest".to_owned(),
    }
}
