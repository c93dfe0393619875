//! The configuration file as written. Doc comments of these types are texts of the published
//! schema. [`resolve`](super::resolve) applies the defaults.

use std::{collections::BTreeMap, fmt, marker::PhantomData, path::PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::{Map, Value};

use super::values::EnvText;
use crate::{
    limit::LimitSet,
    plugin::Profile,
    units::{SecondsOrSpan, Size, Span},
};

/// Configuration of an Airlock gateway.
///
/// Text that says so may be `env.NAME` and is then taken from the gateway's environment. Paths are
/// relative to this file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Airlock configuration")]
pub(super) struct File {
    /// Where this schema is, for editors.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// How the gateway listens.
    #[serde(default)]
    pub(super) server: Server,
    /// Model providers by name. A request names one as `NAME/model`; the first is the default.
    #[serde(default)]
    pub(super) providers: Entries<Provider>,
    /// Sources of tools.
    #[serde(default)]
    pub(super) mcp: Mcp,
    /// The database of what outlives a restart, such as plugins' stores. Default: `airlock.db`
    /// beside this file.
    pub(super) store: Option<PathBuf>,
    /// Who may use what.
    #[serde(default)]
    pub(super) governance: Governance,
}

/// How the gateway listens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// IP address and port; port 0 takes a free one. Default: `127.0.0.1:8080`.
    pub(super) listen: Option<String>,
    /// Whether every request needs a virtual key. Only a loopback address can be listened on
    /// without. Default: true where `governance.virtual_keys` has an active key, else false.
    pub(super) require_virtual_key: Option<bool>,
    /// Host names that requests may carry in `Host`, on any port, besides loopback ones and
    /// `listen` itself.
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    /// Origins that requests may carry in `Origin`, besides `Host` with its port, as browsers write
    /// them: `https://tools.example.com`. For a proxy that rewrites `Host`; the gateway sends no
    /// CORS headers, so pages of other sites can neither send JSON nor read answers.
    #[serde(default)]
    pub(super) allowed_origins: Vec<String>,
    /// Largest request body. Default: 16MiB. Parsed, a body may take four times as much memory.
    pub(super) max_body: Option<Size>,
    /// Memory of all requests in flight: bodies, as text and parsed, and answers until they are
    /// sent. One virtual key gets half of it at most, and so do all callers without a key together.
    /// Default: 256MiB, or what `max_body` needs if that is more.
    pub(super) max_request_memory: Option<Size>,
    /// Largest request head. Default: 64KiB.
    pub(super) max_header: Option<Size>,
    /// Time for a request's head, and then for its body, to arrive. Default: 30s.
    pub(super) read_timeout: Option<Span>,
    /// Time for an answer to be taken by its client. Default: 30s.
    pub(super) write_timeout: Option<Span>,
    /// Time that a connection may stay open without a request. Default: 60s.
    pub(super) idle_timeout: Option<Span>,
    /// Time for requests in flight to end after the gateway was told to stop. Default: 30s.
    pub(super) drain_timeout: Option<Span>,
    /// Connections at the same time; beyond it those that are idle for longest are closed. Default:
    /// 1024.
    pub(super) max_connections: Option<u64>,
    /// Connections of one address at the same time, or of one /64 network of IPv6. Default: a
    /// quarter of `max_connections`.
    pub(super) max_connections_per_peer: Option<u64>,
}

/// One model provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    /// What it is.
    pub(super) kind: ProviderKind,
    /// For `openai`: where the API is, up to and including `/v1`; may be `env.NAME`. Default:
    /// `https://api.openai.com/v1`.
    pub(super) base_url: Option<EnvText>,
    /// For `openai`: the bearer token; may be `env.NAME`.
    pub(super) api_key: Option<EnvText>,
    /// For `scripted`: the file of turns.
    pub(super) script: Option<PathBuf>,
}

