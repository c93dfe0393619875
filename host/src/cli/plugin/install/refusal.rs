//! Explains why a plugin is not installed, with the command that would install it.

use std::path::Path;

use super::{
    options::InstallArgs,
    plan::{Plan, Site, nothing_changed},
    proposal::Proposal,
};
use crate::cli::plugin::obstacle::Obstacle;
use airlock_plugin::{Change, Drift};
use airlock_strings::{cut, visible_line};

/// Name in a proposed command that stands for one of the operator's choice. It is no valid name.
const OTHER_NAME: &str = "<NAME>";
/// Longest list of tools in a message, in bytes. `airlock tools` has the whole list.
const MAX_LISTED: usize = 500;

/// Explains why the plugin is not installed. `lock` is the path of the lock file.
pub(super) fn explain(
    args: &InstallArgs,
    site: &Site<'_>,
    plan: &Plan,
    lock: &Path,
) -> anyhow::Result<String> {
    let is_other = plan.drift.as_ref().is_some_and(Drift::has_other_id);
    let mut paragraphs = vec![reasons(site, plan, is_other)];
    if is_other {
        let name = Some(OTHER_NAME.to_owned());
        let command = InstallArgs { name, replace: false, ..args.clone() }.command();
        paragraphs.push(format!(
            "to install it as another plugin, with a name of yours and grants of its own:\n  {command}"
        ));
        let name = site.name;
        let config = args.config.path.display();
        let lock = lock.display();
        paragraphs.push(format!(
            "to use this name without its grants, remove {name} from {config} and {lock} first"
        ));
    }
    paragraphs.extend(known_tools(args, site, plan)?);
    let heading = match plan.drift {
        Some(_) => "to install it, if you agree with the changes above",
        None => "this would install it",
    };
    let proposal = Proposal::new(args, site, plan)?;
    if let Some(command) = proposal.text(heading) {
        paragraphs.extend(proposal.consequences());
        paragraphs.push(command);
    }
    Ok(paragraphs.join("\n\n"))
}

/// Lists the tools that a slot can be bound to, if one is bound to a tool that does not exist and the
/// reason does not list them already.
fn known_tools(args: &InstallArgs, site: &Site<'_>, plan: &Plan) -> anyhow::Result<Option<String>> {
    let mut texts = plan.obstacles.iter().filter_map(|obstacle| match obstacle {
        Obstacle::Slot { text, .. } => Some(text),
        _ => None,
    });
    let known = site.document.config()?.embedded_tools();
    let is_new = texts.any(|text| known.iter().any(|tool| !text.contains(tool)));
    let option = args.config.option();
    Ok(is_new.then(|| {
        let known = visible_line(&cut(known.join(", "), MAX_LISTED));
        format!("tools of installed plugins: {known}\n`airlock tools{option}` lists those of MCP servers too")
    }))
}

/// Lists the obstacles. Two plugins that claim one name are named first.
fn reasons(site: &Site<'_>, plan: &Plan, is_other: bool) -> String {
    let mut lines = vec![nothing_changed(site.name)];
    lines.extend(is_other.then(|| identity(site)));
    for obstacle in &plan.obstacles {
        let is_identity = matches!(obstacle, Obstacle::Taken | Obstacle::Change(Change::Id { .. }));
        if !(is_other && is_identity) {
            lines.push(obstacle.to_string());
        }
    }
    lines.join("\n  ")
}

/// Describes two plugins that claim one name.
fn identity(site: &Site<'_>) -> String {
    let pin = site.holder.as_ref().and_then(|holder| holder.pin(site.name));
    format!(
        "{} has that name, and this is {}, which would get all its grants",
        plugin(pin.and_then(|pin| pin.id.as_deref())),
        plugin(site.component.metadata.id())
    )
}

fn plugin(id: Option<&str>) -> String {
    match id {
        Some(id) => format!("the plugin {}", visible_line(id)),
        None => "a component without a manifest".to_owned(),
    }
}
