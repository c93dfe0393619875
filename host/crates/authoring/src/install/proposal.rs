//! The options that would install a plugin: those of the operator, with those that remove the obstacles.

use super::{GrantOption, InstallError, InstallOptions, InstallPlan, Installation, Obstacle};
use airlock_plugin::Change;

/// A proposed installation.
pub struct InstallProposal {
    /// Its options.
    pub options: InstallOptions,
    /// Added grants with a value that only the operator knows: parts of them are placeholders.
    pub choices: Vec<GrantOption>,
    /// Reasons for options that only the added grants made necessary.
    pub consequences: Vec<String>,
    /// True if an option was added or changed.
    pub is_other: bool,
    /// True if an option, or a choice of the operator, removes every obstacle.
    pub installs: bool,
}

impl InstallProposal {
    /// Proposes the options that remove the obstacles of `plan`, which is that of `options`.
    pub fn new(
        installation: &Installation<'_>,
        options: &InstallOptions,
        plan: &InstallPlan,
    ) -> Result<Self, InstallError> {
        let mut proposal = Self {
            options: options.clone(),
            choices: Vec::new(),
            consequences: Vec::new(),
            is_other: false,
            installs: true,
        };
        for obstacle in &plan.obstacles {
            proposal.is_other |= proposal.remove(obstacle, installation);
        }
        // Decided once more, because a profile limits only what is granted, and only what is granted
        // can become wider: neither shows for a grant that is still missing.
        let mut completed = proposal.options.clone();
        completed.grants.retain(|grant| !proposal.choices.contains(grant));
        for obstacle in installation.plan(&completed)?.obstacles {
            if proposal.leaves_to_operator(&obstacle, installation) {
                continue;
            }
            let is_removed = proposal.remove(&obstacle, installation);
            proposal.installs &= is_removed;
            if is_removed && !plan.obstacles.contains(&obstacle) {
                proposal.consequences.push(obstacle.to_string());
            }
        }
        Ok(proposal)
    }

    /// Returns whether a choice of the operator removes the obstacle.
    fn leaves_to_operator(&self, obstacle: &Obstacle, installation: &Installation<'_>) -> bool {
        matches!(obstacle, Obstacle::NotGranted { request, .. }
            if self.choices.iter().any(|grant| installation.is_for(grant, request)))
    }

    /// Adds the option that removes an obstacle. Returns whether there is one.
    fn remove(&mut self, obstacle: &Obstacle, installation: &Installation<'_>) -> bool {
        let Self { options, choices, .. } = self;
        match obstacle {
            Obstacle::Taken => options.replace = true,
            Obstacle::Change(
                Change::Id { .. } | Change::Publisher { .. } | Change::Downgrade { .. },
            ) => {
                options.consent.change_id = true;
            }
            Obstacle::Change(Change::Widened(widening)) => {
                options.consent.regrant.insert(widening.request.clone());
            }
            Obstacle::Profile(_) => options.profile = Some("trusted".to_owned()),
            Obstacle::NotGranted { request, .. } => {
                let client = installation.name.as_str();
                let request = installation.request(request);
                let grant = request.map(|request| GrantOption::suggestion(client, request));
                let Some(grant) = grant.filter(|grant| !options.grants.contains(grant)) else {
                    return false;
                };
                choices.extend(Some(&grant).filter(|grant| grant.is_choice()).cloned());
                options.grants.push(grant);
            }
            Obstacle::Slot { name: slot, .. } => {
                let request = installation.requests().and_then(|requests| requests.slot.get(slot));
                if !request.is_some_and(|request| request.optional) {
                    return false;
                }
                options.grants.retain(
                    |grant| !matches!(grant, GrantOption::Slot { name, .. } if name == slot),
                );
            }
            Obstacle::Private { url, .. } => {
                for grant in &mut options.grants {
                    if let GrantOption::Host { url: typed, private, .. } = grant {
                        *private |= typed == url;
                    }
                }
            }
            Obstacle::Change(_) | Obstacle::Invalid(_) => return false,
        }
        true
    }
}
