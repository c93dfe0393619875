//! An installation before anything is written: the changed configuration, and the obstacles.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    ConfigDocument, DocumentError, GrantOption, InstallError, Installation, Obstacle, WrittenKeys,
    changes, document::object, obstacle::LoadDecision,
};
use airlock_config::{ConfigError, KeyPath, Problem};
use airlock_core::tool::{Policy, ToolDefinition};
use airlock_plugin::{Change, Consent, Drift, Requests, Settings};
use airlock_strings::visible_line;

/// Decisions of the operator about an installation. The default grants nothing.
#[derive(Debug, Clone, Default)]
pub struct InstallOptions {
    /// Rights to grant.
    pub grants: Vec<GrantOption>,
    /// Grants every request that needs no value from the operator.
    pub grant_all: bool,
    /// Name of the ceiling; `None` keeps the configured one.
    pub profile: Option<String>,
    /// Values of the plugin's own configuration.
    pub settings: Map<String, Value>,
    /// Descriptions of tools, in place of their author's.
    pub descriptions: BTreeMap<String, String>,
    /// Replaces the installed build. Grants that the new one does not request are removed.
    pub replace: bool,
    /// Consent to differences from the installed build. A request in `grants` has it without being
    /// named here.
    pub consent: Consent,
    /// Descriptions of options that could not be understood. Each is an obstacle.
    pub faults: Vec<String>,
}

/// An installation with certain options.
pub struct InstallPlan {
    /// The configuration as it would be written.
    pub(super) document: ConfigDocument,
    /// Differences from the plugin that holds the name.
    pub drift: Option<Drift>,
    /// Everything that the options do not permit or provide.
    pub obstacles: Vec<Obstacle>,
    /// Notes for the operator about the grants.
    pub notes: Vec<String>,
    /// Tools that have no description, neither from their author nor from the operator. Models do not
    /// see them.
    pub undescribed: Vec<String>,
}

/// A configuration with the options written into it, which may make it invalid.
struct DraftConfig {
    document: ConfigDocument,
    written: WrittenKeys,
    /// Options that cannot be written, and grants that the plugin does not request.
    faults: Vec<String>,
    /// Notes about the grants that differ from those of the installed build.
    notes: Vec<String>,
}

