//! Clients of type `internal`, as written: components and their grants.

use std::{collections::BTreeMap, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::NameOr;
use crate::{limit::LimitSet, plugin::Profile, units::Size};

/// A plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Wasm {
    /// The component's file.
    pub(in crate::config) component: PathBuf,
    /// The ceiling of grants and limits, whatever the plugin requests and the operator grants.
    /// Default: `untrusted`.
    #[serde(default)]
    pub(in crate::config) profile: Profile,
    /// The plugin's own configuration, checked against the schema that it embeds.
    #[serde(default)]
    pub(in crate::config) config: Map<String, Value>,
    /// Descriptions of tools, by the plugin's own names. They replace the plugin's descriptions. A
    /// component that was not written for Airlock and has no documentation needs them.
    #[serde(default)]
    pub(in crate::config) descriptions: BTreeMap<String, String>,
    /// Rights that the operator grants, of those that it requests. All others are denied.
    #[serde(default)]
    pub(in crate::config) grants: Grants,
    /// Limits of one call.
    #[serde(default)]
    pub(in crate::config) limits: LimitSet,
}

/// Rights that the operator grants to a plugin.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Grants {
    /// Hosts on the network: the name of the plugin's request, or a rule.
    #[serde(default)]
    pub(in crate::config) http: Vec<NameOr<HttpRule>>,
    /// Secrets, by the plugin's name for each.
    #[serde(default)]
    pub(in crate::config) secret: BTreeMap<String, SecretGrant>,
    /// Stores of keys and values that survive a call, by name; `{}` grants one with the default
    /// size.
    #[serde(default)]
    pub(in crate::config) kv: BTreeMap<String, KvGrant>,
    /// Directories, by name: 1 to 64 letters, digits, `_` or `-`. The plugin sees each as `/NAME`.
    #[serde(default)]
    pub(in crate::config) files: BTreeMap<String, FilesGrant>,
    /// An empty directory for each call, seen as `/tmp` and removed afterwards.
    pub(in crate::config) scratch: Option<Scratch>,
    /// Tools that it may call by its own slots: the full name `CLIENT-TOOL` for each slot of its
    /// manifest.
    #[serde(default)]
    pub(in crate::config) slot: BTreeMap<String, String>,
    /// Tools that it may call by full name, `CLIENT-TOOL`.
    #[serde(default)]
    pub(in crate::config) tools: Vec<String>,
    /// True to grant the real time. Default: false; clocks start at the same moment in every call.
    #[serde(default)]
    pub(in crate::config) clocks: bool,
}

/// Hosts and paths that a plugin may send requests to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct HttpRule {
    /// Scheme, host and port: `https://api.example.com`, or `https://*.example.com` for all names
    /// below it. May end in a path.
    pub(in crate::config) url: String,
    /// Methods. Default: GET and HEAD.
    #[serde(default)]
    pub(in crate::config) methods: Vec<String>,
    /// Patterns of paths; `*` is any text within a segment, `**` any number of segments. Default:
    /// all paths below `url`.
    #[serde(default)]
    pub(in crate::config) paths: Vec<String>,
    /// True if the host may be in a private network. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(in crate::config) private: bool,
}

/// A secret that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct SecretGrant {
    /// Source of its value: `env:NAME` or `file:PATH`.
    pub(in crate::config) from: String,
    /// Hosts and paths that it may be sent to, of those that the plugin requests. Default: all that
    /// the plugin requests; where it leaves the hosts to the operator, those of `http`.
    pub(in crate::config) audience: Option<Vec<NameOr<HttpRule>>>,
    /// Place of the secret in requests, for a plugin that embeds no manifest.
    pub(in crate::config) inject: Option<Inject>,
    /// True if the plugin may read the value itself. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(in crate::config) reveal: bool,
}

/// Place of a secret in requests: a header, Basic authentication, or a parameter of the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Inject {
    /// The header.
    pub(in crate::config) header: Option<String>,
    /// Text before the value in the header, such as `Bearer `.
    #[serde(default)]
    pub(in crate::config) prefix: String,
    /// User of Basic authentication, whose password is the secret. If it is empty, the secret is
    /// `user:password`.
    pub(in crate::config) basic: Option<String>,
    /// The parameter of the query.
    pub(in crate::config) query: Option<String>,
}

/// A store of keys and values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct KvGrant {
    /// Size that it may have for each key, or for all callers if it is shared. Default: the
    /// plugin's request, at most 4MiB.
    pub(in crate::config) max_bytes: Option<Size>,
    /// True to let all callers read and write the same entries. Default: false; each key has its
    /// own, and so do all callers without one together.
    #[serde(default)]
    pub(in crate::config) shared: bool,
}

/// An empty directory for each call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Scratch {
    /// Bytes that it may hold. Default: the plugin's request, at most 64MiB.
    pub(in crate::config) max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 1000.
    pub(in crate::config) max_files: Option<u64>,
}

/// A directory that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct FilesGrant {
    /// The directory.
    pub(in crate::config) path: PathBuf,
    /// Access that the plugin gets.
    pub(in crate::config) access: Access,
    /// Bytes that the directory may hold with all below it; beyond them the plugin may add no more.
    /// Default: the plugin's request, at most 1GiB.
    pub(in crate::config) max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 10000.
    pub(in crate::config) max_files: Option<u64>,
}

/// Access to a directory.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::config) enum Access {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}
