//! An installation before anything is written: the changed configuration, and the obstacles.

use anyhow::{Context as _, bail};
use serde_json::{Map, Value, json};

use super::{
    changes,
    options::{DESCRIPTION, InstallArgs},
};
use crate::cli::plugin::{
    edit::Document,
    grant::{self, GrantOption},
    obstacle::{LoadDecision, Obstacle},
    typed::{Typed, parse_setting},
};
use airlock_authoring::Component;
use airlock_config::{ConfigError, KeyPath, Problem};
use airlock_core::tool::{ClientName, Policy};
use airlock_lock::Lock;
use airlock_plugin::{Change, Drift, Request, Requests, Settings};
use airlock_strings::visible_line;

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
    /// Notes for the operator about the grants.
    pub(super) notes: Vec<String>,
}

/// A configuration with the options written into it, which may make it invalid.
struct DraftConfig {
    document: Document,
    typed: Typed,
    /// Options that cannot be written, and grants that the plugin does not request.
    faults: Vec<String>,
    /// Notes about the grants that differ from those of the installed build.
    notes: Vec<String>,
}

impl Site<'_> {
    pub(super) fn requests(&self) -> Option<&Requests> {
        self.component.metadata.manifest.as_ref().map(|manifest| &manifest.request)
    }

    /// Returns the request of this name.
    pub(super) fn request(&self, name: &str) -> Option<Request<'_>> {
        grant::named(self.requests()?, name)
    }

    /// Returns whether a grant is for the request of this name.
    pub(super) fn is_for(&self, grant: &GrantOption, name: &str) -> bool {
        let request = self.requests().zip(self.request(name));
        request.is_some_and(|(requests, request)| grant.is_for(request, requests))
    }

    fn drift(&self, settings: &Settings, policy: &Policy) -> Option<Drift> {
        let holder = self.holder.as_ref()?;
        let metadata = &self.component.metadata;
        let pin = holder.pin(self.name);
        if pin.is_some_and(|pin| pin.component == metadata.digest) {
            return None;
        }
        Drift::between(holder, self.name, metadata, &settings.grant, policy)
    }
}

impl Plan {
    /// Decides an installation: writes the options into the configuration, intersects the requests with
    /// the grants, compares the result with the accepted state, and returns what is left to ask. Grants
    /// that make the configuration invalid are obstacles, and the rest is decided without them. Fails if
    /// the configuration would be invalid for another reason.
    pub(super) fn decide(args: &InstallArgs, site: &Site<'_>) -> anyhow::Result<Self> {
        let written = DraftConfig::write(args, site)?;
        let (config, problems) = written.document.valid_parts()?;
        let invalid = written.invalid_grants(args, site, problems)?;
        let DraftConfig { document, typed, faults, mut notes } = written;
        let config = config.context("the configuration was valid without the options")?;
        let settings = config.plugin(site.name).context("the entry was written above")?.clone();
        let mut decided =
            LoadDecision::new(site.component, site.name, &config, &args.grants, &typed);
        // A grant that is invalid is not missing too.
        decided.obstacles.retain(|obstacle| {
            !matches!(obstacle, Obstacle::NotGranted { request, .. }
                if invalid.iter().any(|(grant, _)| site.is_for(grant, request)))
        });
        let client = config.clients.iter().find(|client| client.name == *site.name);
        let policy = &client.context("the entry was written above")?.policy;
        let drift = site.drift(&settings, policy);
        let manifest = site.component.metadata.manifest.as_ref();
        let faults = faults.into_iter().chain(args.consent.unknown(manifest, &settings.grant));
        let mut obstacles = unconsented(args, drift.as_ref());
        obstacles.extend(faults.map(|text| Obstacle::Invalid { text }));
        obstacles.extend(invalid.into_iter().map(|(_, obstacle)| obstacle));
        obstacles.extend(decided.obstacles);
        notes.extend(decided.notes);
        notes.extend(args.consent.unneeded(drift.as_ref()));
        Ok(Self { document, settings, drift, obstacles, notes })
    }
}

impl DraftConfig {
    fn write(args: &InstallArgs, site: &Site<'_>) -> anyhow::Result<Self> {
        let requests = site.requests();
        let mut document = site.document.clone();
        let is_new = !document.has(site.name);
        let entry = document.plugin(site.name)?;
        let before = entry.get("grants").and_then(Value::as_object).cloned().unwrap_or_default();
        let removed = match (args.replace, requests, entry.get_mut("grants")) {
            (true, Some(requests), Some(Value::Object(grants))) => {
                changes::remove_stale(grants, requests)
            }
            _ => Vec::new(),
        };
        let unrequested = requests.map(|requests| grant::unrequested(&args.grants, requests));
        let mut faults = unrequested.unwrap_or_default();
        let typed = write_entry(args, requests, site.name, entry, &mut faults)?;
        let mut notes = Vec::new();
        if !removed.is_empty() {
            let keys = visible_line(&removed.join(", "));
            notes.push(format!(
                "removed from the grants, because this build does not request it: {keys}"
            ));
        }
        let after = entry.get("grants").and_then(Value::as_object).filter(|_| !is_new);
        notes.extend(after.iter().flat_map(|after| changes::notes(&before, after)));
        Ok(Self { document, typed, faults, notes })
    }

