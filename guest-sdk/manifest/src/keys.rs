//! The table of keys: every key of a manifest and the values that it may have.

use crate::form::Form;

/// Required value of the key `schema`.
pub const SCHEMA: &str = "airlock.plugin/1";

/// Valid values of a key.
pub(crate) enum KeyKind {
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
    List(&'static KeyKind),
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
    pub(crate) kind: KeyKind,
    pub(crate) is_required: bool,
}

const fn required(name: &'static str, kind: KeyKind) -> Key {
    Key { name, kind, is_required: true }
}

const fn optional(name: &'static str, kind: KeyKind) -> Key {
    Key { name, kind, is_required: false }
}

/// Kinds of effects on the world outside a call.
pub(crate) const EFFECTS: [&str; 7] =
    ["read_files", "write_files", "http", "secret", "read_kv", "write_kv", "call_tools"];

const TEXT: KeyKind = KeyKind::Text(Form::Any);
const TEXTS: KeyKind = KeyKind::List(&TEXT);
const SIZE: KeyKind = KeyKind::Text(Form::Size);
const TIME: KeyKind = KeyKind::Text(Form::Time);
/// The reason of a request, for the person who decides.
const REASON: Key = required("reason", KeyKind::Text(Form::Reason));
/// True if the plugin works without the request.
const OPTIONAL: Key = optional("optional", KeyKind::Flag);

/// Keys of the whole manifest.
pub(crate) const MANIFEST: &[Key] = &[
    required("schema", KeyKind::OneOf(&[SCHEMA])),
    required("id", KeyKind::Text(Form::Id)),
    required("version", KeyKind::Text(Form::Version)),
    required("contract", KeyKind::Text(Form::Contract)),
    optional("description", TEXT),
    optional("license", TEXT),
    optional("metadata", KeyKind::Free),
    optional("tool", KeyKind::Tables(TOOL)),
    optional("request", KeyKind::Table(REQUEST)),
    optional("config", KeyKind::Table(CONFIG)),
    optional("build", KeyKind::Table(BUILD)),
];

/// For the builder; the embedded form has none.
const BUILD: &[Key] = &[optional("wasi", KeyKind::Flag)];

const TOOL: &[Key] =
    &[required("name", TEXT), optional("effects", KeyKind::List(&KeyKind::Effect))];

/// `schema_file` is the name of a file beside `plugin.toml`, and `from_code` leaves the schema to the
/// plugin's code; the embedded form has either as `schema`.
const CONFIG: &[Key] = &[
    optional("schema_file", TEXT),
    optional("schema", KeyKind::Free),
    optional("from_code", KeyKind::Flag),
];

const REQUEST: &[Key] = &[
    optional("http", KeyKind::Named { keys: HTTP, has_wildcard: false }),
    optional("secret", KeyKind::Named { keys: SECRET, has_wildcard: false }),
    optional("kv", KeyKind::Named { keys: KV, has_wildcard: false }),
    optional("files", KeyKind::Named { keys: FILES, has_wildcard: true }),
    optional("scratch", KeyKind::Table(SCRATCH)),
    optional("slot", KeyKind::Named { keys: SLOT, has_wildcard: false }),
    optional("tools", KeyKind::Table(TOOLS)),
    optional("clocks", KeyKind::Table(SWITCH)),
    optional("limits", KeyKind::Table(LIMITS)),
];

const HTTP: &[Key] = &[
    required("url", KeyKind::Text(Form::Url)),
    optional("methods", TEXTS),
    optional("paths", KeyKind::List(&KeyKind::Text(Form::Path))),
    optional("private", KeyKind::Flag),
    REASON,
    OPTIONAL,
];

const SECRET: &[Key] = &[
    optional("inject", KeyKind::Table(INJECT)),
    optional("audience", TEXTS),
    optional("reveal", KeyKind::Flag),
    REASON,
    OPTIONAL,
];

const INJECT: &[Key] = &[
    optional("header", TEXT),
    optional("prefix", TEXT),
    optional("basic", TEXT),
    optional("query", TEXT),
];

const KV: &[Key] =
    &[required("max_bytes", SIZE), optional("cache", KeyKind::Flag), REASON, OPTIONAL];

const FILES: &[Key] = &[
    required("access", KeyKind::OneOf(&["read_only", "read_write"])),
    optional("max_bytes", SIZE),
    optional("max_files", KeyKind::Count),
    REASON,
    OPTIONAL,
];

const SCRATCH: &[Key] =
    &[required("max_bytes", SIZE), required("max_files", KeyKind::Count), REASON, OPTIONAL];

/// A slot, to which the operator binds a tool.
const SLOT: &[Key] = &[optional("description", KeyKind::Text(Form::Line)), REASON, OPTIONAL];

const TOOLS: &[Key] =
    &[required("call", KeyKind::List(&KeyKind::Text(Form::ToolName))), REASON, OPTIONAL];

const SWITCH: &[Key] = &[REASON, OPTIONAL];

const LIMITS: &[Key] = &[
    optional("fuel", KeyKind::Count),
    optional("cpu_time", TIME),
    optional("deadline", TIME),
    optional("memory", SIZE),
    optional("host_calls", KeyKind::Count),
    optional("result", SIZE),
    optional("http_requests", KeyKind::Count),
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
            KeyKind::Table(keys) => collect(&format!("{path}."), keys, paths),
            KeyKind::Tables(keys) => collect(&format!("{path}[]."), keys, paths),
            KeyKind::Named { keys, .. } => collect(&format!("{path}.NAME."), keys, paths),
            _ => paths.push(path),
        }
    }
}
