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
/// If a description permits `env.NAME`, that text stands for a variable of the gateway's
/// environment. Paths are relative to this file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Airlock configuration")]
pub(super) struct File {
    /// Location of this schema, for editors.
    #[serde(rename = "$schema")]
    _schema: Option<String>,
    /// The HTTP server of the gateway.
    #[serde(default)]
    pub(super) server: Server,
    /// Model providers by name. A request names a model as `NAME/model`. A model without the name
    /// of a provider goes to the first one.
    #[serde(default)]
    pub(super) providers: Entries<Provider>,
    /// Sources of tools.
    #[serde(default)]
    pub(super) mcp: Mcp,
    /// Database of the state that survives a restart: plugins' stores and responses. Default:
    /// `airlock.db` beside this file.
    pub(super) store: Option<PathBuf>,
    /// Credentials of callers, and the tools that each opens.
    #[serde(default)]
    pub(super) governance: Governance,
}

/// The HTTP server of the gateway.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Server {
    /// IP address and port; port 0 chooses a free one. Default: `127.0.0.1:8080`.
    pub(super) listen: Option<String>,
    /// True if every request needs a virtual key. If false, `listen` must be a loopback address.
    /// Default: true if `governance.virtual_keys` has an active key, else false.
    pub(super) require_virtual_key: Option<bool>,
    /// Host names that requests may have in `Host`, on any port, besides loopback names and the
    /// address of `listen`.
    #[serde(default)]
    pub(super) allowed_hosts: Vec<String>,
    /// Origins that requests may have in `Origin`, besides `Host` with its port, as browsers write
    /// them: `https://tools.example.com`. Needed for a proxy that rewrites `Host`. The gateway
    /// sends no CORS headers, so pages of other sites can neither send JSON nor read responses.
    #[serde(default)]
    pub(super) allowed_origins: Vec<String>,
    /// Largest request body. A parsed body may take four times as much memory. Default: 16MiB.
    pub(super) max_body: Option<Size>,
    /// Memory of all requests in flight: bodies, as text and parsed, and responses until they are
    /// sent. One virtual key gets at most half of it, and so do all callers without a key together.
    /// Default: 256MiB, or what `max_body` needs if that is more.
    pub(super) max_request_memory: Option<Size>,
    /// Largest request head. Default: 64KiB.
    pub(super) max_header: Option<Size>,
    /// Time for a request's head, and then for its body, to arrive. Default: 30s.
    pub(super) read_timeout: Option<Span>,
    /// Time for a client to read a response, or each part of a streamed one. Default: 30s.
    pub(super) write_timeout: Option<Span>,
    /// Time that a connection may stay open without a request. Default: 60s.
    pub(super) idle_timeout: Option<Span>,
    /// Time for requests in flight to end after the gateway receives a signal to stop. Default:
    /// 30s.
    pub(super) drain_timeout: Option<Span>,
    /// Connections at the same time. Beyond it, the connections that are idle for longest are
    /// closed. Default: 1024.
    pub(super) max_connections: Option<u64>,
    /// Connections of one address at the same time, or of one /64 network of IPv6. Default: a
    /// quarter of `max_connections`.
    pub(super) max_connections_per_peer: Option<u64>,
    /// Responses of `POST /v1/responses` that are stored.
    #[serde(default)]
    pub(super) responses: Responses,
}

/// Responses that are stored, so that clients can continue and read them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Responses {
    /// True if responses are stored in the database `store`, except those of requests with
    /// `store: false`. They hold conversations, unencrypted. Default: true.
    pub(super) store: Option<bool>,
    /// Time after which a conversation that was not continued expires. Default: 30days.
    pub(super) expire_after: Option<Span>,
    /// Bytes of all stored responses. Beyond it, a conversation of the virtual key with the most
    /// bytes is evicted. Default: 1GiB.
    pub(super) max_bytes: Option<Size>,
    /// Bytes of the responses of one virtual key, or of all callers without a key together. Beyond
    /// it, its conversations that were not continued for longest are evicted. Default: 128MiB.
    pub(super) max_bytes_per_key: Option<Size>,
}

