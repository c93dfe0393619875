//! The operator's grant for a plugin: `wasm_config`, as parsed from the configuration.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::Profile;
use crate::{
    egress::{Injection, Rule},
    sandbox::Access,
    secret::Source,
};

/// Grant of an operator for one plugin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The ceiling.
    pub profile: Profile,
    /// The plugin's configuration.
    pub config: Arc<Map<String, Value>>,
    /// Descriptions of tools that have none, or that the operator rewrites. By the plugin's own
    /// name of the tool.
    pub descriptions: BTreeMap<String, String>,
    /// Network rules.
    pub http: Vec<HttpAnswer>,
    /// Secrets, by the plugin's names.
    pub secrets: BTreeMap<String, SecretAnswer>,
    /// Key-value stores.
    pub stores: Vec<StoreAnswer>,
    /// Directories.
    pub directories: Vec<DirectoryAnswer>,
    /// Private directory of each call.
    pub scratch: Option<QuotaAnswer>,
    /// Tools, by full name.
    pub tools: Vec<String>,
    /// True if the real time is granted.
    pub clocks: bool,
    /// True if real randomness is granted.
    pub random: bool,
    /// Limits of a call.
    pub limits: LimitsAnswer,
}

/// One grant of network access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAnswer {
    /// The request of this name, exactly as the plugin requests it.
    Requested(String),
    /// A rule of the operator's, as far as the plugin requests it.
    Rule(Rule),
}

/// A granted secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretAnswer {
    /// Source of its value.
    pub source: Source,
    /// Narrower audience, if the operator sets one. The secret is sent only to places that both the
    /// operator and the plugin name.
    pub audience: Option<Vec<HttpAnswer>>,
    /// Injection into requests, for a plugin that embeds no manifest.
    pub inject: Option<Injection>,
    /// True if the plugin may read the value.
    pub reveal: bool,
}

/// A granted store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAnswer {
    /// Its name.
    pub name: String,
    /// Maximum size in bytes. If absent, the requested size, and at most the default of 4 MiB.
    pub max_bytes: Option<u64>,
}

/// A granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryAnswer {
    /// Its name in the guest.
    pub name: String,
    /// Path on the host.
    pub path: PathBuf,
    /// Read-only or read-write access.
    pub access: Access,
    /// Maximum content.
    pub quota: QuotaAnswer,
}

/// Quota of a granted directory or of scratch space. If a member is absent, the requested amount
/// applies, and at most the default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaAnswer {
    /// Total bytes of all files.
    pub bytes: Option<u64>,
    /// Number of files and directories.
    pub files: Option<u64>,
}

/// Limits of one call that the operator sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is described at `sandbox::Limits` or `egress::Bounds`")]
pub struct LimitsAnswer {
    pub fuel: Option<u64>,
    pub cpu: Option<Duration>,
    pub deadline: Option<Duration>,
    pub memory_bytes: Option<usize>,
    pub table_elements: Option<usize>,
    pub handles: Option<usize>,
    pub copied_bytes: Option<usize>,
    pub host_calls: Option<u32>,
    pub result_bytes: Option<usize>,
    pub log_lines: Option<u32>,
    pub log_line_bytes: Option<usize>,
    pub http_requests: Option<u32>,
    pub http_response_bytes: Option<usize>,
    pub http_request_bytes: Option<usize>,
    pub http_timeout: Option<Duration>,
    pub http_redirects: Option<u32>,
}
