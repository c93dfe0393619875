//! `plugin.toml`: the author's description of a plugin, and the rights that it requests. Embedded
//! in the component as JSON; as untrusted as the code.

mod check;
mod request;
mod requests;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use semver::Version;
use serde::Deserialize;
use serde_json::Value;

pub(super) use self::requests::ANY;
pub use self::{
    request::Request,
    requests::{
        FilesAccess, FilesRequest, HttpRequest, InjectRequest, Requests, ScratchRequest,
        SecretRequest, SlotRequest, StoreRequest, SwitchRequest, ToolsRequest,
    },
};
use crate::sandbox::{Effect, Effects};

/// Custom section of the component that contains the manifest.
pub const SECTION: &str = "airlock:manifest";
/// Required value of `schema`.
pub const SCHEMA: &str = "airlock.plugin/1";
/// Maximum size of a manifest, in bytes.
const MAX_BYTES: usize = 256 << 10;

/// Description of a plugin and the rights that it requests.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    schema: String,
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
    /// Declared effects of its tools. A tool that is not listed has none.
    #[serde(default, rename = "tool")]
    pub tools: Vec<ToolEffects>,
    /// Requested rights.
    #[serde(default)]
    pub request: Requests,
    /// JSON Schema 2020-12 of the plugin's configuration.
    #[serde(default)]
    config: Option<ConfigRequest>,
}

/// Declared effects of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolEffects {
    /// The tool.
    pub name: String,
    /// Effects; each needs a request that makes it possible.
    #[serde(default)]
    pub effects: BTreeSet<Effect>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigRequest {
    schema: Value,
}

/// Reason that a manifest is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{key}{problem}", key = KeyPrefix(.key))]
pub struct BadManifest {
    /// Position: `request.http.api.url`. Empty for the whole manifest.
    pub key: String,
    /// The found value and the valid ones.
    pub problem: String,
}

struct KeyPrefix<'a>(&'a str);

impl fmt::Display for KeyPrefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "{}: ", self.0) }
    }
}

fn bad(key: impl Into<String>, problem: impl Into<String>) -> BadManifest {
    BadManifest { key: key.into(), problem: problem.into() }
}

impl Manifest {
    /// Parses the embedded form: `plugin.toml` as JSON, with `config.schema_file` replaced by the
    /// schema itself.
    pub fn parse(json: &[u8]) -> Result<Self, BadManifest> {
        if json.len() > MAX_BYTES {
            return Err(bad("", format!("{} bytes; the limit is {MAX_BYTES}", json.len())));
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let manifest: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let key = error.path().to_string();
            bad(if key == "." { String::new() } else { key }, error.into_inner().to_string())
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Returns the declared effects of each listed tool.
    pub fn effects(&self) -> BTreeMap<String, Effects> {
        let effects = |tool: &ToolEffects| tool.effects.iter().copied().collect();
        self.tools.iter().map(|tool| (tool.name.clone(), effects(tool))).collect()
    }

    /// Returns the requests that no tool can use, each with the effect that a tool would have to
    /// declare for it.
    pub fn unused(&self) -> Vec<(Request<'_>, Effect)> {
        let declared: Effects = self.tools.iter().flat_map(|tool| &tool.effects).copied().collect();
        let mut unused = Vec::new();
        for request in self.request.all() {
            let effect = request.effect();
            unused.extend(effect.filter(|it| !declared.contains(*it)).map(|it| (request, it)));
        }
        unused
    }

    /// Returns the JSON Schema of the configuration; `None` if the plugin takes none.
    pub fn config_schema(&self) -> Option<&Value> {
        self.config.as_ref().map(|config| &config.schema)
    }
}
