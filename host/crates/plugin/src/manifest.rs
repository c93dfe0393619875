//! `plugin.toml`: the author's description of a plugin, and the rights that it requests. Embedded
//! in the component as JSON; as untrusted as the code.

mod request;
mod requests;
#[cfg(test)]
pub(crate) mod tests;
mod values;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

pub use airlock_manifest::{BadManifest, SCHEMA, SECTION};
use airlock_manifest::{Fault, Faults, KeyPath, MAX_BYTES, ManifestSource};
use semver::Version;
use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

pub use self::{
    request::Request,
    requests::{
        FilesAccess, FilesRequest, HttpRequest, InjectRequest, KvRequest, Requests, ScratchRequest,
        SecretRequest, SlotRequest, SwitchRequest, ToolsRequest,
    },
};
pub(super) use self::{
    request::{CACHE, REVEALED},
    requests::ANY,
};
use airlock_json::check_unique_keys;
use airlock_sandbox::{DeclaredEffect, Effects};

/// Description of a plugin and the rights that it requests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    #[serde(rename = "schema")]
    _schema: String,
    /// Name of the plugin: `[a-z0-9-]{1,32}`.
    pub id: String,
    /// Version of the plugin.
    pub version: Version,
    /// Version of the contract that the plugin was written for: `0.1`.
    pub contract: String,
    /// Purpose of the plugin.
    #[serde(default)]
    pub description: String,
    /// SPDX expression.
    #[serde(default)]
    pub license: Option<String>,
    /// Facts for people, such as the author and the homepage, under keys of the author's choice.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Declared effects of its tools. A tool that is not listed has none.
    #[serde(default, rename = "tool")]
    pub tools: Vec<ToolEffects>,
    /// Requested rights.
    #[serde(default)]
    pub request: Requests,
    /// JSON Schema 2020-12 of the plugin's configuration.
    #[serde(default)]
    config: Option<ConfigRequest>,
    /// Options of the builder, which plugin.toml has and a component does not.
    #[serde(default, rename = "build")]
    _build: IgnoredAny,
}

/// Declared effects of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEffects {
    /// The tool.
    pub name: String,
    /// Effects; each needs a request that makes it possible.
    #[serde(default)]
    pub effects: BTreeSet<DeclaredEffect>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigRequest {
    schema: Value,
}

impl Manifest {
    /// Parses the embedded form: `plugin.toml` as JSON, with `config.schema_file` replaced by the
    /// schema itself. Fails with all faults.
    pub fn parse(json: &[u8]) -> Result<Self, BadManifest> {
        if json.len() > MAX_BYTES {
            let problem = format!("has {} bytes; the limit is {MAX_BYTES}", json.len());
            return Err(BadManifest::whole(problem));
        }
        let text = std::str::from_utf8(json).map_err(|error| not_json(&error))?;
        let document: Value = serde_json::from_str(text).map_err(|error| not_json(&error))?;
        // Another parser might keep the other one of two values.
        check_unique_keys(text).map_err(|error| not_json(&error))?;
        Self::read(&document).map_err(Faults::of_embedded)
    }

    /// Reads `plugin.toml` in a directory; `None` if there is no such file. Fails with all faults
    /// and their lines.
    pub fn of_directory(directory: &Path) -> Result<Option<(ManifestSource, Self)>, BadManifest> {
        let Some(source) = airlock_manifest::read(directory)? else { return Ok(None) };
        let manifest = Self::of_source(&source)?;
        Ok(Some((source, manifest)))
    }

    /// Reads a `plugin.toml` whose schema of the configuration may have been set since it was read.
    /// Fails with all faults and their lines.
    pub fn of_source(source: &ManifestSource) -> Result<Self, BadManifest> {
        source.locate(Self::read(&source.document))
    }

    fn read(document: &Value) -> Result<Self, Faults> {
        let mut faults = airlock_manifest::check(document, &values::read);
        values::check(document, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        // The table of keys describes these types, so this does not fail.
        serde_path_to_error::deserialize(document).map_err(|error| {
            let key = error.path().to_string();
            faults.push(Fault::new(KeyPath::default(), format!("{key}: {}", error.into_inner())));
            faults
        })
    }

    /// Returns the declared effects of each listed tool.
    pub fn effects(&self) -> BTreeMap<String, Effects> {
        let tools = self.tools.iter();
        tools.map(|tool| (tool.name.clone(), tool.effects.iter().cloned().collect())).collect()
    }

    /// Returns the requests that no tool can use, each with the effect that a tool would have to
    /// declare for it.
    pub fn unused(&self) -> Vec<(Request<'_>, DeclaredEffect)> {
        let declared: BTreeSet<_> = self.tools.iter().flat_map(|tool| &tool.effects).collect();
        let mut unused = Vec::new();
        for request in self.request.all() {
            let is_used = declared.iter().any(|effect| request.allows(effect));
            unused.extend(request.effect().filter(|_| !is_used).map(|effect| (request, effect)));
        }
        unused
    }

    /// Returns the JSON Schema of the configuration; `None` if the plugin takes none.
    pub fn config_schema(&self) -> Option<&Value> {
        self.config.as_ref().map(|config| &config.schema)
    }
}

fn not_json(error: &dyn std::error::Error) -> BadManifest {
    BadManifest::whole(format!("is not the JSON of a manifest: {error}"))
}