/// One model provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Provider {
    /// Kind of provider. Default: the kind that a known name implies, such as `openai`, `anthropic`
    /// or `groq`.
    pub(super) kind: Option<ProviderKind>,
    /// For services: URL of the API, up to and including the version, as in `/v1`; may be
    /// `env.NAME`. Default: the URL that a known name implies; required for other names.
    pub(super) base_url: Option<EnvText>,
    /// For kind `openai`: the APIs of OpenAI that the service has. A request is sent in the API in
    /// which it came if the service has that one, and is translated otherwise. Default: `["chat"]`;
    /// for the name `openai` without a URL of its own, both.
    pub(super) apis: Option<Vec<ProviderApi>>,
    /// For services: the only key, for all models; may be `env.NAME`. Short for `keys` with one
    /// element.
    pub(super) api_key: Option<EnvText>,
    /// For services: the keys. A request takes one that serves its model, at random by weight.
    pub(super) keys: Option<Vec<ProviderKey>>,
    /// For services: headers that are added to every request; values may be `env.NAME`.
    pub(super) headers: Option<BTreeMap<String, EnvText>>,
    /// For services: time limits.
    pub(super) timeouts: Option<ProviderTimeouts>,
    /// For services: repetition of requests that failed before the response began.
    pub(super) retries: Option<ProviderRetries>,
    /// For services: true to send images in the results of tools as content parts of the tool
    /// message; false for a note in the place of each. Default: true for `anthropic`, false for
    /// `openai`, because OpenAI's chat completions refuse images there.
    pub(super) images_in_tool_results: Option<bool>,
    /// For services: URL of a proxy for all requests, as in `http://proxy.example:3128`; schemes
    /// `http`, `https`, `socks5` and `socks5h`; may be `env.NAME`. Proxies that the environment
    /// names are not used.
    pub(super) proxy: Option<EnvText>,
    /// For services: PEM file of certificates that are trusted in addition to the system's.
    pub(super) ca: Option<PathBuf>,
    /// Models that are asked in this order if this provider fails before its response has begun,
    /// each as `NAME/model` with the name of a provider. At most 8.
    #[serde(default)]
    pub(super) fallbacks: Vec<String>,
    /// For services: Bifrost's form of `base_url`, `headers`, `timeouts` and `retries`.
    pub(super) network_config: Option<NetworkConfig>,
    /// For services: Bifrost's form of `proxy`.
    pub(super) proxy_config: Option<ProxyConfig>,
    /// Sizes of Bifrost's pools of workers. The gateway has no such pools and ignores them.
    #[serde(rename = "concurrency_and_buffer_size")]
    _concurrency_and_buffer_size: Option<PoolSizes>,
    /// For `scripted`: the file of turns.
    pub(super) script: Option<PathBuf>,
}

/// Kind of a model provider.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderKind {
    /// A service with OpenAI's chat completions.
    #[serde(rename = "openai")]
    OpenAi,
    /// A service with Anthropic's Messages API.
    Anthropic,
    /// A file of turns, for demonstrations and tests.
    Scripted,
}

/// API of OpenAI.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProviderApi {
    /// Chat completions: `POST /v1/chat/completions`.
    Chat,
    /// The Responses API: `POST /v1/responses`.
    Responses,
}

/// A key of a model provider.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderKey {
    /// Identifier for other programs. The gateway uses the name.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// Name in logs. Default: `key N` with its position.
    pub(super) name: Option<String>,
    /// The credential; may be `env.NAME`. May be empty for a service on the own network.
    pub(super) value: Option<EnvText>,
    /// Models that it serves, by the provider's own names; `["*"]`, an empty list or none for all.
    #[serde(default)]
    pub(super) models: Vec<String>,
    /// Its share of the requests, relative to the other keys of the model. A key of weight 0 is
    /// used only if the others have failed. Default: 1.
    pub(super) weight: Option<f64>,
    /// False to ignore the key. Its environment variable need not exist. Default: true.
    pub(super) enabled: Option<bool>,
    /// Ignored: the gateway has no batch API.
    #[serde(rename = "use_for_batch_api")]
    _use_for_batch_api: Option<bool>,
}

