//! The operator's answer: `wasm_config`, as the configuration hands it on.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value};

use super::Profile;
use crate::{
    egress::{Injection, Rule},
    sandbox::Access,
    secret::Source,
};

/// What an operator lets one plugin have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    /// The ceiling.
    pub profile: Profile,
    /// The plugin's configuration.
    pub config: Arc<Map<String, Value>>,
    /// Descriptions of tools that have none, or that the operator words better. By the tool's own
    /// name.
    pub descriptions: BTreeMap<String, String>,
    /// Places on the network.
    pub http: Vec<HttpAnswer>,
    /// Secrets, by the plugin's name for them.
    pub secrets: BTreeMap<String, SecretAnswer>,
    /// Stores of keys and values.
    pub stores: Vec<StoreAnswer>,
    /// Directories.
    pub directories: Vec<DirectoryAnswer>,
    /// A directory of its own for each call.
    pub scratch: Option<QuotaAnswer>,
    /// Tools, by full name.
    pub tools: Vec<String>,
    /// The real time.
    pub clocks: bool,
    /// Real randomness.
    pub random: bool,
    /// What a call may spend.
    pub limits: LimitsAnswer,
}

/// A granted place on the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAnswer {
    /// What the plugin asks for under this name, as it asks for it.
    Requested(String),
    /// What the operator says, as far as the plugin asks for it.
    Rule(Rule),
}

/// A granted secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretAnswer {
    /// Where its value is.
    pub source: Source,
    /// Where it may go, where the operator says less than the plugin asks for; it goes only where
    /// both say so.
    pub audience: Option<Vec<HttpAnswer>>,
    /// How it is attached, for a plugin that embeds no manifest.
    pub inject: Option<Injection>,
    /// Whether the plugin may see the value.
    pub reveal: bool,
}

/// A granted store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreAnswer {
    /// Its name.
    pub name: String,
    /// What it may hold. Where absent, what is asked for, and at most the usual 4 MiB.
    pub max_bytes: Option<u64>,
}

/// A granted directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryAnswer {
    /// Its name in the guest.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    /// Whether the guest may change what is in it.
    pub access: Access,
    /// What may be in it.
    pub quota: QuotaAnswer,
}

/// A granted amount of files. Where absent, what is asked for, and at most what is usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuotaAnswer {
    /// Bytes of all files together.
    pub bytes: Option<u64>,
    /// Files and directories.
    pub files: Option<u64>,
}

/// What one call may spend, where the operator says so.
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
