//! `plugin.toml`: the author's description of a plugin, and the rights that it requests. Embedded
//! in the component as JSON; as untrusted as the code.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    egress::{BadRule, Injection, Rule},
    units::{Size, Span},
};

/// Custom section of the component that contains the manifest.
pub const SECTION: &str = "airlock:manifest";
/// Required value of `schema`.
pub const SCHEMA: &str = "airlock.plugin/1";
/// Maximum size of a manifest, in bytes.
const MAX_BYTES: usize = 256 << 10;
/// Maximum length of a reason, in bytes: people read it before they grant anything.
const MAX_REASON: usize = 300;
/// Maximum number of requests of one kind.
const MAX_REQUESTS: usize = 32;
/// Maximum length of a requested tool name, in bytes; longer than any name in the catalog.
const MAX_TOOL_NAME: usize = 128;
/// Leaves the choice of hosts or directories to the operator.
pub(super) const ANY: &str = "*";

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
    /// Declared effects of its tools.
    #[serde(default, rename = "tool")]
    pub tools: Vec<ToolNote>,
    /// Requested rights.
    #[serde(default)]
    pub request: Request,
    /// JSON Schema 2020-12 of the plugin's configuration.
    #[serde(default)]
    config: Option<ConfigRequest>,
}

/// Declared effects of one tool.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolNote {
    /// The tool.
    pub name: String,
    /// Effects; each needs a request that makes it possible.
    #[serde(default)]
    pub effects: BTreeSet<Effect>,
}

/// An effect on the world outside a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Reads granted directories.
    ReadFiles,
    /// Changes granted directories.
    WriteFiles,
    /// Sends HTTP requests.
    Network,
    /// Has secrets attached to HTTP requests, or reads secrets.
    Credential,
    /// Keeps values between calls.
    Store,
    /// Calls other tools.
    CallTools,
}

/// All rights that a plugin requests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Places on the network, by names that the author chose.
    #[serde(default)]
    pub http: BTreeMap<String, HttpRequest>,
    /// Secrets.
    #[serde(default)]
    pub secret: BTreeMap<String, SecretRequest>,
    /// Key-value stores.
    #[serde(default)]
    pub kv: BTreeMap<String, StoreRequest>,
    /// Directories. The name `*` stands for all directories that the operator grants.
    #[serde(default)]
    pub files: BTreeMap<String, FilesRequest>,
    /// Private directory of each call.
    #[serde(default)]
    pub scratch: Option<ScratchRequest>,
    /// Other tools.
    #[serde(default)]
    pub tools: Option<ToolsRequest>,
    /// The real time.
    #[serde(default)]
    pub clocks: Option<Asked>,
    /// Real randomness.
    #[serde(default)]
    pub random: Option<Asked>,
    /// Limits that one call needs.
    #[serde(default)]
    pub limits: LimitsRequest,
}

/// Reason of a request, and whether it is optional.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asked {
    /// Reason, for the person who decides.
    pub reason: String,
    /// True if the plugin works without it. A plugin with a required request that is not granted is
    /// not loaded.
    #[serde(default)]
    pub optional: bool,
}

macro_rules! asked {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Reason, for the person who decides.
            pub reason: String,
            /// True if the plugin works without it.
            #[serde(default)]
            pub optional: bool,
        }
    )*};
}

