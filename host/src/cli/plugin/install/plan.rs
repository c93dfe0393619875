//! An installation before anything is written: the changed configuration, and the obstacles.

use std::{cell::RefCell, fmt};

use anyhow::{Context as _, anyhow};
use serde_json::{Map, Value, json};

use super::{Args, Component, Document, GrantOption, Typed, grant, stale};
use crate::{
    config::{ConfigError, KeyPath, Problem, environment},
    plugin::{Change, Drift, Lock, Reason, Refusal, Requests, Rights, Settings},
    secret::Secret,
    text::visible_line,
    tool::ClientName,
};

/// Circumstances of an installation. They do not depend on the options.
pub(super) struct Site<'a> {
    pub(super) component: &'a Component,
    pub(super) name: &'a ClientName,
    /// The configuration as it is.
    pub(super) document: &'a Document,
    /// State of the plugin that holds the name; `None` if the name is free.
    pub(super) holder: Option<Lock>,
}

/// An installation with certain options.
pub(super) struct Plan {
    /// The configuration as it would be written.
    pub(super) document: Document,
    /// The plugin's part of that configuration.
    pub(super) settings: Settings,
    /// Differences from the plugin that holds the name.
    pub(super) drift: Option<Drift>,
    /// Everything that the options do not permit or provide.
    pub(super) obstacles: Vec<Obstacle>,
    /// Grants without effect, and values that the gateway will need.
    notes: Vec<String>,
    /// Grants that `--replace` removes, because the plugin no longer requests them.
    removed: Vec<String>,
}

/// Reason that a plugin is not installed. As text, it names requests and options.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Obstacle {
    /// Another component has the name.
    Taken,
    /// The change needs consent: another id, or a wider request that is granted.
    Change(Change),
    /// A required request is not granted.
    NotGranted { request: String, text: String },
    /// The profile does not permit what is granted.
    Profile { text: String },
    /// An option or the configuration is invalid.
    Invalid { text: String },
}

impl Site<'_> {
    fn drift(&self, settings: &Settings) -> Option<Drift> {
        let (holder, metadata) = (self.holder.as_ref()?, &self.component.metadata);
        let pin = holder.pin(self.name);
        if pin.is_some_and(|pin| pin.component == metadata.digest) {
            return None;
        }
        Drift::between(holder, self.name, metadata, &settings.grant)
    }
}

impl Plan {
    /// Decides an installation. Fails if the configuration would be invalid.
    pub(super) fn of(args: &Args, site: &Site<'_>) -> anyhow::Result<Self> {
        let manifest = site.component.metadata.manifest.as_ref();
        args.consent.check(manifest)?;
        let mut document = site.document.clone();
        let entry = document.plugin(site.name)?;
        let requests = manifest.map(|manifest| &manifest.request);
        let removed = match (args.replace, requests, entry.get_mut("grants")) {
            (true, Some(requests), Some(Value::Object(grants))) => stale::remove(grants, requests),
            _ => Vec::new(),
        };
        let unrequested = requests.map(|requests| grant::unrequested(&args.grants, requests));
        let unrequested = unrequested.into_iter().flatten();
        let mut obstacles: Vec<_> = unrequested.map(|text| Obstacle::Invalid { text }).collect();
        let typed = write_entry(args, requests, site.name, entry)?;
        let config = match document.config() {
            Ok(config) => config,
            Err(error) => return Err(invalid(site, &document, &typed, &obstacles, error)),
        };
        let settings = config.plugin(site.name).context("the entry was written above")?.clone();
        let drift = site.drift(&settings);
        obstacles.splice(0..0, changes(args, drift.as_ref()));
        let notes = match decide(site.component, &settings) {
            Ok(notes) => notes,
            Err(refusal) => {
                obstacles.extend(refusal.reasons.iter().map(|it| Obstacle::of(it, &typed)));
                Vec::new()
            }
        };
        let problems = config.check_grant(site.name, &site.component.metadata.tools);
        let problem = |it: &Problem| Obstacle::Invalid { text: typed.problem(it) };
        obstacles.extend(problems.iter().map(problem));
        Ok(Self { document, settings, drift, obstacles, notes, removed })
    }

    /// Returns notes for the operator.
    pub(super) fn notes(&self) -> impl Iterator<Item = String> {
        let removed = (!self.removed.is_empty()).then(|| {
            let keys = visible_line(&self.removed.join(", "));
            format!("removed from the grants, because this build does not request it: {keys}")
        });
        removed.into_iter().chain(self.notes.iter().cloned())
    }
}

