//! The rights of a plugin: request ∩ grant ∩ ceiling. Pure, except that secrets are read through a
//! function that the caller passes.

mod http;
mod limits;
mod secrets;
mod storage;
#[cfg(test)]
mod tests;
mod tools;

use std::{fmt, sync::Arc};

pub(super) use self::http::of_any_host;
use self::secrets::SecretRights;
use super::{Grant, Manifest, Request, Requests};
use airlock_core::{
    profile::Profile,
    secret::{Secret, SecretSource, SourceError},
};
use airlock_json::schema::CompiledSchema;
use airlock_sandbox::{Denied, Grants, Limits, ToolNames};

/// Rights of a plugin.
#[derive(Debug)]
pub struct Rights {
    /// Everything that the plugin may use.
    pub grants: Grants,
    /// Limits of one call.
    pub limits: Limits,
    /// Notes for the operator: grants without effect, and optional requests that are not granted.
    pub notes: Vec<String>,
}

/// Reasons that a plugin is not loaded, as messages for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct LoadRefusal {
    /// All reasons.
    pub reasons: Vec<Reason>,
}

/// Reason that a plugin is not loaded. As text, it names keys in `wasm_config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// A required request is not granted.
    NotGranted {
        /// The request, such as `http.api`.
        request: String,
        /// The request and its rights.
        right: String,
        /// The author's reason.
        reason: String,
        /// The grant to write into the configuration.
        remedy: String,
    },
    /// The profile does not permit what is granted.
    Profile {
        /// Key of the grant.
        key: String,
        /// The request that is granted; `None` if the grant names none.
        request: Option<String>,
        /// The limit of the profile: `does not open private networks`.
        limit: &'static str,
        /// The profile.
        profile: Profile,
    },
    /// A secret has no value.
    NoValue {
        /// Name of the secret.
        secret: String,
        /// The defect of its source.
        error: String,
    },
    /// The grant has another defect.
    Invalid {
        /// Key of the defect.
        key: String,
        /// The found value and the valid ones.
        problem: String,
    },
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<_> = self.reasons.iter().map(Reason::to_string).collect();
        f.write_str(&reasons.join("; "))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotGranted { right, reason, remedy, .. } => {
                write!(
                    f,
                    "the plugin needs {right}, which is not granted; its reason: {reason}; {remedy}"
                )
            }
            Self::Profile { key, limit, profile, .. } => write!(
                f,
                "{key}: the profile {:?} {limit}; \"profile\": \"trusted\" does",
                profile.name()
            ),
            Self::NoValue { secret, error } => write!(f, "grants.secret.{secret}.from: {error}"),
            Self::Invalid { key, problem } => write!(f, "{key}: {problem}"),
        }
    }
}

/// Reads the value of a secret.
pub type ReadSecret<'a> = &'a dyn Fn(&SecretSource) -> Result<Secret, SourceError>;

impl Rights {
    /// Computes the rights of a plugin. A plugin without a manifest requests every right that its
    /// operator grants. Fails with all reasons if the plugin cannot be loaded.
    pub fn intersect(
        manifest: Option<&Manifest>,
        grant: &Grant,
        read: ReadSecret<'_>,
    ) -> Result<Self, LoadRefusal> {
        let requests = manifest.map(|manifest| &manifest.request);
        let mut sides = Intersection { requests, grant, refusals: Vec::new(), notes: Vec::new() };
        sides.check_config(manifest);
        let limits = sides.limits();
        let http = sides.http();
        let SecretRights { credentials, names, revealed, scrubber } = sides.secret(read);
        let grants = Grants {
            config: grant.config.clone(),
            directories: sides.files(),
            scratch: sides.scratch(),
            stores: sides.kv(),
            tools: ToolNames { slots: sides.slots(), full: sides.tools() },
            clocks: sides.switch("clocks", grant.clocks, |requests| {
                requests.clocks.as_ref().map(Request::Clocks)
            }),
            http: http.map(Arc::new),
            destinations: Arc::new(sides.destinations()),
            denied: Arc::new(sides.denied()),
            credentials: Arc::new(credentials),
            secrets: Arc::new(names),
            revealed: Arc::new(revealed),
            scrubber: Arc::new(scrubber),
            declared: manifest.map(|manifest| Arc::new(manifest.effects())),
            narrowing: None,
            recorder: None,
        };
        if sides.refusals.is_empty() {
            Ok(Self { grants, limits, notes: sides.notes })
        } else {
            Err(LoadRefusal { reasons: sides.refusals })
        }
    }
}