asked! {
    /// One place on the network.
    HttpRequest {
        /// Scheme, host and port: `https://api.example.com`; see [`Rule::new`]. `*` leaves the
        /// choice to the operator.
        url: String,
        /// Methods; GET and HEAD if empty.
        #[serde(default)]
        methods: Vec<String>,
        /// Patterns of paths; all paths below `url` if empty.
        #[serde(default)]
        paths: Vec<String>,
        /// True if the host may be in a private network. Without effect if `url` is `*`: the
        /// operator grants private networks then, as it does the hosts.
        #[serde(default)]
        private: bool,
    }
    /// One secret.
    SecretRequest {
        /// Injection by the host into requests.
        #[serde(default)]
        inject: Option<InjectRequest>,
        /// Audience: names of `request.http`.
        #[serde(default)]
        audience: Vec<String>,
        /// True if the plugin needs to read the value.
        #[serde(default)]
        reveal: bool,
    }
    /// One key-value store.
    StoreRequest {
        /// Maximum size.
        max_bytes: Size,
    }
    /// One directory, mounted at `/<name>`.
    FilesRequest {
        /// `read-only` or `read-write`.
        access: FilesAccess,
        /// Maximum total size, if it is written to.
        #[serde(default)]
        max_bytes: Option<Size>,
        /// Maximum number of files and directories, if it is written to.
        #[serde(default)]
        max_files: Option<u64>,
    }
    /// Private directory of each call, mounted at `/tmp`.
    ScratchRequest {
        /// Maximum total size.
        max_bytes: Size,
        /// Maximum number of files and directories.
        max_files: u64,
    }
    /// Other tools.
    ToolsRequest {
        /// Full names, `<client>-<tool>`.
        call: Vec<String>,
    }
}

/// Requested access to a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesAccess {
    /// Read-only access.
    ReadOnly,
    /// Read and write access.
    ReadWrite,
}

/// Injection of a secret into requests: either `header` or `query`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectRequest {
    /// Header that carries the secret.
    pub header: Option<String>,
    /// Text in front of the value.
    #[serde(default)]
    pub prefix: String,
    /// Query parameter that carries the secret.
    pub query: Option<String>,
}

/// Limits that one call needs. An absent limit requests nothing beyond the default.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(
    missing_docs,
    reason = "the names are those of `wasm_config.limits`, which the configuration's schema describes"
)]
pub struct LimitsRequest {
    pub fuel: Option<u64>,
    pub cpu_time: Option<Span>,
    pub deadline: Option<Span>,
    pub memory: Option<Size>,
    pub result: Option<Size>,
    pub host_calls: Option<u64>,
    pub http_requests: Option<u64>,
    pub http_response: Option<Size>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct ConfigRequest {
    schema: Value,
}

/// Reason that a manifest is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{key}{problem}", key = Prefix(.key))]
pub struct BadManifest {
    /// Position: `request.http.api.url`. Empty for the whole manifest.
    pub key: String,
    /// The found value and the valid ones.
    pub problem: String,
}

struct Prefix<'a>(&'a str);

impl fmt::Display for Prefix<'_> {
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
            return Err(bad("", format!("{} bytes, the limit is {MAX_BYTES}", json.len())));
        }
        let mut reader = serde_json::Deserializer::from_slice(json);
        let manifest: Self = serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let key = error.path().to_string();
            bad(if key == "." { String::new() } else { key }, error.into_inner().to_string())
        })?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Returns the JSON Schema of the configuration; `None` if the plugin takes none.
    pub fn config_schema(&self) -> Option<&Value> {
        self.config.as_ref().map(|config| &config.schema)
    }

    fn check(&self) -> Result<(), BadManifest> {
        if self.schema != SCHEMA {
            return Err(bad(
                "schema",
                format!("found {:?}, this build reads {SCHEMA:?}", self.schema),
            ));
        }
        let is_fit = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if self.id.is_empty() || self.id.len() > 32 || !self.id.chars().all(is_fit) {
            return Err(bad(
                "id",
                format!("found {:?}, expected 1 to 32 of the characters a-z, 0-9 and `-`", self.id),
            ));
        }
        self.request.check()?;
        for (index, tool) in self.tools.iter().enumerate() {
            for effect in &tool.effects {
                if let Some(needs) = self.request.lacks(*effect) {
                    let found = serde_json::to_string(effect).unwrap_or_default();
                    let key = format!("tool[{index}].effects");
                    return Err(bad(key, format!("found {found}, which needs {needs}")));
                }
            }
        }
        Ok(())
    }
}