/// Time limits of a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderTimeouts {
    /// Time for a whole response, streamed or not. Default: 10m.
    pub(super) request: Option<Span>,
    /// Time for the first chunk of a streamed response. Default: 10m.
    pub(super) first_byte: Option<Span>,
    /// Time for the next bytes of a streamed response, comments included. Default: 3m.
    pub(super) idle: Option<Span>,
    /// Time for a connection, TLS included. Default: 10s.
    pub(super) connect: Option<Span>,
}

/// Repetition of failed requests to a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProviderRetries {
    /// Maximum number of repetitions; 0 for none. Default: 2.
    pub(super) max: Option<u64>,
    /// Backoff before the first repetition. It doubles with each one, and is shortened at random by
    /// up to half. Default: 500ms.
    pub(super) backoff_initial: Option<Span>,
    /// Longest backoff. If `Retry-After` of the provider is longer, it is waited for, up to 1m.
    /// Default: 5s.
    pub(super) backoff_max: Option<Span>,
}

/// Bifrost's settings of connections to a model provider.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct NetworkConfig {
    /// URL without the version: the gateway adds `/v1`, or what the provider has in its place. May
    /// be `env.NAME`.
    pub(super) base_url: Option<EnvText>,
    /// The same as `headers`.
    pub(super) extra_headers: Option<BTreeMap<String, EnvText>>,
    /// The same as `timeouts.request`, in seconds.
    pub(super) default_request_timeout_in_seconds: Option<u64>,
    /// The same as `timeouts.idle`, in seconds.
    pub(super) stream_idle_timeout_in_seconds: Option<u64>,
    /// The same as `retries.max`.
    pub(super) max_retries: Option<u64>,
    /// The same as `retries.backoff_initial`, in milliseconds.
    pub(super) retry_backoff_initial: Option<u64>,
    /// The same as `retries.backoff_max`, in milliseconds.
    pub(super) retry_backoff_max: Option<u64>,
}

/// Bifrost's settings of a proxy.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ProxyConfig {
    /// Kind of proxy.
    #[serde(rename = "type")]
    pub(super) kind: ProxyKind,
    /// URL of the proxy; may be `env.NAME`.
    pub(super) url: Option<EnvText>,
    /// User name at the proxy; may be `env.NAME`.
    pub(super) username: Option<EnvText>,
    /// Password at the proxy; may be `env.NAME`.
    pub(super) password: Option<EnvText>,
}

/// Kind of a proxy.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ProxyKind {
    /// No proxy.
    None,
    /// An HTTP proxy.
    Http,
    /// A SOCKS proxy.
    Socks5,
}

/// Sizes of Bifrost's pools of workers.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PoolSizes {
    /// Workers.
    #[serde(rename = "concurrency")]
    _concurrency: Option<u64>,
    /// Length of the queue.
    #[serde(rename = "buffer_size")]
    _buffer_size: Option<u64>,
}

/// Sources of tools.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Mcp {
    /// The sources: MCP servers and plugins.
    #[serde(default)]
    pub(super) client_configs: Vec<Client>,
    /// Limits and settings of tool calls.
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
    /// Kind of source.
    pub(super) connection_type: ConnectionType,
    /// For `stdio`: the process.
    pub(super) stdio_config: Option<Stdio>,
    /// For `http`: the URL of the endpoint; may be `env.NAME`.
    pub(super) connection_string: Option<EnvText>,
    /// For `http`: headers sent with every request; values may be `env.NAME`.
    pub(super) headers: Option<BTreeMap<String, EnvText>>,
    /// For `http`: authentication. With either value, the gateway sends exactly the `headers`.
    #[serde(rename = "auth_type")]
    _auth_type: Option<AuthType>,
    /// For `stdio` and `http`: time to start, initialize and list the tools. Default: 30s.
    pub(super) connect_timeout: Option<Span>,
    /// For `wasm`: the plugin.
    pub(super) wasm_config: Option<Wasm>,
    /// Tools that may be called at all, by the source's own names; `["*"]` permits all. Upper and
    /// lower case are the same. Default: none.
    #[serde(default)]
    pub(super) tools_to_execute: Vec<String>,
    /// Tools that may be called without an approval; each must be in `tools_to_execute`. Default:
    /// none.
    #[serde(default)]
    pub(super) tools_to_auto_execute: Vec<String>,
    /// True to offer the tools to scripts, through the meta-tools, and not to the model directly.
    /// Default: false.
    #[serde(default, rename = "is_code_mode_client")]
    pub(super) code_mode: bool,
    /// True if a virtual key without a row for this client may use all its tools. Default: false.
    #[serde(default)]
    pub(super) allow_on_all_virtual_keys: bool,
    /// True to ignore this client. Its environment variables need not exist. Default: false.
    #[serde(default)]
    pub(super) disabled: bool,
}

