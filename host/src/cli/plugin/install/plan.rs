//! An installation before anything is written: the changed configuration, and the obstacles.

use std::{cell::RefCell, fmt};

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::{Args, Component, Document, GrantOption};
use crate::{
    config::{Config, Source, environment},
    plugin::{Change, Drift, Lock, Reason, Refusal, Rights, Settings},
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
    /// Notes for the operator.
    pub(super) notes: Vec<String>,
}

/// Reason that a plugin is not installed. As text, it names requests and options.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Obstacle {
    /// Another component has the name.
    Taken,
    /// The change needs consent: another id, or a wider request that is granted.
    Change(Change),
    /// The plugin could not be loaded.
    Refused(Reason),
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
    pub(super) fn of(args: &Args, site: &Site<'_>) -> anyhow::Result<Self> {
        let mut document = site.document.clone();
        write_entry(args, site.component, site.name, document.plugin(site.name)?)?;
        let settings = plugin_of(&document.config()?, site.name)?;
        let drift = site.drift(&settings);
        let mut obstacles = changes(args, drift.as_ref());
        let notes = match decide(site.component, &settings) {
            Ok(notes) => notes,
            Err(refusal) => {
                obstacles.extend(refusal.reasons.into_iter().map(Obstacle::Refused));
                Vec::new()
            }
        };
        Ok(Self { document, settings, drift, obstacles, notes })
    }
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

/// Writes the operator's options into `wasm_config`.
fn write_entry(
    args: &Args,
    component: &Component,
    name: &ClientName,
    entry: &mut Map<String, Value>,
) -> anyhow::Result<()> {
    entry.insert("component".to_owned(), json!(format!("plugins/{name}.wasm")));
    if let Some(profile) = &args.profile {
        entry.insert("profile".to_owned(), json!(profile));
    }
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
    }
    let requests = component.metadata.manifest.as_ref().map(|manifest| &manifest.request);
    let all = requests.filter(|_| args.grant_all).map(GrantOption::all).unwrap_or_default();
    for grant in all.iter().chain(&args.grants) {
        grant.apply(object(entry, "grants")?, requests);
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

fn plugin_of(config: &Config, name: &ClientName) -> anyhow::Result<Settings> {
    let client = config.clients.iter().find(|client| client.name == *name);
    match client.map(|client| &client.source) {
        Some(Source::Plugin(settings)) => Ok((**settings).clone()),
        _ => bail!("the configuration has no plugin named {name}"),
    }
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

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Taken => {
                "another component has that name, and this one would get all its grants".to_owned()
            }
            Self::Change(change) => change.to_string(),
            // The author's reason is in the list of requests above.
            Self::Refused(Reason::NotGranted { right, .. }) => {
                format!("{right} is required and not granted")
            }
            Self::Refused(Reason::Profile { key, request, limit, profile }) => format!(
                "{} is granted, but the profile {} {limit}",
                request.as_ref().unwrap_or(key),
                profile.name()
            ),
            Self::Refused(reason) => reason.to_string(),
        };
        f.write_str(&visible_line(&text))
    }
}
