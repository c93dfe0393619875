//! Request ∩ grant ∩ ceiling. Pure, except that it calls `read` for the values of secrets.

mod limits;
mod rules;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use self::rules::{meet, overlap};
use super::{
    Answer, HttpAnswer, Manifest, Profile, QuotaAnswer, Request, SecretAnswer,
    manifest::{ANY, FilesAccess, SecretRequest},
};
use crate::{
    egress::{Credential, Credentials, Injection, Policy, Rule},
    sandbox::{Access, Denied, Directory, Grants, KvStore, Limits, Quota},
    secret::{Scrubber, Secret, Source, SourceError},
    units::Size,
};

/// Quotas of directories and stores without a quota of the operator's, whatever the plugin
/// requests.
const DEFAULT_DIRECTORY: Quota = Quota { bytes: 1 << 30, files: 10_000 };
const DEFAULT_SCRATCH: Quota = Quota { bytes: 64 << 20, files: 1_000 };
const DEFAULT_STORE_BYTES: u64 = 4 << 20;

/// Granted rights of a plugin.
#[derive(Debug)]
pub struct Settled {
    /// Rights.
    pub grants: Grants,
    /// Limits of one call.
    pub limits: Limits,
    /// Notes for the operator: grants without effect, and optional requests that are not granted.
    pub notes: Vec<String>,
}

/// Reasons that a plugin is not loaded, as messages for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Refusal {
    /// One sentence each. Starts with the key in `wasm_config` if there is one.
    pub reasons: Vec<String>,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reasons.join("; "))
    }
}

/// Reads the value of a secret.
pub type ReadSecret<'a> = &'a dyn Fn(&Source) -> Result<Secret, SourceError>;

/// Computes the granted rights of a plugin. A plugin without a manifest requests every right that
/// its operator grants. Fails with all reasons if the plugin cannot be loaded.
pub fn settle(
    manifest: Option<&Manifest>,
    answer: &Answer,
    read: ReadSecret<'_>,
) -> Result<Settled, Refusal> {
    let mut desk = Desk {
        request: manifest.map(|manifest| &manifest.request),
        answer,
        refusals: Vec::new(),
        notes: Vec::new(),
    };
    desk.config(manifest);
    let limits = desk.limits();
    let http = desk.http();
    let secrets = desk.secrets(read);
    let grants = Grants {
        config: answer.config.clone(),
        directories: desk.directories(),
        scratch: desk.scratch(),
        stores: desk.stores(),
        tools: desk.tools(),
        clocks: desk.switch("clocks", answer.clocks, |request| {
            request.clocks.as_ref().map(|asked| asked.optional)
        }),
        random: desk.switch("random", answer.random, |request| {
            request.random.as_ref().map(|asked| asked.optional)
        }),
        http: http.map(Arc::new),
        denied: Arc::new(desk.denied()),
        credentials: Arc::new(secrets.credentials),
        secrets: Arc::new(secrets.names),
        revealed: Arc::new(secrets.revealed),
        scrubber: Arc::new(secrets.scrubber),
    };
    if desk.refusals.is_empty() {
        Ok(Settled { grants, limits, notes: desk.notes })
    } else {
        Err(Refusal { reasons: desk.refusals })
    }
}

/// Manifest and answer, and the results of their comparison.
struct Desk<'a> {
    /// `None` if the plugin embeds no manifest.
    request: Option<&'a Request>,
    answer: &'a Answer,
    refusals: Vec<String>,
    notes: Vec<String>,
}

#[derive(Default)]
struct Secrets {
    credentials: Credentials,
    names: BTreeSet<String>,
    revealed: BTreeMap<String, Secret>,
    scrubber: Scrubber,
}