/// Kind of a source of tools.
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

/// Authentication at a server.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthType {
    /// No authentication.
    None,
    /// The `headers` authenticate the gateway.
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
    /// Its whole environment. `NAME` passes on a variable of the gateway; `NAME=value` and
    /// `NAME=env.OTHER` set one. Nothing else is inherited. A command that starts other programs,
    /// as `npx` starts `node`, needs `PATH` here.
    #[serde(default)]
    pub(super) envs: Vec<String>,
}

/// A plugin.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Wasm {
    /// The component's file.
    pub(super) component: PathBuf,
    /// The ceiling of grants and limits, whatever the plugin requests and the operator grants.
    /// Default: `untrusted`.
    #[serde(default)]
    pub(super) profile: Profile,
    /// The plugin's own configuration, checked against the schema that it embeds.
    #[serde(default)]
    pub(super) config: Map<String, Value>,
    /// Descriptions of tools, by the plugin's own names. They replace the plugin's descriptions. A
    /// component that was not written for Airlock and has no documentation needs them.
    #[serde(default)]
    pub(super) descriptions: BTreeMap<String, String>,
    /// Rights that the operator grants, of those that it requests. All others are denied.
    #[serde(default)]
    pub(super) grants: Grants,
    /// Limits of one call.
    #[serde(default)]
    pub(super) limits: LimitSet,
}

/// Rights that the operator grants to a plugin.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Grants {
    /// Hosts on the network: the name of the plugin's request, or a rule.
    #[serde(default)]
    pub(super) http: Vec<NameOr<HttpRule>>,
    /// Secrets, by the plugin's name for each.
    #[serde(default)]
    pub(super) secret: BTreeMap<String, SecretGrant>,
    /// Stores of keys and values that survive a call, by name; `{}` grants one with the default
    /// size.
    #[serde(default)]
    pub(super) kv: BTreeMap<String, KvGrant>,
    /// Directories, by name: 1 to 64 letters, digits, `_` or `-`. The plugin sees each as `/NAME`.
    #[serde(default)]
    pub(super) files: BTreeMap<String, FilesGrant>,
    /// An empty directory for each call, seen as `/tmp` and removed afterwards.
    pub(super) scratch: Option<Scratch>,
    /// Tools that it may call by its own slots: the full name `CLIENT-TOOL` for each slot of its
    /// manifest.
    #[serde(default)]
    pub(super) slot: BTreeMap<String, String>,
    /// Tools that it may call by full name, `CLIENT-TOOL`.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// True to grant the real time. Default: false; clocks start at the same moment in every call.
    #[serde(default)]
    pub(super) clocks: bool,
}

/// Hosts and paths that a plugin may send requests to.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpRule {
    /// Scheme, host and port: `https://api.example.com`, or `https://*.example.com` for all names
    /// below it. May end in a path.
    pub(super) url: String,
    /// Methods. Default: GET and HEAD.
    #[serde(default)]
    pub(super) methods: Vec<String>,
    /// Patterns of paths; `*` is any text within a segment, `**` any number of segments. Default:
    /// all paths below `url`.
    #[serde(default)]
    pub(super) paths: Vec<String>,
    /// True if the host may be in a private network. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(super) private: bool,
}

/// A secret that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SecretGrant {
    /// Source of its value: `env:NAME` or `file:PATH`.
    pub(super) from: String,
    /// Hosts and paths that it may be sent to, of those that the plugin requests. Default: all that
    /// the plugin requests.
    pub(super) audience: Option<Vec<NameOr<HttpRule>>>,
    /// Place of the secret in requests, for a plugin that embeds no manifest.
    pub(super) inject: Option<Inject>,
    /// True if the plugin may read the value itself. Needs the profile `trusted`. Default: false.
    #[serde(default)]
    pub(super) reveal: bool,
}

