//! Clients of type `internal`, as written: components and their grants.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::forms::NameOr;
use airlock_core::{limit::GuestLimitSet, profile::Profile, units::Size};

/// A plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Wasm {
    /// The component's file. Required, unless `stored` is there.
    pub component: Option<PathBuf>,
    /// Components in the store, for a plugin that operators have uploaded. The management API sets it; a
    /// configuration file cannot have it.
    pub stored: Option<Stored>,
    /// The ceiling of grants and limits, whatever the plugin requests and the operator grants.
    /// Default: `untrusted`.
    #[serde(default)]
    pub profile: Profile,
    /// The plugin's own configuration, checked against the schema that it embeds.
    #[serde(default)]
    pub config: Map<String, Value>,
    /// Descriptions of tools, by the plugin's own names. They replace the plugin's descriptions. A
    /// component that was not written for Airlock and has no documentation needs them.
    #[serde(default)]
    pub descriptions: BTreeMap<String, String>,
    /// Rights that the operator grants, of those that it requests. All others are denied.
    #[serde(default)]
    pub grants: PluginGrants,
    /// Limits of one call.
    #[serde(default)]
    pub limits: GuestLimitSet,
}

/// Components in the store: SHA-256, as `sha256:` and 64 hexadecimal digits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The component that was accepted, which is the one that runs. Without it, the plugin has no tools.
    pub accepted: Option<String>,
    /// The component that was uploaded last and is not accepted yet.
    pub offered: Option<String>,
}

/// Rights that the operator grants to a plugin.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginGrants {
    /// Hosts on the network: the name of the plugin's request, or a rule.
    #[serde(default)]
    pub http: Vec<NameOr<HttpRule>>,
    /// Secrets, by the plugin's name for each.
    #[serde(default)]
    pub secret: BTreeMap<String, SecretGrant>,
    /// Stores of keys and values that survive a call, by name; `{}` grants one with the default
    /// size.
    #[serde(default)]
    pub kv: BTreeMap<String, KvGrant>,
    /// Directories, by name: 1 to 64 letters, digits, `_` or `-`. The plugin sees each as `/NAME`.
    #[serde(default)]
    pub files: BTreeMap<String, FilesGrant>,
    /// An empty directory for each call, seen as `/tmp` and removed afterwards.
    pub scratch: Option<Scratch>,
    /// Tools that it may call by its own slots: the full name `CLIENT-TOOL` for each slot of its
    /// manifest.
    #[serde(default)]
    pub slot: BTreeMap<String, String>,
    /// Tools that it may call by full name, `CLIENT-TOOL`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// True to grant the real time. Default: false; clocks start at the same moment in every call.
    #[serde(default)]
    pub clocks: bool,
}

/// Hosts and paths that a plugin may send requests to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpRule {
    /// Scheme, host and port: `https://api.example.com`, or `https://*.example.com` for all names
    /// below it. May end in a path.
    pub url: String,
    /// Methods. Default: GET and HEAD.
    #[serde(default)]
    pub methods: Vec<String>,
    /// Patterns of paths; `*` is any text within a segment, `**` any number of segments. Default:
    /// all paths below `url`.
    #[serde(default)]
    pub paths: Vec<String>,
    /// True if the host may be in a private network. Needs the profile `trusted`.
    #[serde(default)]
    pub private: bool,
}

/// A secret that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SecretGrant {
    /// Source of its value: `env:NAME` or `file:PATH`.
    pub from: String,
    /// Hosts and paths that it may be sent to, of those that the plugin requests. Default: all that
    /// the plugin requests; where it leaves the hosts to the operator, those of `http`.
    pub audience: Option<Vec<NameOr<HttpRule>>>,
    /// Place of the secret in requests, for a plugin that embeds no manifest.
    pub inject: Option<Inject>,
    /// True if the plugin may read the value itself. Needs the profile `trusted`.
    #[serde(default)]
    pub reveal: bool,
}

/// Place of a secret in requests: a header, Basic authentication, or a parameter of the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Inject {
    /// The header.
    pub header: Option<String>,
    /// Text before the value in the header, such as `Bearer `.
    #[serde(default)]
    pub prefix: String,
    /// User of Basic authentication, whose password is the secret. If it is empty, the secret is
    /// `user:password`.
    pub basic: Option<String>,
    /// The parameter of the query.
    pub query: Option<String>,
}

/// A store of keys and values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KvGrant {
    /// Size that it may have for each key, or for all callers if it is shared. Default: the
    /// plugin's request, at most 4MiB.
    pub max_bytes: Option<Size>,
    /// True to let all callers read and write the same entries. Default: false; each key has its
    /// own, and so do all callers without one together.
    #[serde(default)]
    pub shared: bool,
}

/// An empty directory for each call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scratch {
    /// Bytes that it may hold. Default: the plugin's request, at most 64MiB.
    pub max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 1000.
    pub max_files: Option<u64>,
}

/// A directory that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesGrant {
    /// The directory.
    pub path: PathBuf,
    /// Access that the plugin gets.
    pub access: Access,
    /// Bytes that the directory may hold with all below it; beyond them the plugin may add no more.
    /// Default: the plugin's request, at most 1GiB.
    pub max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 10000.
    pub max_files: Option<u64>,
}

/// Access to a directory.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}