impl Request {
    /// Returns each request's position, reason, and whether it is optional.
    pub fn asked(&self) -> impl Iterator<Item = (String, &str, bool)> {
        let named = |kind: &'static str| move |name: &String| format!("{kind}.{name}");
        let (http, secret, kv, files) =
            (named("http"), named("secret"), named("kv"), named("files"));
        let https = self.http.iter().map(move |(name, it)| (http(name), &*it.reason, it.optional));
        let secrets =
            self.secret.iter().map(move |(name, it)| (secret(name), &*it.reason, it.optional));
        let stores = self.kv.iter().map(move |(name, it)| (kv(name), &*it.reason, it.optional));
        let files =
            self.files.iter().map(move |(name, it)| (files(name), &*it.reason, it.optional));
        let scratch =
            self.scratch.iter().map(|it| ("scratch".to_owned(), &*it.reason, it.optional));
        let tools = self.tools.iter().map(|it| ("tools".to_owned(), &*it.reason, it.optional));
        let clocks = self.clocks.iter().map(|it| ("clocks".to_owned(), &*it.reason, it.optional));
        let random = self.random.iter().map(|it| ("random".to_owned(), &*it.reason, it.optional));
        https
            .chain(secrets)
            .chain(stores)
            .chain(files)
            .chain(scratch)
            .chain(tools)
            .chain(clocks)
            .chain(random)
    }

    fn check(&self) -> Result<(), BadManifest> {
        let kinds = [
            ("http", self.http.len()),
            ("secret", self.secret.len()),
            ("kv", self.kv.len()),
            ("files", self.files.len()),
        ];
        for (kind, found) in kinds {
            if found > MAX_REQUESTS {
                return Err(bad(
                    format!("request.{kind}"),
                    format!("found {found} of them, at most {MAX_REQUESTS} may be asked for"),
                ));
            }
        }
        let files = self.files.keys().filter(|name| *name != ANY);
        let names = self.http.keys().chain(self.secret.keys()).chain(self.kv.keys()).chain(files);
        for name in names {
            if !is_name(name) {
                return Err(bad(
                    "request",
                    format!(
                        "found the name {name:?}, expected 1 to 64 letters, digits, `_` or `-`"
                    ),
                ));
            }
        }
        for (place, reason, _) in self.asked() {
            if reason.trim().is_empty() || reason.len() > MAX_REASON {
                return Err(bad(
                    format!("request.{place}.reason"),
                    format!(
                        "expected 1 to {MAX_REASON} bytes for the person who decides, found {}",
                        reason.len()
                    ),
                ));
            }
        }
        for (name, http) in &self.http {
            http.rule().map_err(|error| bad(format!("request.http.{name}"), error.to_string()))?;
            if http.url == ANY && !(http.methods.is_empty() && http.paths.is_empty()) {
                return Err(bad(
                    format!("request.http.{name}"),
                    "methods and paths go with a host; with \"*\" they are the operator's to grant",
                ));
            }
        }
        for (name, secret) in &self.secret {
            let key = format!("request.secret.{name}");
            if let Some(inject) = &secret.inject {
                inject.injection().map_err(|problem| bad(format!("{key}.inject"), problem))?;
            }
            if secret.inject.is_none() && !secret.reveal {
                return Err(bad(
                    key,
                    "it is neither attached to requests (`inject`) nor shown to the plugin (`reveal`)",
                ));
            }
            if let Some(unknown) =
                secret.audience.iter().find(|name| !self.http.contains_key(*name))
            {
                return Err(bad(
                    format!("{key}.audience"),
                    format!("found {unknown:?}, expected a name of [request.http]"),
                ));
            }
            if secret.inject.is_some() && secret.audience.is_empty() {
                return Err(bad(
                    format!("{key}.audience"),
                    "is empty, so that the secret could be sent nowhere",
                ));
            }
        }
        self.check_tools()
    }

    /// Checks the names of requested tools. They are printed in lines that people decide on, so
    /// they must not contain line breaks.
    fn check_tools(&self) -> Result<(), BadManifest> {
        let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        let fits =
            |name: &&String| (1..=MAX_TOOL_NAME).contains(&name.len()) && name.chars().all(is_fit);
        match self.tools.iter().flat_map(|tools| &tools.call).find(|name| !fits(name)) {
            None => Ok(()),
            Some(name) => Err(bad(
                "request.tools.call",
                format!(
                    "found {name:?}, expected the full name of a tool: 1 to {MAX_TOOL_NAME} letters, digits, `_` or `-`"
                ),
            )),
        }
    }