/// What a provider is.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderKind {
    /// Any service with a chat completions API.
    #[serde(rename = "openai")]
    OpenAi,
    /// A file of turns, for demonstrations and tests.
    Scripted,
}

/// Sources of tools.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mcp {
    /// The sources: MCP servers and plugins.
    #[serde(default)]
    pub(super) client_configs: Vec<Client>,
    /// How tools are called.
    #[serde(default)]
    pub(super) tool_manager_config: ToolManager,
}

/// One source of tools: an MCP server, or a plugin that runs in the gateway's sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Client {
    /// An identifier of the operator's own; nothing depends on it.
    #[serde(rename = "client_id")]
    _client_id: Option<String>,
    /// Its name, the prefix of its tools: a letter or `_`, then letters, digits or `_`, at most 32
    /// characters.
    pub(super) name: String,
    /// What it is.
    pub(super) connection_type: ConnectionType,
    /// For `stdio`: the process.
    pub(super) stdio_config: Option<Stdio>,
    /// For `http`: the URL of the endpoint; may be `env.NAME`.
    pub(super) connection_string: Option<EnvText>,
    /// For `http`: headers sent with every request; values may be `env.NAME`.
    pub(super) headers: Option<BTreeMap<String, EnvText>>,
    /// For `http`: how the gateway signs in. Either value sends exactly what `headers` holds.
    #[serde(rename = "auth_type")]
    _auth_type: Option<AuthType>,
    /// For `stdio` and `http`: time for starting, shaking hands and listing tools. Default: 30s.
    pub(super) connect_timeout: Option<Span>,
    /// For `wasm`: the plugin.
    pub(super) wasm_config: Option<Wasm>,
    /// Tools that may be called at all, by the source's own names; `["*"]` is every one. Case does
    /// not count. Default: none.
    #[serde(default)]
    pub(super) tools_to_execute: Vec<String>,
    /// Tools that may be called without asking; within `tools_to_execute`. Default: none.
    #[serde(default)]
    pub(super) tools_to_auto_execute: Vec<String>,
    /// Whether the tools are offered to scripts, behind the meta-tools, and not to the model
    /// directly. Default: false.
    #[serde(default, rename = "is_code_mode_client")]
    pub(super) code_mode: bool,
    /// Whether a virtual key without a row for this client may use all its tools. Default: false.
    #[serde(default)]
    pub(super) allow_on_all_virtual_keys: bool,
    /// Whether the gateway does as if this client were not there. Its environment variables need
    /// not exist. Default: false.
    #[serde(default)]
    pub(super) disabled: bool,
}

/// What a source of tools is.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConnectionType {
    /// A child process that speaks MCP on stdin and stdout.
    Stdio,
    /// An MCP server with the streamable HTTP transport.
    Http,
    /// A plugin.
    Wasm,
    /// The same as `wasm`.
    Inprocess,
}

/// How the gateway signs in to a server.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthType {
    /// Not at all.
    None,
    /// With `headers`.
    Headers,
}

/// A child process.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Stdio {
    /// Command to run. Without a `/` it is looked up in the `PATH` of `envs`, or else in the
    /// gateway's; otherwise it is a path.
    pub(super) command: String,
    /// Its arguments, passed as they are.
    #[serde(default)]
    pub(super) args: Vec<String>,
    /// Its whole environment: `NAME` takes a variable of the gateway's, `NAME=value` and
    /// `NAME=env.OTHER` set one. Nothing else is inherited; a command that looks for others, as
    /// `npx` does for `node`, needs `PATH` here.
    #[serde(default)]
    pub(super) envs: Vec<String>,
}

/// A plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wasm {
    /// The component's file.
    pub(super) component: PathBuf,
    /// The ceiling: what may be lent at most, whatever is asked for and granted. Default:
    /// `untrusted`.
    #[serde(default)]
    pub(super) profile: Profile,
    /// The plugin's own configuration, checked against the schema that it embeds.
    #[serde(default)]
    pub(super) config: Map<String, Value>,
    /// Descriptions of tools, by the plugin's own names, in the place of what the plugin says. A
    /// component that is no Airlock plugin and has no documentation needs them.
    #[serde(default)]
    pub(super) descriptions: BTreeMap<String, String>,
    /// What it is lent, of what it asks for. What is not listed is denied.
    #[serde(default)]
    pub(super) grants: Grants,
    /// What one call may spend.
    #[serde(default)]
    pub(super) limits: LimitSet,
}

