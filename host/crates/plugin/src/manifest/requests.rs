//! The table `request` of a manifest: the rights that a plugin requests, each with the author's
//! reason.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::Request;
use airlock_core::{limit::GuestLimitSet, units::Size};
use airlock_egress::{BadRule, Injection, Rule};

/// Leaves the choice of hosts or directories to the operator.
pub(crate) const ANY: &str = "*";

/// All rights that a plugin requests.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Network destinations, by names that the author chose.
    #[serde(default)]
    pub http: BTreeMap<String, HttpRequest>,
    /// Secrets.
    #[serde(default)]
    pub secret: BTreeMap<String, SecretRequest>,
    /// Key-value stores.
    #[serde(default)]
    pub kv: BTreeMap<String, KvRequest>,
    /// Directories. The name `*` stands for all directories that the operator grants.
    #[serde(default)]
    pub files: BTreeMap<String, FilesRequest>,
    /// Private directory of each call.
    #[serde(default)]
    pub scratch: Option<ScratchRequest>,
    /// Slots for other tools, by names that the author chose. The operator binds a tool to each.
    #[serde(default)]
    pub slot: BTreeMap<String, SlotRequest>,
    /// Other tools, by full name.
    #[serde(default)]
    pub tools: Option<ToolsRequest>,
    /// The real time.
    #[serde(default)]
    pub clocks: Option<SwitchRequest>,
    /// Limits that one call needs. An absent limit requests nothing beyond the default.
    #[serde(default, deserialize_with = "GuestLimitSet::deserialize_requested")]
    pub limits: GuestLimitSet,
}

macro_rules! requests {
    ($($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
            /// Reason, for the person who decides.
            pub reason: String,
            /// True if the plugin works without it. A plugin with a required request that is not
            /// granted is not loaded.
            #[serde(default)]
            pub optional: bool,
        }
    )*};
}

requests! {
    /// One network destination.
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
    KvRequest {
        /// Maximum size.
        max_bytes: Size,
        /// True if it only keeps what can be obtained again: every tool may use it, also one that
        /// declares no effects.
        #[serde(default)]
        cache: bool,
    }
    /// One directory, mounted at `/<name>`.
    FilesRequest {
        /// `read_only` or `read_write`.
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
    /// A slot for one tool.
    SlotRequest {
        /// Purpose of the tool, for the operator who chooses it.
        #[serde(default)]
        description: Option<String>,
    }
    /// Other tools by full name, for a plugin that is written for them.
    ToolsRequest {
        /// Full names, `<client>-<tool>`.
        call: Vec<String>,
    }
    /// A right that is granted or not, without details.
    SwitchRequest {}
}

airlock_strings::named_enum! {
    /// Requested access to a directory. The names are those in a manifest and in the configuration.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FilesAccess {
        /// Read-only access.
        ReadOnly = "read_only",
        /// Read and write access.
        ReadWrite = "read_write",
    }
}

/// Injection of a secret into requests: one of `header`, `basic` and `query`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InjectRequest {
    /// Header that carries the secret.
    pub header: Option<String>,
    /// Text in front of the value.
    #[serde(default)]
    pub prefix: String,
    /// User of Basic authentication, whose password is the secret. If it is empty, the secret is
    /// `user:password`.
    pub basic: Option<String>,
    /// Query parameter that carries the secret.
    pub query: Option<String>,
}

impl Requests {
    /// Returns every request except the limits, which state no reason.
    pub fn all(&self) -> impl Iterator<Item = Request<'_>> {
        let http = self.http.iter().map(|(name, http)| Request::Http(name, http));
        let secrets = self.secret.iter().map(|(name, secret)| Request::Secret(name, secret));
        let kv = self.kv.iter().map(|(name, store)| Request::Kv(name, store));
        let files = self.files.iter().map(|(name, files)| Request::Files(name, files));
        http.chain(secrets)
            .chain(kv)
            .chain(files)
            .chain(self.scratch.iter().map(Request::Scratch))
            .chain(self.slot.iter().map(|(name, slot)| Request::Slot(name, slot)))
            .chain(self.tools.iter().map(Request::Tools))
            .chain(self.clocks.iter().map(Request::Clocks))
    }

    /// Returns the request of this name, such as `http.api`.
    pub fn named(&self, name: &str) -> Option<Request<'_>> {
        self.all().find(|request| request.to_string() == name)
    }
}

impl HttpRequest {
    /// Returns whether the choice of hosts is the operator's.
    pub fn is_any_host(&self) -> bool {
        self.url == ANY
    }

    /// Returns the requested rule; `None` if the choice of hosts is the operator's.
    pub fn rule(&self) -> Result<Option<Rule>, BadRule> {
        if self.is_any_host() {
            Ok(None)
        } else {
            let rule = Rule::new(&self.url, &self.methods, &self.paths, self.private);
            rule.and_then(Rule::reachable).map(Some)
        }
    }
}

impl InjectRequest {
    /// Returns the injection. The error names the valid forms.
    pub fn injection(&self) -> Result<Injection, String> {
        if !self.prefix.is_empty() && self.header.is_none() {
            return Err("a `prefix` goes with a `header` alone".to_owned());
        }
        let injection = match (&self.header, &self.basic, &self.query) {
            (Some(header), None, None) => Injection::header(header, &self.prefix),
            (None, Some(user), None) => Injection::basic(user),
            // The name is printed in a line that people decide on.
            (None, None, Some(query))
                if query.contains(|c: char| c.is_control() || c.is_whitespace()) =>
            {
                return Err(format!(
                    "found the query parameter {query:?}, expected a name without spaces and control characters"
                ));
            }
            (None, None, Some(query)) => Injection::query(query),
            _ => return Err("expected one of `header`, `basic` and `query`".to_owned()),
        };
        injection.map_err(|error| error.to_string())
    }
}