    /// Returns the request that an effect needs; `None` if it is present.
    fn lacks(&self, effect: Effect) -> Option<&'static str> {
        let writes = |files: &FilesRequest| files.access == FilesAccess::ReadWrite;
        let (has, needs) = match effect {
            Effect::ReadFiles => (!self.files.is_empty(), "a [request.files.NAME]"),
            Effect::WriteFiles => {
                (self.files.values().any(writes), "a [request.files.NAME] with read-write access")
            }
            Effect::Network => (!self.http.is_empty(), "a [request.http.NAME]"),
            Effect::Credential => (!self.secret.is_empty(), "a [request.secret.NAME]"),
            Effect::Store => (!self.kv.is_empty(), "a [request.kv.NAME]"),
            Effect::CallTools => (self.tools.is_some(), "[request.tools]"),
        };
        (!has).then_some(needs)
    }
}

impl HttpRequest {
    /// Returns the requested rule; `None` if the choice is the operator's.
    pub fn rule(&self) -> Result<Option<Rule>, BadRule> {
        if self.url == ANY {
            Ok(None)
        } else {
            Rule::new(&self.url, &self.methods, &self.paths, self.private).map(Some)
        }
    }
}

impl InjectRequest {
    /// Returns the injection. The error names the valid forms.
    pub fn injection(&self) -> Result<Injection, String> {
        match (&self.header, &self.query) {
            (Some(header), None) => {
                Injection::header(header, &self.prefix).map_err(|error| error.to_string())
            }
            // The name is printed in a line that people decide on.
            (None, Some(query))
                if query.contains(|c: char| c.is_control() || c.is_whitespace()) =>
            {
                Err(format!(
                    "found the query parameter {query:?}, expected a name without spaces and control characters"
                ))
            }
            (None, Some(query)) if self.prefix.is_empty() => {
                Injection::query(query).map_err(|error| error.to_string())
            }
            (None, Some(_)) => Err("a `prefix` goes with a `header` alone".to_owned()),
            _ => Err("expected either `header` or `query`".to_owned()),
        }
    }
}

