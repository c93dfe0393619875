//! Explains why a plugin is not installed, with the command that would install it.

use std::path::Path;

use super::{
    Args, Component, GrantOption,
    obstacle::Obstacle,
    plan::{Plan, Site, nothing_changed},
};
use crate::cli::plugin::grant::suggestion;
use airlock_core::tool::ClientName;
use airlock_plugin::{Change, Drift};
use airlock_strings::{cut, visible_line};

/// Maximum rounds of adding options: an option that was added may meet another obstacle, such as a
/// grant that needs another profile.
const MAX_ROUNDS: usize = 4;
/// Name in a proposed command that stands for one of the operator's choice. It is no valid name.
const OTHER_NAME: &str = "<NAME>";
/// Maximum length of the list of tools in a message, in bytes.
const MAX_LISTED: usize = 500;

/// Explains why the plugin is not installed. `lock` is the path of the lock file.
pub(super) fn refused(
    args: &Args,
    site: &Site<'_>,
    plan: &Plan,
    lock: &Path,
) -> anyhow::Result<String> {
    let is_other = plan.drift.as_ref().is_some_and(Drift::has_other_id);
    let mut paragraphs = vec![reasons(site, plan, is_other)];
    if is_other {
        let name = Some(OTHER_NAME.to_owned());
        let command = Args { name, replace: false, ..args.clone() }.command();
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
    let proposal = Proposal::of(args, site, plan)?;
    if proposal.args.command() != args.command() {
        let heading = match (proposal.installs, &plan.drift) {
            (true, Some(_)) => "to install it, if you agree with the changes above",
            (true, None) => "this would install it",
            (false, _) => "this would do the rest, once you have resolved what is left",
        };
        paragraphs.extend(proposal.consequences());
        paragraphs.push(format!("{heading}{}", proposal.text()));
    }
    Ok(paragraphs.join("\n\n"))
}

/// Returns the command that installs a component with the grants that it lacks, and its heading;
/// `None` if no option helps.
pub(super) fn remedy(args: &Args, site: &Site<'_>) -> anyhow::Result<Option<String>> {
    let plan = Plan::of(args, site)?;
    let proposal = Proposal::of(args, site, &plan)?;
    let heading = if proposal.installs {
        "if you agree, this grants what it lacks and accepts it"
    } else {
        "this would do the rest, once you have resolved what is left"
    };
    let is_other = proposal.args.command() != args.command();
    Ok(is_other.then(|| format!("{heading}{}", proposal.text())))
}

/// Lists the tools that a slot can be bound to, if one is bound to a tool that does not exist and the
/// reason does not list them already.
fn known_tools(args: &Args, site: &Site<'_>, plan: &Plan) -> anyhow::Result<Option<String>> {
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

/// The command as it was typed, with the options that remove the obstacles.
struct Proposal {
    args: Args,
    /// Added grants with a value that only the operator knows.
    choices: Vec<GrantOption>,
    /// Reasons for options that only the added options made necessary.
    consequences: Vec<String>,
    /// True if the command installs the plugin: it was tried, except for the choices.
    installs: bool,
}

impl Proposal {
    fn of(args: &Args, site: &Site<'_>, plan: &Plan) -> anyhow::Result<Self> {
        let choices = Vec::new();
        let consequences = Vec::new();
        let mut proposal = Self { args: args.clone(), choices, consequences, installs: false };
        let mut obstacles = plan.obstacles.clone();
        for _ in 0..MAX_ROUNDS {
            for obstacle in &obstacles {
                let before = proposal.args.command();
                proposal.overcome(obstacle, site.component, site.name);
                if !plan.obstacles.contains(obstacle) && proposal.args.command() != before {
                    proposal.consequences.push(obstacle.to_string());
                }
            }
            let mut tried = proposal.args.clone();
            tried.grants.retain(|grant| !proposal.choices.contains(grant));
            obstacles = Plan::of(&tried, site)?.obstacles;
            obstacles.retain(|obstacle| !proposal.leaves_to_operator(obstacle));
            if obstacles.is_empty() {
                proposal.installs = true;
                break;
            }
        }
        Ok(proposal)
    }

    /// Returns the end of a heading and the command below it.
    fn text(&self) -> String {
        let is_open = self.args.grants.iter().any(|grant| grant.printable() != *grant);
        let choices = if is_open || !self.choices.is_empty() {
            ", with your values in place of `<…>`"
        } else {
            ""
        };
        format!("{choices}:\n  {}", self.args.command())
    }

    /// Returns the reasons for options that no printed obstacle explains.
    fn consequences(&self) -> Option<String> {
        let lines = self.consequences.join("\n  ");
        (!lines.is_empty()).then(|| format!("what these grants need in turn:\n  {lines}"))
    }

    /// Returns whether a choice of the operator removes the obstacle.
    fn leaves_to_operator(&self, obstacle: &Obstacle) -> bool {
        let Obstacle::NotGranted { request, .. } = obstacle else { return false };
        self.choices.iter().any(|grant| match grant.request() {
            Some(granted) => granted == *request || request == "files.*",
            None => request.starts_with("http."),
        })
    }

    /// Adds the option that removes an obstacle, if there is one.
    fn overcome(&mut self, obstacle: &Obstacle, component: &Component, name: &ClientName) {
        match obstacle {
            Obstacle::Taken => self.args.replace = true,
            Obstacle::Change(Change::Id { .. }) => self.args.consent.change_id = true,
            Obstacle::Change(Change::Widened(widening)) => {
                let regrant = &mut self.args.consent.regrant;
                if !regrant.contains(&widening.request) {
                    regrant.push(widening.request.clone());
                }
            }
            Obstacle::Profile { .. } => self.args.profile = Some("trusted".to_owned()),
            Obstacle::NotGranted { request, .. } => {
                let mut requests =
                    component.metadata.manifest.iter().flat_map(|manifest| manifest.request.all());
                let missing = requests.find(|found| found.to_string() == *request);
                let grant = missing.map(|request| suggestion(name.as_str(), request));
                let Some(grant) = grant.filter(|grant| !self.args.grants.contains(grant)) else {
                    return;
                };
                self.choices.extend(Some(&grant).filter(|grant| grant.is_choice()).cloned());
                self.args.grants.push(grant);
            }
            Obstacle::Slot { name: slot, .. } => {
                let requests =
                    component.metadata.manifest.as_ref().map(|manifest| &manifest.request.slot);
                let is_optional = requests
                    .and_then(|requests| requests.get(slot))
                    .is_some_and(|request| request.optional);
                self.args.grants.retain(
                    |grant| !matches!(grant, GrantOption::Slot { name, .. } if is_optional && name == slot),
                );
            }
            Obstacle::Private { url, .. } => {
                for grant in &mut self.args.grants {
                    if let GrantOption::Host { url: typed, private, .. } = grant {
                        *private |= typed == url;
                    }
                }
            }
            Obstacle::Change(_) | Obstacle::Invalid { .. } => {}
        }
    }
}