/// What a plugin is lent.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grants {
    /// Places on the network: the name under which the plugin asks for one, or a rule.
    #[serde(default)]
    pub(super) http: Vec<NameOr<HttpRule>>,
    /// Secrets, by the plugin's name for each.
    #[serde(default)]
    pub(super) secrets: BTreeMap<String, SecretGrant>,
    /// Stores of keys and values that outlive a call: a name, or a name with a size.
    #[serde(default)]
    pub(super) kv: Vec<NameOr<StoreGrant>>,
    /// Directories, each seen by the plugin as `/NAME`.
    #[serde(default)]
    pub(super) directories: Vec<Directory>,
    /// A directory of its own for each call, seen as `/tmp` and removed afterwards.
    pub(super) scratch: Option<Scratch>,
    /// Tools that it may call, by full name `CLIENT-TOOL`.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// The real time. Default: false, and clocks start at the same moment in every call.
    #[serde(default)]
    pub(super) clocks: bool,
    /// Real randomness. Default: false, and every call draws the same numbers.
    #[serde(default)]
    pub(super) random: bool,
}

/// A place on the network that a plugin may send requests to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpRule {
    /// Scheme, host and port: `https://api.example.com`, or `https://*.example.com` for the names
    /// below it. May end in a path.
    pub(super) url: String,
    /// Methods. Default: GET and HEAD.
    #[serde(default)]
    pub(super) methods: Vec<String>,
    /// Patterns of paths; `*` is any text within a segment, `**` any number of segments. Default:
    /// all below `url`.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    /// Whether it may be in a private network. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(super) private: bool,
}

/// A secret that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretGrant {
    /// Where its value is: `env:NAME` or `file:PATH`.
    pub(super) from: String,
    /// Where it may go, of where the plugin asks to send it. Default: everywhere the plugin asks
    /// for.
    pub(super) audience: Option<Vec<NameOr<HttpRule>>>,
    /// How it is attached to requests, for a plugin that embeds no manifest.
    pub(super) inject: Option<Inject>,
    /// Whether the plugin may see the value itself. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(super) reveal: bool,
}

/// How a secret is attached to requests: in a header, or in the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inject {
    /// The header.
    pub(super) header: Option<String>,
    /// What stands in front of the value in the header, `Bearer ` for one.
    #[serde(default)]
    pub(super) prefix: String,
    /// The parameter of the query.
    pub(super) query: Option<String>,
}

/// A store of keys and values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreGrant {
    /// Its name.
    pub(super) name: String,
    /// What it may hold. Default: what the plugin asks for, at most 4MiB.
    pub(super) max_bytes: Option<Size>,
}

/// A directory of its own for each call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scratch {
    /// What it may hold. Default: what the plugin asks for, at most 64MiB.
    pub(super) max_bytes: Option<Size>,
    /// Files and directories in it. Default: what the plugin asks for, at most 1000.
    pub(super) max_files: Option<u64>,
}

/// A directory that a plugin is lent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Directory {
    /// Its name in the plugin: 1 to 64 letters, digits, `_` or `-`.
    pub(super) name: String,
    /// The directory.
    pub(super) path: PathBuf,
    /// Whether the plugin may change what is in it.
    pub(super) access: Access,
    /// Bytes that the directory may hold with all below it; beyond them the plugin may add no more.
    /// Default: the plugin's request, at most 1GiB.
    pub(super) max_bytes: Option<Size>,
    /// Files and directories in it. Default: what the plugin asks for, at most 10000.
    pub(super) max_files: Option<u64>,
}