/// Both sides of the intersection, and the messages about their differences.
struct Intersection<'a> {
    /// `None` if the plugin embeds no manifest.
    requests: Option<&'a Requests>,
    grant: &'a Grant,
    refusals: Vec<Reason>,
    notes: Vec<String>,
}

impl<'a> Intersection<'a> {
    fn profile(&self) -> Profile {
        self.grant.profile
    }

    /// Records that a requested right is not granted: as a note if the request is optional,
    /// otherwise as a refusal.
    fn missing(&mut self, right: &dyn fmt::Display, request: Request<'_>, remedy: &str) {
        if request.is_optional() {
            self.notes.push(format!("{right} is not granted, and the plugin can do without"));
        } else {
            self.refusals.push(Reason::NotGranted {
                request: request.to_string(),
                right: right.to_string(),
                reason: request.reason().to_owned(),
                remedy: remedy.to_owned(),
            });
        }
    }

    /// Records a defect of the grant.
    fn refuse(&mut self, key: impl Into<String>, problem: impl Into<String>) {
        self.refusals.push(Reason::Invalid { key: key.into(), problem: problem.into() });
    }

    /// Notes a grant without effect, because the plugin does not request it.
    fn unrequested(&mut self, key: &str) {
        self.notes.push(format!("{key} opens nothing: the plugin does not ask for it"));
    }

    /// Returns the stores and secrets that are requested but not granted, for error messages to the
    /// guest.
    fn denied(&self) -> Denied {
        let Some(requests) = self.requests else { return Denied::default() };
        let Grant { kv, secret, .. } = self.grant;
        Denied {
            stores: requests.kv.keys().filter(|name| !kv.contains_key(*name)).cloned().collect(),
            secrets: requests
                .secret
                .keys()
                .filter(|name| !secret.contains_key(*name))
                .cloned()
                .collect(),
        }
    }

    fn check_config(&mut self, manifest: Option<&Manifest>) {
        let config = &self.grant.config;
        match manifest.map(Manifest::config_schema) {
            // Without a manifest the schema of the configuration is unknown.
            None => {}
            Some(None) if config.is_empty() => {}
            Some(None) => {
                self.refuse("config", "the plugin takes no configuration");
            }
            Some(Some(schema)) => {
                let value = serde_json::Value::Object((**config).clone());
                // An unbounded schema is refused too: the plugin relies on a configuration that
                // fits.
                let compiled = CompiledSchema::compile("config.schema", schema);
                match compiled.map(|schema| schema.check(&value)) {
                    Ok(Ok(())) => {}
                    Ok(Err(wrong)) => self.refuse("config", wrong.to_string()),
                    Err(bad) => self.refuse("the plugin's manifest", bad.to_string()),
                }
            }
        }
    }

    /// Returns whether a right without details is granted.
    fn switch(
        &mut self,
        key: &'static str,
        granted: bool,
        request: impl Fn(&'a Requests) -> Option<Request<'a>>,
    ) -> bool {
        match (self.requests.map(request), granted) {
            (Some(None), true) => {
                self.unrequested(&format!("grants.{key}"));
                false
            }
            (Some(Some(request)), false) => {
                self.missing(&request, request, &format!("grant it with \"{key}\": true"));
                false
            }
            (_, granted) => granted,
        }
    }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { "none by name".to_owned() } else { names.join(", ") }
}
