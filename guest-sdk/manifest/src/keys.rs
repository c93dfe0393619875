//! The table of keys: every key of a manifest and the values that it may have.

use crate::form::Form;

/// Required value of the key `schema`.
pub const SCHEMA: &str = "airlock.plugin/1";

/// Valid values of a key.
pub(crate) enum Kind {
    /// A text.
    Text(Form),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// An effect: one of [`EFFECTS`], alone or with the name of a request, as in `http.api`.
    Effect,
    /// True or false.
    Flag,
    /// A whole number from 0.
    Count,
    /// A table with keys of the author's choice.
    Free,
    /// A list of values of one kind.
    List(&'static Kind),
    /// A table with these keys.
    Table(&'static [Key]),
    /// A list of tables with these keys.
    Tables(&'static [Key]),
    /// Tables with these keys, by names of the author's choice.
    Named {
        keys: &'static [Key],
        /// True if `*` is a name too: it leaves the names to the operator.
        has_wildcard: bool,
    },
}

/// One key.
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) is_required: bool,
}

const fn required(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, is_required: true }
}

const fn optional(name: &'static str, kind: Kind) -> Key {
    Key { name, kind, is_required: false }
}

/// Kinds of effects on the world outside a call.
pub(crate) const EFFECTS: [&str; 7] =
    ["read_files", "write_files", "http", "secret", "read_kv", "write_kv", "call_tools"];

const TEXT: Kind = Kind::Text(Form::Any);
const TEXTS: Kind = Kind::List(&TEXT);
const SIZE: Kind = Kind::Text(Form::Size);
const TIME: Kind = Kind::Text(Form::Time);
/// The reason of a request, for the person who decides.
const REASON: Key = required("reason", Kind::Text(Form::Reason));
/// True if the plugin works without the request.
const OPTIONAL: Key = optional("optional", Kind::Flag);

/// Keys of the whole manifest.
pub(crate) const MANIFEST: &[Key] = &[
    required("schema", Kind::OneOf(&[SCHEMA])),
    required("id", Kind::Text(Form::Id)),
    required("version", Kind::Text(Form::Version)),
    required("contract", Kind::Text(Form::Contract)),
    optional("description", TEXT),
    optional("license", TEXT),
    optional("metadata", Kind::Free),
    optional("tool", Kind::Tables(TOOL)),
    optional("request", Kind::Table(REQUEST)),
    optional("config", Kind::Table(CONFIG)),
    optional("build", Kind::Table(BUILD)),
];

/// For the builder; the embedded form has none.
const BUILD: &[Key] = &[optional("wasi", Kind::Flag)];

const TOOL: &[Key] = &[required("name", TEXT), optional("effects", Kind::List(&Kind::Effect))];

/// `schema_file` is the name of a file beside `plugin.toml`, and `from_code` leaves the schema to the
/// plugin's code; the embedded form has either as `schema`.
const CONFIG: &[Key] = &[
    optional("schema_file", TEXT),
    optional("schema", Kind::Free),
    optional("from_code", Kind::Flag),
];

const REQUEST: &[Key] = &[
    optional("http", Kind::Named { keys: HTTP, has_wildcard: false }),
    optional("secret", Kind::Named { keys: SECRET, has_wildcard: false }),
    optional("kv", Kind::Named { keys: KV, has_wildcard: false }),
    optional("files", Kind::Named { keys: FILES, has_wildcard: true }),
    optional("scratch", Kind::Table(SCRATCH)),
    optional("slot", Kind::Named { keys: SLOT, has_wildcard: false }),
    optional("tools", Kind::Table(TOOLS)),
    optional("clocks", Kind::Table(SWITCH)),
    optional("limits", Kind::Table(LIMITS)),
];

const HTTP: &[Key] = &[
    required("url", Kind::Text(Form::Url)),
    optional("methods", TEXTS),
    optional("paths", Kind::List(&Kind::Text(Form::Path))),
    optional("private", Kind::Flag),
    REASON,
    OPTIONAL,
];

const SECRET: &[Key] = &[
    optional("inject", Kind::Table(INJECT)),
    optional("audience", TEXTS),
    optional("reveal", Kind::Flag),
    REASON,
    OPTIONAL,
];

const INJECT: &[Key] = &[
    optional("header", TEXT),
    optional("prefix", TEXT),
    optional("basic", TEXT),
    optional("query", TEXT),
];

const KV: &[Key] = &[required("max_bytes", SIZE), optional("cache", Kind::Flag), REASON, OPTIONAL];

const FILES: &[Key] = &[
    required("access", Kind::OneOf(&["read_only", "read_write"])),
    optional("max_bytes", SIZE),
    optional("max_files", Kind::Count),
    REASON,
    OPTIONAL,
];

const SCRATCH: &[Key] =
    &[required("max_bytes", SIZE), required("max_files", Kind::Count), REASON, OPTIONAL];

/// A slot, to which the operator binds a tool.
const SLOT: &[Key] = &[optional("description", Kind::Text(Form::Line)), REASON, OPTIONAL];

const TOOLS: &[Key] =
    &[required("call", Kind::List(&Kind::Text(Form::ToolName))), REASON, OPTIONAL];

const SWITCH: &[Key] = &[REASON, OPTIONAL];

const LIMITS: &[Key] = &[
    optional("fuel", Kind::Count),
    optional("cpu_time", TIME),
    optional("deadline", TIME),
    optional("memory", SIZE),
    optional("host_calls", Kind::Count),
    optional("result", SIZE),
    optional("http_requests", Kind::Count),
    optional("http_request", SIZE),
    optional("http_response", SIZE),
    optional("http_timeout", TIME),
];

/// Returns the path of every key, such as `request.http.NAME.url` and `tool[].effects`.
pub fn key_paths() -> Vec<String> {
    let mut paths = Vec::new();
    collect("", MANIFEST, &mut paths);
    paths
}

fn collect(prefix: &str, keys: &[Key], paths: &mut Vec<String>) {
    for key in keys {
        let path = format!("{prefix}{}", key.name);
        match key.kind {
            Kind::Table(keys) => collect(&format!("{path}."), keys, paths),
            Kind::Tables(keys) => collect(&format!("{path}[]."), keys, paths),
            Kind::Named { keys, .. } => collect(&format!("{path}.NAME."), keys, paths),
            _ => paths.push(path),
        }
    }
}