impl Installation<'_> {
    /// Decides an installation: writes the options into a copy of the configuration, intersects the
    /// requests with the grants, compares the result with the accepted state, and returns the questions
    /// that remain. Grants that make the configuration invalid are obstacles, and the rest is decided without
    /// them. Fails if the configuration would be invalid for another reason, or if nothing can be
    /// replaced.
    pub fn plan(&self, options: &InstallOptions) -> Result<InstallPlan, InstallError> {
        if options.replace && self.holder.is_none() && !self.document.has(&self.name) {
            return Err(self.nothing_to_replace());
        }
        let written = self.draft(options)?;
        let (config, problems) = written.document.valid_parts();
        let invalid = self.invalid_grants(&written, options, problems)?;
        let valid = config.as_ref().and_then(|config| {
            let client = config.clients.iter().find(|client| client.name == self.name)?;
            Some((config, &client.policy, config.plugin(&self.name)?))
        });
        let Some((config, policy, settings)) = valid else {
            let reasons = invalid.iter().map(|(_, obstacle)| obstacle.to_string()).collect();
            return Err(InstallError::Refused { name: self.name.clone(), reasons });
        };
        let DraftConfig { document, written, faults, mut notes } = written;
        let drift = self.drift(settings, policy);
        let metadata = &self.component.metadata;
        let mut decided =
            LoadDecision::new(self.component, &self.name, config, &options.grants, &written);
        // A grant that is invalid is not missing too.
        decided.obstacles.retain(|obstacle| {
            !matches!(obstacle, Obstacle::NotGranted { request, .. }
                if invalid.iter().any(|(grant, _)| self.is_for(grant, request)))
        });
        let unknown = options.consent.unknown(metadata.manifest.as_ref(), &settings.grant);
        let mut obstacles = unconsented(options, drift.as_ref());
        obstacles.extend(faults.into_iter().chain(unknown).map(Obstacle::Invalid));
        obstacles.extend(invalid.into_iter().map(|(_, obstacle)| obstacle));
        obstacles.extend(decided.obstacles);
        notes.extend(decided.notes);
        notes.extend(options.consent.unneeded(drift.as_ref()));
        let undescribed = undescribed(&metadata.tools, settings);
        Ok(InstallPlan { document, drift, obstacles, notes, undescribed })
    }

    fn nothing_to_replace(&self) -> InstallError {
        let name = self.name.clone();
        InstallError::NothingToReplace { name, known: self.accepted.known(), same: self.twin() }
    }

    /// Returns the differences from the plugin that holds the name; `None` if there are none, or the name is free.
    fn drift(&self, settings: &Settings, policy: &Policy) -> Option<Drift> {
        let holder = self.holder.as_ref()?;
        let metadata = &self.component.metadata;
        let drift = Drift::between(holder, &self.name, metadata, &settings.grant, policy)
            .filter(Drift::is_of_component)?;
        let was = holder.pin(&self.name).and_then(|pin| pin.publisher.as_deref());
        Some(drift.with_publisher(was, self.component.origin.publisher.as_deref()))
    }

    fn draft(&self, options: &InstallOptions) -> Result<DraftConfig, DocumentError> {
        let requests = self.requests();
        let mut document = self.document.clone();
        let is_new = !document.has(&self.name);
        let entry = document.plugin(&self.name)?;
        let before = entry.get("grants").and_then(Value::as_object).cloned().unwrap_or_default();
        let removed = match (options.replace, requests, entry.get_mut("grants")) {
            (true, Some(requests), Some(Value::Object(grants))) => {
                changes::remove_stale(grants, requests)
            }
            _ => Vec::new(),
        };
        let unrequested =
            requests.map(|requests| GrantOption::unrequested(&options.grants, requests));
        let mut faults = unrequested.unwrap_or_default();
        faults.extend(options.faults.iter().cloned());
        let component = format!("plugins/{}.wasm", self.name);
        let written = options.write(entry, &component, requests);
        let mut notes = Vec::new();
        if !removed.is_empty() {
            let keys = visible_line(&removed.join(", "));
            notes.push(format!(
                "removed from the grants, because this build does not request it: {keys}"
            ));
        }
        let after = entry.get("grants").and_then(Value::as_object).filter(|_| !is_new);
        notes.extend(after.iter().flat_map(|after| changes::notes(&before, after)));
        Ok(DraftConfig { document, written, faults, notes })
    }

    /// Returns the grants for which the configuration is invalid, each with its problem. Fails with all
    /// problems if another option has one.
    fn invalid_grants<'o>(
        &self,
        draft: &DraftConfig,
        options: &'o InstallOptions,
        problems: Vec<Problem>,
    ) -> Result<Vec<(&'o GrantOption, Obstacle)>, InstallError> {
        let entry = draft.document.key(&self.name);
        let written = &draft.written;
        let mut invalid = Vec::new();
        let mut others = Vec::new();
        for problem in problems {
            let key = problem.key.below(&entry);
            let option = key.as_ref().and_then(|key| written.option(key));
            let grant = options.grants.iter().find(|grant| Some(grant.option().as_str()) == option);
            match (grant, key) {
                (Some(grant), Some(key)) => {
                    let problem = Problem { key, ..problem };
                    invalid.push((grant, Obstacle::invalid(&problem, &options.grants, written)));
                }
                _ => others.push(problem),
            }
        }
        if others.is_empty() {
            return Ok(invalid);
        }
        let error = ConfigError::Invalid { file: draft.document.file(), problems: others };
        let mut reasons = draft.faults.clone();
        reasons.extend(invalid.iter().map(|(_, obstacle)| obstacle.to_string()));
        reasons.extend(written.invalid(&entry, &error));
        Err(InstallError::Refused { name: self.name.clone(), reasons })
    }
}