/// How a directory is lent.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Access {
    /// Reading alone.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// How tools are called.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolManager {
    /// Time for one call, with all that it calls in turn. A bare number is seconds. Default: 30s.
    pub(super) tool_execution_timeout: Option<SecondsOrSpan>,
    /// Rounds of tool calls before the model's last answer is returned as it is. Default: 10.
    pub(super) max_agent_depth: Option<u64>,
    /// Tool calls that one answer of the model may have; it is told to ask again for those beyond.
    /// Default: 128.
    pub(super) max_tool_calls_per_answer: Option<u64>,
    /// Bytes that tool calls and their results may add to the conversation of one request, all
    /// rounds together. A result that does not fit is left out, and the model is told so. Default:
    /// 8MiB.
    pub(super) max_tool_results: Option<Size>,
    /// Time for one chat completion: all answers of the model and all tool calls together. Default:
    /// 30m.
    pub(super) agent_timeout: Option<Span>,
    /// How the virtual files of code mode are laid out. Default: `server`.
    pub(super) code_mode_binding_level: Option<BindingLevel>,
    /// Whether tools are offered to a model only where the request names them in an include header.
    /// Default: false.
    #[serde(default)]
    pub(super) disable_auto_tool_inject: bool,
    /// Calls at the same time, of one round of the model or one script. Default: 8.
    pub(super) max_parallel_tool_calls: Option<u64>,
    /// Calls that a script or a plugin may make in turn, all together. Default: 64.
    pub(super) max_nested_calls: Option<u64>,
    /// How many calls may be one inside the other, the first included. Default: 4.
    pub(super) max_call_depth: Option<u64>,
}

/// How the virtual files of code mode are laid out.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BindingLevel {
    /// One file a client.
    Server,
    /// One file a tool.
    Tool,
}

/// Who may use what.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Governance {
    /// Credentials of callers.
    #[serde(default)]
    pub(super) virtual_keys: Vec<VirtualKey>,
}

/// A credential of callers. It opens the tools of its rows and those of clients with
/// `allow_on_all_virtual_keys`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct VirtualKey {
    /// Identifier, where other programs keep one. The gateway goes by the name.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// What people call it; appears in logs.
    pub(super) name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// The credential: `sk-bf-` and more, at least 20 characters in all; may be `env.NAME`.
    pub(super) value: EnvText,
    /// Whether it can be used. Default: true.
    pub(super) is_active: Option<bool>,
    /// What it opens.
    #[serde(default)]
    pub(super) mcp_configs: Vec<KeyRow>,
}

/// Tools of one client that a virtual key opens. The row replaces `allow_on_all_virtual_keys`, even
/// if it lists nothing.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyRow {
    /// The client.
    pub(super) mcp_client_name: String,
    /// Tools, by the source's own names; `["*"]` is every one. Default: none.
    #[serde(default)]
    pub(super) tools_to_execute: Vec<String>,
}

/// Either a name or the whole value.
pub(super) enum NameOr<T> {
    Name(String),
    Whole(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for NameOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NameOrVisitor(PhantomData))
    }
}

struct NameOrVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for NameOrVisitor<T> {
    type Value = NameOr<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name or an object")
    }

    fn visit_str<E>(self, name: &str) -> Result<NameOr<T>, E> {
        Ok(NameOr::Name(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<NameOr<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(members)).map(NameOr::Whole)
    }
}

impl<T: JsonSchema> JsonSchema for NameOr<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("NameOr{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let whole = generator.subschema_for::<T>();
        json_schema!({"anyOf": [{"type": "string"}, whole]})
    }
}

/// Named values in the order of the file.
pub(super) struct Entries<T>(pub(super) Vec<(String, T)>);

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Entries<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = Entries<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Entries<T>, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = members.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

impl<T: JsonSchema> JsonSchema for Entries<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        BTreeMap::<String, T>::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        BTreeMap::<String, T>::json_schema(generator)
    }
}
