//! Explains why a plugin is not installed, with the command that would install it.

use std::path::Path;

use super::{
    Args, Component, GrantOption,
    plan::{Obstacle, Plan, Site, nothing_changed},
};
use crate::{
    cli::plugin::grant::suggestion,
    plugin::{Change, Drift},
    text::visible_line,
    tool::ClientName,
};

/// Maximum rounds of adding options: an option that was added may meet another obstacle, such as a
/// grant that needs another profile.
const MAX_ROUNDS: usize = 4;

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
        let name = Some("OTHER".to_owned());
        let command = Args { name, replace: false, ..args.clone() }.command();
        paragraphs.push(format!("to install it under another name:\n  {command}"));
        let (name, config, lock) = (site.name, args.config.path.display(), lock.display());
        paragraphs.push(format!(
            "to use this name without its grants, remove {name} from {config} and {lock} first"
        ));
    }
    let Proposal { args: proposed, choices, installs } = Proposal::of(args, site, plan)?;
    if proposed.command() != args.command() {
        let heading = match (installs, &plan.drift) {
            (true, Some(_)) => "to install it, if you agree with the changes above",
            (true, None) => "this would install it",
            (false, _) => "this would do the rest, once you have resolved what is left",
        };
        let choices =
            if choices.is_empty() { "" } else { ", with your values for the words in capitals" };
        paragraphs.push(format!("{heading}{choices}:\n  {}", proposed.command()));
    }
    Ok(paragraphs.join("\n\n"))
}

/// Lists the obstacles. Two plugins that claim one name are named first.
fn reasons(site: &Site<'_>, plan: &Plan, is_other: bool) -> String {
    let mut lines = vec![nothing_changed(site.name)];
    lines.extend(is_other.then(|| identity(site)));
    let is_identity = |obstacle: &&Obstacle| {
        matches!(obstacle, Obstacle::Taken | Obstacle::Change(Change::Id { .. }))
    };
    let others = plan.obstacles.iter().filter(|obstacle| !(is_other && is_identity(obstacle)));
    lines.extend(others.map(Obstacle::to_string));
    lines.join("\n  ")
}

/// Describes two plugins that claim one name.
fn identity(site: &Site<'_>) -> String {
    let plugin = |id: Option<&str>| {
        id.map_or_else(
            || "a component without a manifest".to_owned(),
            |id| format!("the plugin {}", visible_line(id)),
        )
    };
    let pin = site.holder.as_ref().and_then(|holder| holder.pin(site.name));
    format!(
        "{} has that name, and this is {}, which would get all its grants",
        plugin(pin.and_then(|pin| pin.id.as_deref())),
        plugin(site.component.metadata.id())
    )
}

/// The command as it was typed, with the options that remove the obstacles.
struct Proposal {
    args: Args,
    /// Added grants with a value that only the operator knows.
    choices: Vec<GrantOption>,
    /// True if the command installs the plugin: it was tried, except for the choices.
    installs: bool,
}

impl Proposal {
    fn of(args: &Args, site: &Site<'_>, plan: &Plan) -> anyhow::Result<Self> {
        let mut proposal = Self { args: args.clone(), choices: Vec::new(), installs: false };
        let mut obstacles = plan.obstacles.clone();
        for _ in 0..MAX_ROUNDS {
            for obstacle in &obstacles {
                proposal.overcome(obstacle, site.component, site.name);
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
                self.args.consent.regrant.push(widening.request.clone());
            }
            Obstacle::Profile { .. } => self.args.profile = Some("trusted".to_owned()),
            Obstacle::NotGranted { request, .. } => {
                let mut requests =
                    component.metadata.manifest.iter().flat_map(|it| it.request.all());
                let missing = requests.find(|found| found.to_string() == *request);
                let grant: Option<GrantOption> =
                    missing.and_then(|request| suggestion(name.as_str(), request).parse().ok());
                let Some(grant) = grant.filter(|grant| !self.args.grants.contains(grant)) else {
                    return;
                };
                self.choices.extend(Some(&grant).filter(|grant| grant.is_choice()).cloned());
                self.args.grants.push(grant);
            }
            Obstacle::Change(_) | Obstacle::Invalid { .. } => {}
        }
    }
}
