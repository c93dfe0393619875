//! The operator's grant for a plugin: what `wasm_config` permits, as parsed from the configuration.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use serde_json::{Map, Value};

use airlock_core::{limit::GuestLimitSet, profile::Profile, secret::SecretSource};
use airlock_egress::{Injection, Rule};
use airlock_sandbox::Access;

/// Grant of an operator for one plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Grant {
    /// The ceiling.
    pub profile: Profile,
    /// The plugin's configuration.
    pub config: Arc<Map<String, Value>>,
    /// Descriptions of tools that have none, or that the operator rewrites. By the plugin's own
    /// name of the tool.
    pub descriptions: BTreeMap<String, String>,
    /// Network rules.
    pub http: Vec<HttpGrant>,
    /// Secrets, by the plugin's names.
    pub secret: BTreeMap<String, SecretGrant>,
    /// Key-value stores, by name.
    pub kv: BTreeMap<String, KvGrant>,
    /// Directories, by their names in the guest.
    pub files: BTreeMap<String, FilesGrant>,
    /// Private directory of each call.
    pub scratch: Option<PartialQuota>,
    /// Tools by full name, by the plugin's slots.
    pub slots: BTreeMap<String, String>,
    /// Tools, by full name.
    pub tools: Vec<String>,
    /// True if the real time is granted.
    pub clocks: bool,
    /// Limits of a call that the operator sets.
    pub limits: GuestLimitSet,
}

impl Grant {
    /// Returns the full names of the tools that the plugin may call.
    pub fn callable(&self) -> impl Iterator<Item = &str> {
        self.slots.values().chain(&self.tools).map(String::as_str)
    }
}

/// One grant of network access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpGrant {
    /// The request of this name, exactly as the plugin requests it.
    Requested(String),
    /// A rule of the operator's, as far as the plugin requests it.
    Rule(Rule),
}

/// A granted secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretGrant {
    /// Source of its value.
    pub source: SecretSource,
    /// Narrower audience, if the operator sets one. The secret is sent only to places that both the
    /// operator and the plugin name.
    pub audience: Option<Vec<HttpGrant>>,
    /// Injection into requests, for a plugin that embeds no manifest.
    pub inject: Option<Injection>,
    /// True if the plugin may read the value.
    pub reveal: bool,
}

/// A granted store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KvGrant {
    /// Maximum size in bytes for each tenant, or for all of them if it is shared. If absent, the
    /// requested size, and at most the default of 4 MiB.
    pub max_bytes: Option<u64>,
    /// True if all tenants read and write the same entries.
    pub shared: bool,
}

/// A granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilesGrant {
    /// Path on the host.
    pub path: PathBuf,
    /// Read-only or read-write access.
    pub access: Access,
    /// Quota of the directory.
    pub quota: PartialQuota,
}

/// One side's quota of a directory or of scratch space. If the operator's side has no amount, the
/// requested one applies, and at most the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PartialQuota {
    /// Total bytes of all files.
    pub bytes: Option<u64>,
    /// Number of files and directories.
    pub files: Option<u64>,
}