/// Returns the differences from the holder of the name that the operator has not consented to. A
/// component chooses its own name and requests, and would receive the grants of the other one.
fn unconsented(options: &InstallOptions, drift: Option<&Drift>) -> Vec<Obstacle> {
    let Some(drift) = drift else { return Vec::new() };
    let mut consent = options.consent.clone();
    consent.regrant.extend(options.grants.iter().filter_map(GrantOption::request));
    // `grant_all` names no request, so it is consent to new ones and not to wider ones.
    let lacking = drift.changes.iter().filter(|change| {
        let is_new = matches!(change, Change::Widened(widening) if widening.is_new);
        consent.lacks(change) && !(options.grant_all && is_new)
    });
    let taken = (!options.replace).then_some(Obstacle::Taken);
    taken.into_iter().chain(lacking.cloned().map(Obstacle::Change)).collect()
}

/// Returns the names of the tools without a description.
fn undescribed(tools: &[ToolDefinition], settings: &Settings) -> Vec<String> {
    let undescribed = tools.iter().filter(|tool| {
        let text = settings.grant.descriptions.get(&tool.name).unwrap_or(&tool.description);
        text.trim().is_empty()
    });
    undescribed.map(|tool| visible_line(&tool.name)).collect()
}

impl InstallOptions {
    /// Writes the options into the `wasm_config` of a plugin. Returns their keys.
    fn write(
        &self,
        entry: &mut Map<String, Value>,
        component: &str,
        requests: Option<&Requests>,
    ) -> WrittenKeys {
        let mut written = WrittenKeys::default();
        entry.insert("component".to_owned(), json!(component));
        if let Some(profile) = &self.profile {
            entry.insert("profile".to_owned(), json!(profile));
        }
        if !self.settings.is_empty() {
            object(entry, "config").extend(self.settings.clone());
            // The schema is about all settings together.
            written.add(KeyPath::default().member("config"), "--set".to_owned());
        }
        for (tool, text) in &self.descriptions {
            object(entry, "descriptions").insert(tool.clone(), json!(text));
            let key = KeyPath::default().member("descriptions").member(tool);
            written.add(key, format!("--describe {tool}"));
        }
        let all = requests.filter(|_| self.grant_all).map(GrantOption::all).unwrap_or_default();
        let named = self
            .grants
            .iter()
            .filter(|grant| requests.is_none_or(|requests| grant.is_requested(requests)));
        for grant in all.iter().chain(named) {
            let key = grant.apply(object(entry, "grants"), requests);
            written.add(key, grant.option());
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use airlock_plugin::{ComponentSource, Grant};

    #[test]
    fn a_tool_is_described_by_its_author_or_by_the_operator() {
        let hidden = "⟨U+202E⟩x";
        assert_eq!(undescribed_with(&[]), ["blank", "empty", hidden]);
        assert_eq!(undescribed_with(&[("blank", "Waits."), ("other", "?")]), ["empty", hidden]);
        assert_eq!(
            undescribed_with(&[("described", ""), ("\u{202e}x", "X.")]),
            ["blank", "described", "empty"]
        );
    }

    fn undescribed_with(descriptions: &[(&str, &str)]) -> Vec<String> {
        let tools = json!([
            {"name": "blank", "description": " \n", "inputSchema": {}},
            {"name": "described", "description": "Counts.", "inputSchema": {}},
            {"name": "empty", "description": "", "inputSchema": {}},
            {"name": "\u{202e}x", "description": "", "inputSchema": {}},
        ]);
        let tools: Vec<ToolDefinition> = serde_json::from_value(tools).expect("definitions");
        let descriptions = descriptions.iter().map(|(tool, text)| ((*tool).into(), (*text).into()));
        let grant = Grant { descriptions: descriptions.collect(), ..Grant::default() };
        undescribed(&tools, &Settings { component: ComponentSource::File(PathBuf::new()), grant })
    }
}