impl Desk<'_> {
    fn profile(&self) -> Profile {
        self.answer.profile
    }

    /// Records that a requested right is not granted: as a note if the request is optional,
    /// otherwise as a refusal.
    fn missing(&mut self, place: &str, reason: &str, optional: bool, how: &str) {
        if optional {
            self.notes
                .push(format!("{place} is not granted, and the plugin can do without: {reason}"));
        } else {
            self.refusals
                .push(format!("the plugin needs {place} ({reason}), which is not granted; {how}"));
        }
    }

    /// Notes a grant without effect, because the plugin does not request it.
    fn unasked(&mut self, key: &str) {
        self.notes.push(format!("{key} opens nothing: the plugin does not ask for it"));
    }

    /// Returns the stores and secrets that are requested but not granted, for error messages to the
    /// guest.
    fn denied(&self) -> Denied {
        let Some(request) = self.request else { return Denied::default() };
        let granted = |name: &String| self.answer.stores.iter().any(|store| store.name == *name);
        Denied {
            stores: request.kv.keys().filter(|name| !granted(name)).cloned().collect(),
            secrets: request
                .secret
                .keys()
                .filter(|name| !self.answer.secrets.contains_key(*name))
                .cloned()
                .collect(),
        }
    }

    fn config(&mut self, manifest: Option<&Manifest>) {
        let given = &self.answer.config;
        match manifest.map(Manifest::config_schema) {
            // Without a manifest the schema of the configuration is unknown.
            None => {}
            Some(None) if given.is_empty() => {}
            Some(None) => {
                self.refusals.push("config: the plugin takes no configuration".to_owned());
            }
            Some(Some(schema)) => {
                // An unbounded schema is refused too: the plugin relies on a configuration that
                // fits.
                let value = serde_json::Value::Object((**given).clone());
                let checked = crate::schema::CompiledSchema::compile("config.schema", schema);
                match checked.map(|schema| schema.check(&value)) {
                    Ok(Ok(())) => {}
                    Ok(Err(wrong)) => self.refusals.push(format!("config: {wrong}")),
                    Err(bad) => self.refusals.push(format!("the plugin's manifest: {bad}")),
                }
            }
        }
    }

    fn http(&mut self) -> Option<Policy> {
        let mut granted = Vec::new();
        for (index, grant) in self.answer.http.iter().enumerate() {
            let key = format!("grants.http[{index}]");
            granted.extend(self.granted_rule(&key, grant));
        }
        let requested = match self.request {
            None => None,
            Some(request) => {
                for (name, asked) in &request.http {
                    let (is_met, what, how) = match asked.rule() {
                        Ok(Some(rule)) => (
                            granted.iter().any(|granted| meet(granted, &rule)),
                            format!("http.{name} ({rule})"),
                            format!("grant it with \"http\": [{name:?}]"),
                        ),
                        Ok(None) => (
                            !granted.is_empty(),
                            format!("http.{name} (hosts of your choice)"),
                            "grant hosts with \"http\": [{\"url\": \"https://…\"}]".to_owned(),
                        ),
                        Err(_) => continue,
                    };
                    if !is_met {
                        self.missing(&what, &asked.reason, asked.optional, &how);
                    }
                }
                // A request that leaves the choice to the operator covers everything that is
                // granted, private networks included.
                let rules = request.http.values().map(|asked| asked.rule().ok().flatten());
                rules.collect::<Option<Vec<_>>>()
            }
        };
        if granted.is_empty() {
            return None;
        }
        let bounds = self.bounds();
        Policy::new(requested, granted, bounds)
            .map_err(|error| self.refusals.push(format!("grants.http: {error}")))
            .ok()
    }

    fn granted_rule(&mut self, key: &str, grant: &HttpAnswer) -> Option<Rule> {
        let rule = match grant {
            HttpAnswer::Rule(rule) => rule.clone(),
            HttpAnswer::Requested(name) => {
                let asked = self
                    .request
                    .and_then(|request| request.http.get(name))
                    .and_then(|asked| asked.rule().ok().flatten());
                let Some(rule) = asked else {
                    let names: Vec<_> = self
                        .request
                        .map(|request| request.http.keys().cloned().collect())
                        .unwrap_or_default();
                    self.refusals.push(format!(
                        "{key}: found {name:?}, the plugin asks for {}",
                        list(&names)
                    ));
                    return None;
                };
                rule
            }
        };
        let is_open = rule.is_private() || !rule.is_encrypted();
        if is_open && !self.profile().opens_private_network() {
            let what = if rule.is_private() { "private networks" } else { "HTTP without TLS" };
            let profile = self.profile().name();
            self.refusals.push(format!(
                "{key}: the profile {profile:?} does not open {what}; \"profile\": \"trusted\" does"
            ));
            return None;
        }
        Some(rule)
    }

    fn secrets(&mut self, read: ReadSecret<'_>) -> Secrets {
        let mut values = BTreeMap::new();
        let mut credentials = Vec::new();
        let mut revealed = BTreeMap::new();
        for (name, grant) in &self.answer.secrets {
            let asked = self.request.and_then(|request| request.secret.get(name));
            if self.request.is_some() && asked.is_none() {
                self.unasked(&format!("grants.secrets.{name}"));
                continue;
            }
            let value = match read(&grant.source) {
                Ok(value) => value,
                Err(error) => {
                    self.refusals.push(format!("grants.secrets.{name}.from: {error}"));
                    continue;
                }
            };
            credentials.extend(self.credential(name, grant, asked, &value));
            if self.is_revealed(name, grant, asked) {
                revealed.insert(name.clone(), value.clone());
            }
            values.insert(name.clone(), value);
        }
        self.note_missing_secrets();
        let credentials = Credentials::new(credentials)
            .map_err(|error| self.refusals.push(format!("grants.secrets: {error}")));
        let scrubber = Scrubber::new(values.iter().map(|(name, value)| (name.as_str(), value)));
        let scrubber =
            scrubber.map_err(|error| self.refusals.push(format!("grants.secrets: {error}")));
        Secrets {
            credentials: credentials.unwrap_or_default(),
            names: values.into_keys().collect(),
            revealed,
            scrubber: scrubber.unwrap_or_default(),
        }
    }

    fn note_missing_secrets(&mut self) {
        let Some(request) = self.request else { return };
        for (name, asked) in
            request.secret.iter().filter(|(name, _)| !self.answer.secrets.contains_key(*name))
        {
            let how =
                format!("grant it with \"secrets\": {{{name:?}: {{\"from\": \"env:NAME\"}}}}");
            self.missing(&format!("secret.{name}"), &asked.reason, asked.optional, &how);
        }
    }

    /// Returns the injection of a secret into requests; `None` if it is not injected. The audience
    /// is the requested one. If the operator names an audience too, it is the overlap of both.
    fn credential(
        &mut self,
        name: &str,
        grant: &SecretAnswer,
        asked: Option<&SecretRequest>,
        value: &Secret,
    ) -> Option<Credential> {
        let key = format!("grants.secrets.{name}");
        let asked_injection = asked
            .and_then(|asked| asked.inject.as_ref())
            .and_then(|inject| inject.injection().ok());
        let injection: Injection =
            asked_injection.or_else(|| grant.inject.clone().filter(|_| asked.is_none()))?;
        let places = asked.map(|asked| self.requested_audience(asked)).unwrap_or_default();
        // A requested place without a fixed host leaves the audience to the operator too.
        let is_open = asked.is_none() || places.iter().any(Option::is_none);
        let requested: Vec<Rule> = places.into_iter().flatten().collect();
        let audience = match &grant.audience {
            Some(granted) => {
                self.granted_audience(&key, granted, (!is_open).then_some(requested.as_slice()))
            }
            None if asked.is_some() => requested,
            None => {
                self.refusals.push(format!(
                    "{key}.audience: is required for a plugin that embeds no manifest"
                ));
                return None;
            }
        };
        let made = Credential::new(name, value.clone(), injection, audience);
        made.map_err(|error| self.refusals.push(format!("{key}: {error}"))).ok()
    }

    /// Returns the places that a plugin requests to send a secret to; `None` for a place whose
    /// hosts are the operator's choice.
    fn requested_audience(&self, asked: &SecretRequest) -> Vec<Option<Rule>> {
        let places = asked.audience.iter().filter_map(|name| self.request?.http.get(name));
        places.map(|place| place.rule().ok().flatten()).collect()
    }

    /// Returns the overlap of the granted and the requested audience: a secret is not sent to a
    /// place that only one of them names. If `requested` is `None`, all of the granted audience is
    /// returned.
    fn granted_audience(
        &mut self,
        key: &str,
        granted: &[HttpAnswer],
        requested: Option<&[Rule]>,
    ) -> Vec<Rule> {
        let mut audience = Vec::new();
        for (index, grant) in granted.iter().enumerate() {
            let key = format!("{key}.audience[{index}]");
            let Some(rule) = self.granted_rule(&key, grant) else { continue };
            let Some(requested) = requested else {
                audience.push(rule);
                continue;
            };
            let both: Vec<_> = requested.iter().filter_map(|asked| overlap(&rule, asked)).collect();
            if both.is_empty() {
                let asked: Vec<_> = requested.iter().map(Rule::to_string).collect();
                self.refusals.push(format!(
                    "{key}: found {rule}, the plugin asks to send it to {}",
                    list(&asked)
                ));
            }
            audience.extend(both);
        }
        audience
    }

    fn is_revealed(
        &mut self,
        name: &str,
        grant: &SecretAnswer,
        asked: Option<&SecretRequest>,
    ) -> bool {
        let key = format!("grants.secrets.{name}.reveal");
        let wants = asked.is_none_or(|asked| asked.reveal);
        match (grant.reveal, wants) {
            (true, false) => self.unasked(&key),
            (true, true) if !self.profile().reveals_secrets() => {
                let profile = self.profile().name();
                self.refusals.push(format!(
                    "{key}: the profile {profile:?} shows no plugin a secret's value; \"profile\": \"trusted\" does"
                ));
            }
            (true, true) => return true,
            (false, true) if asked.is_some() => {
                self.notes.push(format!(
                    "{key} is not granted; the plugin asks for the value of the secret"
                ));
            }
            (false, _) => {}
        }
        false
    }

    fn stores(&mut self) -> Vec<KvStore> {
        let mut stores = Vec::new();
        for (index, grant) in self.answer.stores.iter().enumerate() {
            let asked = self
                .request
                .map(|request| request.kv.get(&grant.name).map(|asked| asked.max_bytes.0));
            if asked == Some(None) {
                self.unasked(&format!("grants.kv[{index}]"));
                continue;
            }
            let max_bytes = lesser(asked.flatten(), grant.max_bytes, DEFAULT_STORE_BYTES);
            self.note_less(&format!("kv.{}", grant.name), asked.flatten(), max_bytes, size);
            stores.push(KvStore { name: grant.name.clone(), max_bytes });
        }
        let wanted: Vec<_> = self.request.into_iter().flat_map(|request| &request.kv).collect();
        for (name, asked) in wanted {
            if !stores.iter().any(|store| store.name == *name) {
                self.missing(
                    &format!("kv.{name}"),
                    &asked.reason,
                    asked.optional,
                    &format!("grant it with \"kv\": [{name:?}]"),
                );
            }
        }
        stores
    }

    fn directories(&mut self) -> Vec<Directory> {
        let mut directories = Vec::new();
        for (index, grant) in self.answer.directories.iter().enumerate() {
            let asked = self
                .request
                .map(|request| request.files.get(&grant.name).or_else(|| request.files.get(ANY)));
            if asked == Some(None) {
                self.unasked(&format!("grants.directories[{index}]"));
                continue;
            }
            let asked = asked.flatten();
            let is_read_only = asked.is_some_and(|asked| asked.access == FilesAccess::ReadOnly);
            let wanted = asked.map_or(QuotaAnswer::default(), |asked| QuotaAnswer {
                bytes: asked.max_bytes.map(|size| size.0),
                files: asked.max_files,
            });
            let access = if is_read_only { Access::ReadOnly } else { grant.access };
            let quota = quota(wanted, grant.quota, DEFAULT_DIRECTORY);
            // The quota of a read-only directory limits nothing.
            if access == Access::ReadWrite {
                self.note_quota(&format!("files.{}", grant.name), wanted, quota);
            }
            directories.push(Directory {
                name: grant.name.clone(),
                path: grant.path.clone(),
                access,
                quota,
            });
        }
        let wanted: Vec<_> = self.request.into_iter().flat_map(|request| &request.files).collect();
        for (name, asked) in wanted {
            let how = "grant a directory with \"directories\"";
            match directories.iter().find(|directory| directory.name == *name || name == ANY) {
                None => self.missing(&format!("files.{name}"), &asked.reason, asked.optional, how),
                Some(given)
                    if asked.access == FilesAccess::ReadWrite
                        && given.access == Access::ReadOnly =>
                {
                    self.notes.push(format!(
                        "files.{name} is granted for reading alone; the plugin asks to write too"
                    ));
                }
                Some(_) => {}
            }
        }
        directories
    }

    fn scratch(&mut self) -> Option<Quota> {
        let asked = self.request.map(|request| request.scratch.as_ref());
        match (asked, self.answer.scratch) {
            (Some(None), Some(_)) => {
                self.unasked("grants.scratch");
                None
            }
            (Some(Some(asked)), None) => {
                self.missing(
                    "scratch",
                    &asked.reason,
                    asked.optional,
                    "grant it with \"scratch\": {}",
                );
                None
            }
            (_, None) => None,
            (asked, Some(granted)) => {
                let asked = asked.flatten().map(|asked| QuotaAnswer {
                    bytes: Some(asked.max_bytes.0),
                    files: Some(asked.max_files),
                });
                let asked = asked.unwrap_or_default();
                let quota = quota(asked, granted, DEFAULT_SCRATCH);
                self.note_quota("scratch", asked, quota);
                Some(quota)
            }
        }
    }

    fn note_quota(&mut self, place: &str, asked: QuotaAnswer, given: Quota) {
        self.note_less(place, asked.bytes, given.bytes, size);
        self.note_less(place, asked.files, given.files, |files| format!("{files} files"));
    }

    /// Notes that a quota is less than requested.
    fn note_less(&mut self, place: &str, asked: Option<u64>, given: u64, show: fn(u64) -> String) {
        if let Some(asked) = asked.filter(|asked| *asked > given) {
            self.notes.push(format!(
                "{place} holds {}, the plugin asks for {}",
                show(given),
                show(asked)
            ));
        }
    }

    fn tools(&mut self) -> Vec<String> {
        let asked = self.request.map(|request| request.tools.as_ref());
        let mut tools = Vec::new();
        for (index, tool) in self.answer.tools.iter().enumerate() {
            match asked {
                Some(asked) if !asked.is_some_and(|asked| asked.call.contains(tool)) => {
                    self.unasked(&format!("grants.tools[{index}]"));
                }
                _ => tools.push(tool.clone()),
            }
        }
        if let Some(Some(asked)) = asked {
            for tool in asked.call.iter().filter(|tool| !tools.contains(tool)) {
                self.missing(
                    &format!("the tool {tool}"),
                    &asked.reason,
                    asked.optional,
                    &format!("grant it with \"tools\": [{tool:?}]"),
                );
            }
        }
        tools
    }

    fn switch(
        &mut self,
        name: &'static str,
        granted: bool,
        optional: impl Fn(&Request) -> Option<bool>,
    ) -> bool {
        match (self.request.map(optional), granted) {
            (Some(None), true) => {
                self.unasked(&format!("grants.{name}"));
                false
            }
            (Some(Some(optional)), false) => {
                let reason = self
                    .request
                    .and_then(|request| request.asked().find(|(place, ..)| place == name));
                let reason = reason.map(|(_, reason, _)| reason.to_owned()).unwrap_or_default();
                self.missing(name, &reason, optional, &format!("grant it with \"{name}\": true"));
                false
            }
            (_, granted) => granted,
        }
    }
}

/// Combines both sides of a quota.
fn quota(asked: QuotaAnswer, granted: QuotaAnswer, default: Quota) -> Quota {
    Quota {
        bytes: lesser(asked.bytes, granted.bytes, default.bytes),
        files: lesser(asked.files, granted.files, default.files),
    }
}

/// Returns the granted amount or else the default, and never more than is requested. A requested
/// amount alone never raises the default, because it could fill a disk.
fn lesser(asked: Option<u64>, granted: Option<u64>, default: u64) -> u64 {
    let granted = granted.unwrap_or(default);
    asked.map_or(granted, |asked| asked.min(granted))
}

fn size(bytes: u64) -> String {
    Size(bytes).to_string()
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none by name".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests;