    /// Returns the grants for which the configuration is invalid, each with its problem. Fails with all
    /// problems if another option has one.
    fn invalid_grants<'a>(
        &self,
        args: &'a InstallArgs,
        site: &Site<'_>,
        problems: Vec<Problem>,
    ) -> anyhow::Result<Vec<(&'a GrantOption, Obstacle)>> {
        let entry = self.document.key(site.name);
        let mut invalid = Vec::new();
        let mut others = Vec::new();
        for problem in problems {
            let key = problem.key.below(&entry);
            let option = key.as_ref().and_then(|key| self.typed.option(key));
            let grant = args.grants.iter().find(|grant| Some(grant.option().as_str()) == option);
            match (grant, key) {
                (Some(grant), Some(key)) => {
                    let problem = Problem { key, ..problem };
                    invalid.push((grant, Obstacle::invalid(&problem, &args.grants, &self.typed)));
                }
                _ => others.push(problem),
            }
        }
        if others.is_empty() {
            return Ok(invalid);
        }
        let mut lines = vec![nothing_changed(site.name)];
        lines.extend(self.faults.iter().cloned());
        lines.extend(invalid.iter().map(|(_, obstacle)| obstacle.to_string()));
        let error = ConfigError::Invalid { file: self.document.file(), problems: others };
        lines.extend(self.typed.invalid(&entry, &error));
        bail!(lines.join("\n  "))
    }
}

/// Returns the line above the reasons of a refusal.
pub(super) fn nothing_changed(name: &ClientName) -> String {
    format!("{name} is not installed, and nothing was changed:")
}

/// Returns the differences from the holder of the name that the operator has not consented to. A
/// component chooses its own name and requests, and would receive the grants of the other one.
fn unconsented(args: &InstallArgs, drift: Option<&Drift>) -> Vec<Obstacle> {
    let Some(drift) = drift else { return Vec::new() };
    let consent = args.consent();
    // `--grant-all` names no request, so it is consent to new ones and not to wider ones.
    let lacking = drift.changes.iter().filter(|change| {
        let is_new = matches!(change, Change::Widened(widening) if widening.is_new);
        consent.lacks(change) && !(args.grant_all && is_new)
    });
    let taken = (!args.replace).then_some(Obstacle::Taken);
    taken.into_iter().chain(lacking.cloned().map(Obstacle::Change)).collect()
}

/// Writes the operator's options into `wasm_config`. Returns their keys. Adds the options that cannot
/// be written to `faults`.
fn write_entry(
    args: &InstallArgs,
    requests: Option<&Requests>,
    name: &ClientName,
    entry: &mut Map<String, Value>,
    faults: &mut Vec<String>,
) -> anyhow::Result<Typed> {
    let mut typed = Typed::default();
    entry.insert("component".to_owned(), json!(format!("plugins/{name}.wasm")));
    if let Some(profile) = &args.profile {
        entry.insert("profile".to_owned(), json!(profile));
    }
    write_settings(args, entry, &mut typed, faults)?;
    write_descriptions(args, entry, &mut typed, faults)?;
    let all = requests.filter(|_| args.grant_all).map(GrantOption::all).unwrap_or_default();
    let named = args
        .grants
        .iter()
        .filter(|grant| requests.is_none_or(|requests| grant.is_requested(requests)));
    for grant in all.iter().chain(named) {
        let key = grant.apply(object(entry, "grants")?, requests);
        typed.add(key, grant.option());
    }
    Ok(typed)
}

/// Writes the values of `--set`.
fn write_settings(
    args: &InstallArgs,
    entry: &mut Map<String, Value>,
    typed: &mut Typed,
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    for setting in &args.set {
        match parse_setting(setting) {
            Ok((key, value)) => {
                object(entry, "config")?.insert(key, value);
            }
            Err(problem) => faults.push(problem),
        }
    }
    if !args.set.is_empty() {
        // The schema is about all settings together.
        typed.add(KeyPath::default().member("config"), "--set".to_owned());
    }
    Ok(())
}

/// Writes the values of `--describe`.
fn write_descriptions(
    args: &InstallArgs,
    entry: &mut Map<String, Value>,
    typed: &mut Typed,
    faults: &mut Vec<String>,
) -> anyhow::Result<()> {
    for description in &args.describe {
        match description.split_once('=') {
            Some((tool, text)) if text != DESCRIPTION => {
                object(entry, "descriptions")?.insert(tool.to_owned(), json!(text));
                let key = KeyPath::default().member("descriptions").member(tool);
                typed.add(key, format!("--describe {tool}"));
            }
            Some((tool, text)) => faults.push(visible_line(&format!(
                "--describe {tool}: write the description in place of {text}"
            ))),
            None => {
                faults.push(visible_line(&format!("--describe {description}: expected TOOL=TEXT")));
            }
        }
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
