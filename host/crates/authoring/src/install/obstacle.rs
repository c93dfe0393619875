//! Reasons that a plugin is not installed or accepted.

use std::{cell::RefCell, fmt};

use super::{grant::GrantOption, written::WrittenKeys};
use crate::Component;
use airlock_config::{Config, Problem, environment};
use airlock_core::{
    secret::{Secret, SecretSource},
    tool::ClientName,
};
use airlock_egress::{BadRule, Rule};
use airlock_plugin::{Change, LoadRefusal, Reason, Rights, Settings};
use airlock_strings::visible_line;

/// Reason that a plugin is not installed or accepted. As text, it names requests, and options of `airlock
/// plugin install`.
#[derive(Debug, Clone, PartialEq)]
pub enum Obstacle {
    /// Another component has the name.
    Taken,
    /// The change needs consent: another id, or a wider request that is granted.
    Change(Change),
    /// A required request is not granted.
    NotGranted {
        /// The request, such as `http.api`.
        request: String,
        /// The obstacle as text.
        text: String,
    },
    /// The profile does not permit what is granted.
    Profile(String),
    /// A granted tool for a slot does not exist.
    Slot {
        /// Name of the slot.
        name: String,
        /// The obstacle as text.
        text: String,
    },
    /// A granted host is in a private network, which the grant does not say.
    Private {
        /// URL of the host.
        url: String,
        /// The obstacle as text.
        text: String,
    },
    /// An option or the configuration is invalid.
    Invalid(String),
}

/// Decision of the gateway about a plugin.
#[derive(Default)]
pub(super) struct LoadDecision {
    /// Reasons that the plugin would not be loaded, and directories and tools that do not exist.
    pub(super) obstacles: Vec<Obstacle>,
    /// Grants without effect, and values that the gateway will need.
    pub(super) notes: Vec<String>,
}

impl LoadDecision {
    /// Decides as the gateway will about the plugin of this name in `config`. `grants` are options, and
    /// `typed` the keys that they were written to.
    pub(super) fn new(
        component: &Component,
        name: &ClientName,
        config: &Config,
        grants: &[GrantOption],
        typed: &WrittenKeys,
    ) -> Self {
        let Some(settings) = config.plugin(name) else { return Self::default() };
        let (mut obstacles, notes) = match decide(component, settings) {
            Ok(notes) => (Vec::new(), notes),
            Err(refusal) => {
                let reasons = refusal.reasons.iter().map(|reason| Obstacle::new(reason, typed));
                (reasons.collect(), Vec::new())
            }
        };
        let problems = config.check_grant(name, &component.metadata.tools);
        obstacles.extend(problems.iter().map(|problem| Obstacle::invalid(problem, grants, typed)));
        Self { obstacles, notes }
    }
}

/// Returns notes for the operator. A secret that cannot be read in this shell may be readable where
/// the gateway runs.
fn decide(component: &Component, settings: &Settings) -> Result<Vec<String>, LoadRefusal> {
    let absent = RefCell::new(Vec::new());
    let manifest = component.metadata.manifest.as_ref();
    let rights = Rights::intersect(manifest, &settings.grant, &|source: &SecretSource| {
        Ok(source.read(&environment).unwrap_or_else(|error| {
            absent.borrow_mut().push(format!("the gateway will need it: {error}"));
            Secret::new("a secret that is not here")
        }))
    })?;
    let notes = rights.notes.into_iter().chain(absent.into_inner());
    Ok(notes.map(|note| visible_line(&note)).collect())
}

impl Obstacle {
    fn new(reason: &Reason, typed: &WrittenKeys) -> Self {
        let text = typed.reason(reason);
        match reason {
            Reason::NotGranted { request, .. } => {
                Self::NotGranted { request: request.clone(), text }
            }
            Reason::Profile { .. } => Self::Profile(text),
            Reason::NoValue { .. } | Reason::Invalid { .. } => Self::Invalid(text),
        }
    }

    /// Creates the obstacle of a problem in `wasm_config`, where `typed` grants were written.
    pub(super) fn invalid(problem: &Problem, grants: &[GrantOption], typed: &WrittenKeys) -> Self {
        let text = typed.problem(problem);
        let option = typed.option(&problem.key);
        match grants.iter().find(|grant| Some(grant.option().as_str()) == option) {
            Some(GrantOption::Slot { name, .. }) => Self::Slot { name: name.clone(), text },
            Some(GrantOption::Host { url, private: false, .. }) if is_private(url) => {
                Self::Private { url: url.clone(), text }
            }
            _ => Self::Invalid(text),
        }
    }
}

/// Returns whether a URL names an address that a rule permits only if it is said to be private.
fn is_private(url: &str) -> bool {
    let none: &[&str] = &[];
    let rule = Rule::new(url, none, none, false).and_then(Rule::reachable);
    matches!(rule, Err(BadRule::Private { .. }))
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str(
                "another component has that name, and this one would get all its grants",
            ),
            Self::Change(change) => f.write_str(&visible_line(&change.to_string())),
            Self::NotGranted { text, .. }
            | Self::Profile(text)
            | Self::Slot { text, .. }
            | Self::Private { text, .. }
            | Self::Invalid(text) => f.write_str(text),
        }
    }
}
