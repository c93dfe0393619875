//! The command that would install a plugin: the options as typed, with those that remove the obstacles.

use super::{
    options::InstallArgs,
    plan::{Plan, Site},
};
use crate::cli::plugin::{
    grant::{GrantOption, suggestion},
    obstacle::Obstacle,
};
use airlock_plugin::Change;

/// A proposed installation.
pub(super) struct Proposal {
    args: InstallArgs,
    /// Added grants with a value that only the operator knows.
    choices: Vec<GrantOption>,
    /// Reasons for options that only the added grants made necessary.
    consequences: Vec<String>,
    /// True if it has an option that was not typed.
    is_other: bool,
    /// True if an option, or a choice of the operator, removes every obstacle.
    installs: bool,
}

impl Proposal {
    /// Proposes the options that remove the obstacles of `plan`, which is that of `args`.
    pub(super) fn new(args: &InstallArgs, site: &Site<'_>, plan: &Plan) -> anyhow::Result<Self> {
        let mut proposal = Self {
            args: args.clone(),
            choices: Vec::new(),
            consequences: Vec::new(),
            is_other: false,
            installs: true,
        };
        for obstacle in &plan.obstacles {
            proposal.is_other |= proposal.remove(obstacle, site);
        }
        // Decided once more, because a profile limits only what is granted, and only what is granted
        // can become wider: neither shows for a grant that is still missing.
        let mut completed = proposal.args.clone();
        completed.grants.retain(|grant| !proposal.choices.contains(grant));
        for obstacle in Plan::decide(&completed, site)?.obstacles {
            if proposal.leaves_to_operator(&obstacle, site) {
                continue;
            }
            let is_removed = proposal.remove(&obstacle, site);
            proposal.installs &= is_removed;
            if is_removed && !plan.obstacles.contains(&obstacle) {
                proposal.consequences.push(obstacle.to_string());
            }
        }
        Ok(proposal)
    }

    /// Returns the command below its heading, which is `heading` if the command installs the plugin;
    /// `None` if no option helps.
    pub(super) fn text(&self, heading: &str) -> Option<String> {
        let heading = if self.installs {
            heading
        } else {
            "this would do the rest, once you have resolved what is left"
        };
        let is_hidden = self.args.grants.iter().any(|grant| grant.printable() != *grant);
        let choices = if is_hidden || !self.choices.is_empty() {
            ", with your values in place of `<…>`"
        } else {
            ""
        };
        self.is_other.then(|| format!("{heading}{choices}:\n  {}", self.args.command()))
    }

    /// Returns the reasons for options that no obstacle of the plan explains.
    pub(super) fn consequences(&self) -> Option<String> {
        let lines = self.consequences.join("\n  ");
        (!lines.is_empty()).then(|| format!("what these grants need in turn:\n  {lines}"))
    }

    /// Returns whether a choice of the operator removes the obstacle.
    fn leaves_to_operator(&self, obstacle: &Obstacle, site: &Site<'_>) -> bool {
        matches!(obstacle, Obstacle::NotGranted { request, .. }
            if self.choices.iter().any(|grant| site.is_for(grant, request)))
    }

    /// Adds the option that removes an obstacle. Returns whether there is one.
    fn remove(&mut self, obstacle: &Obstacle, site: &Site<'_>) -> bool {
        let Self { args, choices, .. } = self;
        match obstacle {
            Obstacle::Taken => args.replace = true,
            Obstacle::Change(Change::Id { .. }) => args.consent.change_id = true,
            Obstacle::Change(Change::Widened(widening)) => {
                if !args.consent.regrant.contains(&widening.request) {
                    args.consent.regrant.push(widening.request.clone());
                }
            }
            Obstacle::Profile { .. } => args.profile = Some("trusted".to_owned()),
            Obstacle::NotGranted { request, .. } => {
                let request = site.request(request);
                let grant = request.map(|request| suggestion(site.name.as_str(), request));
                let Some(grant) = grant.filter(|grant| !args.grants.contains(grant)) else {
                    return false;
                };
                choices.extend(Some(&grant).filter(|grant| grant.is_choice()).cloned());
                args.grants.push(grant);
            }
            Obstacle::Slot { name: slot, .. } => {
                let request = site.requests().and_then(|requests| requests.slot.get(slot));
                if !request.is_some_and(|request| request.optional) {
                    return false;
                }
                args.grants.retain(
                    |grant| !matches!(grant, GrantOption::Slot { name, .. } if name == slot),
                );
            }
            Obstacle::Private { url, .. } => {
                for grant in &mut args.grants {
                    if let GrantOption::Host { url: typed, private, .. } = grant {
                        *private |= typed == url;
                    }
                }
            }
            Obstacle::Change(_) | Obstacle::Invalid { .. } => return false,
        }
        true
    }
}