/// Returns whether `name` is valid as a name for guests.
pub(super) fn is_name(name: &str) -> bool {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    (1..=64).contains(&name.len()) && name.chars().all(is_fit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(more: &Value) -> Result<Manifest, BadManifest> {
        let mut manifest =
            json!({"schema": SCHEMA, "id": "weather", "version": "1.2.0", "contract": "0.1"});
        let members = more.as_object().expect("an object").clone();
        manifest.as_object_mut().expect("an object").extend(members);
        Manifest::parse(manifest.to_string().as_bytes())
    }

    fn refusal(more: &Value) -> String {
        parse(more).expect_err("refused").to_string()
    }

    #[test]
    fn every_kind_of_request_is_parsed_with_its_reason() {
        let manifest = parse(&json!({
            "license": "MIT",
            "tool": [{"name": "get", "effects": ["network", "credential"]}],
            "request": {
                "http": {"api": {"url": "https://api.example.com", "methods": ["POST"], "paths": ["/v1/**"], "reason": "forecasts"}},
                "secret": {"token": {"inject": {"header": "authorization", "prefix": "Bearer "}, "audience": ["api"], "reason": "signs in"}},
                "kv": {"cache": {"max_bytes": "1MiB", "reason": "remembers", "optional": true}},
                "files": {"data": {"access": "read-only", "reason": "reads"}},
                "scratch": {"max_bytes": "1MiB", "max_files": 3, "reason": "unpacks"},
                "tools": {"call": ["text-word_count"], "reason": "counts"},
                "clocks": {"reason": "dates"},
                "random": {"reason": "dice"},
                "limits": {"memory": "32MiB", "cpu_time": "1s"}
            },
            "config": {"schema": {"type": "object"}}
        }))
        .expect("a good manifest");
        let asked: Vec<_> = manifest
            .request
            .asked()
            .map(|(place, reason, optional)| format!("{place} {reason} {optional}"))
            .collect();
        insta::assert_snapshot!(asked.join("\n"), @r"
        http.api forecasts false
        secret.token signs in false
        kv.cache remembers true
        files.data reads false
        scratch unpacks false
        tools counts false
        clocks dates false
        random dice false
        ");
        assert_eq!(manifest.config_schema(), Some(&json!({"type": "object"})));
    }

    #[test]
    fn an_invalid_request_is_refused_with_its_position() {
        insta::assert_snapshot!(refusal(&json!({"schema": "airlock.plugin/2"})), @r#"schema: found "airlock.plugin/2", this build reads "airlock.plugin/1""#);
        insta::assert_snapshot!(refusal(&json!({"id": "Weather"})), @r#"id: found "Weather", expected 1 to 32 of the characters a-z, 0-9 and `-`"#);
        insta::assert_snapshot!(
            refusal(&json!({"request": {"htp": {}}})),
            @"request.htp: unknown field `htp`, expected one of `http`, `secret`, `kv`, `files`, `scratch`, `tools`, `clocks`, `random`, `limits` at line 1 column 95"
        );
        insta::assert_snapshot!(
            refusal(&json!({"request": {"clocks": {"reason": " "}}})),
            @"request.clocks.reason: expected 1 to 300 bytes for the person who decides, found 1"
        );
        insta::assert_snapshot!(
            refusal(&json!({"tool": [{"name": "a"}, {"name": "b", "effects": ["network"]}]})),
            @r#"tool[1].effects: found "network", which needs a [request.http.NAME]"#
        );
        insta::assert_snapshot!(
            refusal(&json!({"request": {"secret": {"t": {"reason": "r", "inject": {"header": "x-key"}, "audience": ["api"]}}}})),
            @r#"request.secret.t.audience: found "api", expected a name of [request.http]"#
        );
        insta::assert_snapshot!(
            refusal(&json!({"request": {"secret": {"t": {"reason": "r"}}}})),
            @"request.secret.t: it is neither attached to requests (`inject`) nor shown to the plugin (`reveal`)"
        );
        insta::assert_snapshot!(
            refusal(&json!({"request": {"tools": {"call": ["text-count", "a\n  clocks"], "reason": "r"}}})),
            @r#"request.tools.call: found "a\n  clocks", expected the full name of a tool: 1 to 128 letters, digits, `_` or `-`"#
        );
        let injected = |inject: Value| {
            let http = json!({"api": {"url": "https://api.example.com", "reason": "r"}});
            let secret = json!({"t": {"reason": "r", "inject": inject, "audience": ["api"]}});
            parse(&json!({"request": {"http": http, "secret": secret}}))
                .map_err(|error| error.to_string())
        };
        insta::assert_snapshot!(
            injected(json!({"query": "key\nrandom"})).expect_err("refused"),
            @r#"request.secret.t.inject: found the query parameter "key\nrandom", expected a name without spaces and control characters"#
        );
        assert!(
            injected(json!({"query": "a key"})).is_err()
                && injected(json!({"header": "x-key\nrandom"})).is_err()
        );
        assert!(
            injected(json!({"query": "api_key"})).is_ok()
                && injected(json!({"header": "X-Key"})).is_ok()
        );
        let longest =
            |length| json!({"request": {"tools": {"call": ["a".repeat(length)], "reason": "r"}}});
        assert!(
            parse(&longest(MAX_TOOL_NAME)).is_ok() && parse(&longest(MAX_TOOL_NAME + 1)).is_err()
        );
        assert!(
            refusal(&json!({"request": {"http": {"api": {"url": "https://*", "reason": "all"}}}}))
                .starts_with("request.http.api: ")
        );
        assert!(Manifest::parse(&vec![b' '; MAX_BYTES + 1]).is_err());
    }
}