/// Place of a secret in requests: a header, Basic authentication, or a parameter of the query.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Inject {
    /// The header.
    pub(super) header: Option<String>,
    /// Text before the value in the header, such as `Bearer `.
    #[serde(default)]
    pub(super) prefix: String,
    /// User of Basic authentication, whose password is the secret. If it is empty, the secret is
    /// `user:password`.
    pub(super) basic: Option<String>,
    /// The parameter of the query.
    pub(super) query: Option<String>,
}

/// A store of keys and values.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KvGrant {
    /// Size that it may have. Default: the plugin's request, at most 4MiB.
    pub(super) max_bytes: Option<Size>,
}

/// An empty directory for each call.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Scratch {
    /// Bytes that it may hold. Default: the plugin's request, at most 64MiB.
    pub(super) max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 1000.
    pub(super) max_files: Option<u64>,
}

/// A directory that a plugin may use.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct FilesGrant {
    /// The directory.
    pub(super) path: PathBuf,
    /// Access that the plugin gets.
    pub(super) access: Access,
    /// Bytes that the directory may hold with all below it; beyond them the plugin may add no more.
    /// Default: the plugin's request, at most 1GiB.
    pub(super) max_bytes: Option<Size>,
    /// Files and directories in it. Default: the plugin's request, at most 10000.
    pub(super) max_files: Option<u64>,
}

/// Access to a directory.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Access {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Limits and settings of tool calls.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ToolManager {
    /// Time for one call with all its nested calls. A number without a unit is in seconds. Default:
    /// 30s.
    pub(super) tool_execution_timeout: Option<SecondsOrSpan>,
    /// Rounds of tool calls in one chat completion or Response. After the last round, the calls of
    /// the model's response are not run but returned as pending. Default: 10.
    pub(super) max_agent_depth: Option<u64>,
    /// Tool calls of one response of the model that are run. Calls beyond it are not run, and the
    /// model is told to ask for them again. Default: 128.
    pub(super) max_tool_calls_per_answer: Option<u64>,
    /// Bytes that tool calls and their results may add to the conversation of one request, all
    /// rounds together. A result that does not fit is left out, and the model is told so. Default:
    /// 8MiB.
    pub(super) max_tool_results: Option<Size>,
    /// Wall-clock time for one chat completion or Response: all responses of the model and all tool
    /// calls together. The header `x-airlock-timeout` may shorten it. Default: 30m.
    pub(super) agent_timeout: Option<Span>,
    /// Layout of the virtual files of code mode. Default: `server`.
    pub(super) code_mode_binding_level: Option<BindingLevel>,
    /// True to offer a tool to a model only if the request names it in an include header. Default:
    /// false.
    #[serde(default)]
    pub(super) disable_auto_tool_inject: bool,
    /// Calls at the same time, in one round of the model or in one script. Default: 8.
    pub(super) max_parallel_tool_calls: Option<u64>,
    /// Nested calls of a script or a plugin, at all depths together. Default: 64.
    pub(super) max_nested_calls: Option<u64>,
    /// Depth of nested calls, the first call included. Default: 4.
    pub(super) max_call_depth: Option<u64>,
}

/// Layout of the virtual files of code mode.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BindingLevel {
    /// One file for each client.
    Server,
    /// One file for each tool.
    Tool,
}

/// Credentials of callers, and the tools that each opens.
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
    /// Identifier for other programs. The gateway uses the name.
    #[serde(rename = "id")]
    _id: Option<String>,
    /// Name for people; appears in logs.
    pub(super) name: String,
    /// A note for people.
    #[serde(rename = "description")]
    _description: Option<String>,
    /// The credential: `sk-bf-` and more, together at least 20 characters; may be `env.NAME`.
    pub(super) value: EnvText,
    /// False to refuse the key. Default: true.
    pub(super) is_active: Option<bool>,
    /// Tools that it opens, by client.
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
    /// Tools, by the source's own names; `["*"]` opens all. Default: none.
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