/// Describes the problems of the configuration that would be written, and what else is invalid.
fn invalid(
    site: &Site<'_>,
    document: &Document,
    typed: &Typed,
    obstacles: &[Obstacle],
    error: anyhow::Error,
) -> anyhow::Error {
    let Some(problems) = error.downcast_ref::<ConfigError>() else { return error };
    let mut lines = vec![nothing_changed(site.name)];
    lines.extend(obstacles.iter().map(ToString::to_string));
    lines.extend(typed.invalid(&document.key(site.name), problems));
    anyhow!(lines.join("\n  "))
}

/// Returns the line above the reasons of a refusal.
pub(super) fn nothing_changed(name: &ClientName) -> String {
    format!("{name} is not installed, and nothing was changed:")
}

/// Returns the differences from the holder of the name that the operator has not consented to. A
/// component chooses its own name and requests, and would receive the grants of the other one.
fn changes(args: &Args, drift: Option<&Drift>) -> Vec<Obstacle> {
    let Some(drift) = drift else { return Vec::new() };
    let consent = args.consent();
    // `--grant-all` names no request, so it is consent to new ones and not to wider ones.
    let is_new = |change: &Change| matches!(change, Change::Widened(it) if it.was.is_empty());
    let lacks = |change: &&Change| consent.lacks(change) && !(args.grant_all && is_new(change));
    let lacking = drift.changes.iter().filter(lacks);
    let taken = (!args.replace).then_some(Obstacle::Taken);
    taken.into_iter().chain(lacking.cloned().map(Obstacle::Change)).collect()
}

/// Writes the operator's options into `wasm_config`. Returns their keys.
fn write_entry(
    args: &Args,
    requests: Option<&Requests>,
    name: &ClientName,
    entry: &mut Map<String, Value>,
) -> anyhow::Result<Typed> {
    let mut typed = Typed::default();
    entry.insert("component".to_owned(), json!(format!("plugins/{name}.wasm")));
    if let Some(profile) = &args.profile {
        entry.insert("profile".to_owned(), json!(profile));
    }
    write_values(args, entry, &mut typed)?;
    let all = requests.filter(|_| args.grant_all).map(GrantOption::all).unwrap_or_default();
    let is_requested =
        |grant: &&GrantOption| requests.is_none_or(|requests| grant.is_requested(requests));
    for grant in all.iter().chain(args.grants.iter().filter(is_requested)) {
        let key = grant.apply(object(entry, "grants")?, requests);
        typed.add(key, grant.option());
    }
    Ok(typed)
}

/// Writes the values of `--set` and `--describe`.
fn write_values(
    args: &Args,
    entry: &mut Map<String, Value>,
    typed: &mut Typed,
) -> anyhow::Result<()> {
    let key = |name: &str| KeyPath::default().member(name);
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
        typed.add(key("descriptions").member(tool), format!("--describe {tool}"));
    }
    if !args.set.is_empty() {
        // The schema is about all settings together.
        typed.add(key("config"), "--set".to_owned());
    }
    Ok(())
}

fn object<'a>(
    entry: &'a mut Map<String, Value>,
    key: &str,
) -> anyhow::Result<&'a mut Map<String, Value>> {
    let value = entry.entry(key).or_insert_with(|| json!({}));
    value.as_object_mut().with_context(|| format!("`wasm_config.{key}` is not an object"))
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
    let notes = rights.notes.into_iter().chain(absent.into_inner());
    Ok(notes.map(|note| visible_line(&note)).collect())
}

impl Obstacle {
    fn of(reason: &Reason, typed: &Typed) -> Self {
        let text = typed.reason(reason);
        match reason {
            Reason::NotGranted { request, .. } => {
                Self::NotGranted { request: request.clone(), text }
            }
            Reason::Profile { .. } => Self::Profile { text },
            Reason::NoValue { .. } | Reason::Invalid { .. } => Self::Invalid { text },
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Taken => f.write_str(
                "another component has that name, and this one would get all its grants",
            ),
            Self::Change(change) => f.write_str(&visible_line(&change.to_string())),
            Self::NotGranted { text, .. } | Self::Profile { text } | Self::Invalid { text } => {
                f.write_str(text)
            }
        }
    }
}
