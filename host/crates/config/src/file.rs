//! The configuration file as written. These types are the one place of each key's description, range
//! and default: the published schema, the checks and the settings come from them. A default that
//! depends on other keys is in [`resolve`](super::resolve).

mod forms;
mod http_client;
mod plugin;
mod process;
mod provider;
mod ranged;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub(super) use self::{
    forms::{Entries, NameOr},
    http_client::{OAuthConfig, TlsConfig},
    plugin::{Access, FilesGrant, HttpRule, Inject, KvGrant, SecretGrant, Wasm},
    process::{Confine, Docker, DockerMount, ProcessLimits, Stdio},
    provider::{
        NetworkConfig, Provider, ProviderApi, ProviderKey, ProviderKind, ProviderRetries,
        ProviderTimeouts, ProxyConfig, ProxyKind,
    },
    ranged::{
        Amount, Bytes, Count, DAY, Flag, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, RANGE, Ranged,
        SECOND, Time, TimeOrZero,
    },
};
use super::values::EnvText;
use airlock_agent::MAX_CALLS_READ;
use airlock_core::units::{SecondsOrSpan, Size};

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
    /// The gateway as an MCP server: `/mcp`, and `airlock mcp`.
    #[serde(default)]
    pub(super) mcp_server: McpServer,
    /// Database of the state that survives a restart: plugins' stores, responses, and the first
    /// definitions of MCP servers. Default: `airlock.db` beside this file.
    pub(super) store: Option<PathBuf>,
    /// Credentials of callers, and the tools that each opens.
    #[serde(default)]
    pub(super) governance: Governance,
}

/// The HTTP server of the gateway.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Server {
    /// IP address and port; port 0 chooses a free one. Default: `127.0.0.1:8080`.
    pub(super) listen: Option<String>,
    /// True if every request needs a virtual key. If false, `listen` must be a loopback address.
    /// Default: true if `governance.virtual_keys` has an active key, else false.
    pub(super) require_virtual_key: Option<bool>,
    /// Host names that requests may have in `Host`, on any port, besides loopback names and the
    /// address of `listen`.
    pub(super) allowed_hosts: Vec<String>,
    /// Origins that requests may have in `Origin`, besides `Host` with its port, as browsers write
    /// them: `https://tools.example.com`. Needed for a proxy that rewrites `Host`, and for pages of
    /// other sites: those of the list may send requests and read responses (CORS), all others may
    /// not.
    pub(super) allowed_origins: Vec<String>,
    /// Largest request body. A parsed body may take four times as much memory.
    pub(super) max_body: Bytes<KIB, { 256 * MIB }, { 16 * MIB }>,
    /// Memory of all requests in flight: bodies, as text and parsed, and responses until they are
    /// sent. One virtual key gets at most half of it, and so do all callers without a key together.
    /// Default: 256MiB, or what `max_body` needs if that is more.
    pub(super) max_request_memory: Option<Size>,
    /// Largest request head.
    pub(super) max_header: Bytes<{ 8 * KIB }, MIB, { 64 * KIB }>,
    /// Time for a request's head, and then for its body, to arrive.
    pub(super) read_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Time for a client to read a response, or each part of a streamed one.
    pub(super) write_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Time that a connection may stay open without a request.
    pub(super) idle_timeout: Time<MILLISECOND, HOUR, MINUTE>,
    /// Time for requests in flight to end after the gateway receives a signal to stop.
    pub(super) drain_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Connections at the same time. Beyond it, the connections that are idle for longest are
    /// closed.
    pub(super) max_connections: Count<1, 65_536, 1_024>,
    /// Connections of one address at the same time, or of one /64 network of IPv6. Default: a
    /// quarter of `max_connections`.
    pub(super) max_connections_per_peer: Option<Count<1, 65_536>>,
    /// Time after the start of the gateway in which requests wait for servers that were never
    /// listed, so that no tools are missing. `0s`: they never wait.
    pub(super) startup_wait: Time<0, { 10 * MINUTE }, { 10 * SECOND }>,
    /// Responses of `POST /v1/responses` that are stored.
    pub(super) responses: Responses,
}

/// Responses that are stored, so that clients can continue and read them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Responses {
    /// True if responses are stored in the database `store`, except those of requests with `store:
    /// false`, and with them the calls that clients do not send back. They hold conversations,
    /// unencrypted.
    pub(super) store: Flag<true>,
    /// Time after which a conversation that was not continued expires.
    pub(super) expire_after: Time<MINUTE, { 3_650 * DAY }, { 30 * DAY }>,
    /// Bytes of all stored responses. Beyond it, a conversation of the virtual key with the most
    /// bytes is evicted. Calls that clients do not send back get an eighth of it besides.
    pub(super) max_bytes: Bytes<{ 64 * KIB }, { 1_024 * GIB }, GIB>,
    /// Bytes of the responses of one virtual key, or of all callers without a key together. Beyond
    /// it, its conversations that were not continued for longest are evicted.
    pub(super) max_bytes_per_key: Bytes<{ 64 * KIB }, { 1_024 * GIB }, { 128 * MIB }>,
    /// Treatment of OpenAI's built-in tools in a request, such as `web_search`: no policy of the
    /// gateway applies to them.
    pub(super) builtin_tools: BuiltinTools,
    /// Types of built-in tools that are passed to providers that have the Responses API, with
    /// `builtin_tools: pass`.
    pub(super) builtin_tools_to_pass: Vec<String>,
}

/// Treatment of built-in tools.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BuiltinTools {
    /// They are left out. The response and the log name their types.
    #[default]
    Drop,
    /// The request is refused.
    Refuse,
    /// Those in `builtin_tools_to_pass` are sent to a provider that has the Responses API, where they
    /// run without a decision of the gateway. The others are left out.
    Pass,
}

/// A number of sessions or streams. A session takes some kilobytes.
pub(super) type Sessions = Count<1, { 1 << 20 }>;

/// The gateway as an MCP server: `/mcp`, and `airlock mcp`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct McpServer {
    /// How calls of tools that are not in `tools_to_auto_execute` are approved.
    pub(super) approval: Approval,
    /// Exceptions from `approval` for some clients. The first one that applies counts.
    pub(super) approval_rules: Vec<ApprovalRule>,
    /// Time for a client's user to answer a question.
    pub(super) approval_timeout: Time<SECOND, DAY, { 5 * MINUTE }>,
    /// Time for which a call whose client cannot ask its user waits for an approval by command line
    /// or API before it fails. Clients often wait for 60 s.
    pub(super) approval_wait: Time<0, DAY, { 45 * SECOND }>,
    /// Sessions at the same time. Beyond it, an idle one of the virtual key with the most sessions
    /// is closed.
    pub(super) max_sessions: Count<1, { 1 << 20 }, 4_096>,
    /// Sessions of one virtual key, or of all callers without a key together. Beyond it, its
    /// session that has been idle for longest is closed. Default: a quarter of `max_sessions`.
    pub(super) max_sessions_per_key: Option<Sessions>,
    /// Streams that wait for notifications at the same time. Each takes a connection. Default: half
    /// of `server.max_connections`.
    pub(super) max_streams: Option<Sessions>,
    /// Such streams of one virtual key, or of all callers without a key together. Default: half of
    /// `max_streams`.
    pub(super) max_streams_per_key: Option<Sessions>,
    /// Time after which a session without requests and streams expires.
    pub(super) session_timeout: Time<SECOND, { 30 * DAY }, { 30 * MINUTE }>,
    /// True to serve `/sse` too, for clients that speak nothing newer than the deprecated transport
    /// HTTP+SSE of 2024-11-05.
    pub(super) sse: bool,
    /// Access tokens of an identity provider. With it, every request to `/mcp` needs a token or a
    /// virtual key.
    pub(super) oauth: Option<OAuth>,
}

/// Access tokens of an identity provider: the gateway is an OAuth 2.1 resource server.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OAuth {
    /// Identifier of the authorization server, as tokens have it in `iss`: an https URL.
    pub(super) issuer: String,
    /// Identifier of this gateway: the URL at which clients reach it, such as
    /// `https://airlock.example.com/mcp`. Tokens must have it in `aud`, unless `audiences` is set.
    pub(super) resource: String,
    /// Name of this gateway for people. Default: `Airlock`.
    pub(super) resource_name: Option<String>,
    /// Values of `aud` that mean this gateway, for an issuer that ignores the resource that a
    /// client asks for. Default: `resource`.
    #[serde(default)]
    pub(super) audiences: Vec<String>,
    /// URL of the issuer's keys. Default: that of the issuer's metadata.
    pub(super) jwks_uri: Option<String>,
    /// Scopes that a token needs, all of them.
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    /// Difference between the clocks of issuer and gateway that is tolerated.
    #[serde(default)]
    pub(super) clock_skew: Time<0, { 5 * MINUTE }, MINUTE>,
    /// The table of views. The first row that matches decides; a token without one is refused.
    pub(super) views: Vec<View>,
}

/// A row of the table of views.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct View {
    /// Name of a claim, or the path to a nested one, such as `realm_access.roles`.
    pub(super) claim: String,
    /// Value of the claim: its text, one of its texts if it is a list, or one word of `scope`.
    pub(super) value: String,
    /// Name of the virtual key whose tools the sender sees. Each sender is a tenant of its own.
    pub(super) virtual_key: String,
}

/// Approval of the calls of some MCP clients: of those that fulfil all conditions of the rule.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApprovalRule {
    /// Name of the virtual key that the client sends.
    pub(super) virtual_key: Option<String>,
    /// Name that the client gives itself (`clientInfo.name`), such as `claude-code`. It
    /// authenticates nothing: any client can give itself this name.
    pub(super) client_name: Option<String>,
    /// Approval of its calls.
    pub(super) approval: Approval,
}

/// How a call of an MCP client that needs an approval is handled.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Approval {
    /// It is refused.
    Never,
    /// The client's user is asked, if the client can ask with a form (`elicitation`); else the call
    /// waits in the list of pending approvals (`airlock approvals`, `/v1/approvals`).
    #[default]
    Elicit,
    /// It runs, because the client asks its user itself. Each such call is logged.
    Client,
    /// It runs.
    AlwaysAllow,
}

/// Sources of tools.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mcp {
    /// The sources: MCP servers and plugins.
    pub(super) client_configs: Vec<Client>,
    /// Limits and settings of tool calls.
    pub(super) tool_manager_config: ToolManager,
}

/// One source of tools: an MCP server, or a plugin that runs in the gateway's sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the file")]
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
    /// For `docker`: the container and the process in it.
    pub(super) docker_config: Option<Docker>,
    /// For `http` and `sse`: the URL of the endpoint; may be `env.NAME`.
    pub(super) connection_string: Option<EnvText>,
    /// For `http` and `sse`: headers sent with every request; values may be `env.NAME`.
    pub(super) headers: Option<BTreeMap<String, EnvText>>,
    /// For `http` and `sse`: headers of a caller's request that are passed on with its calls; they
    /// replace `headers` of the same name. `["*"]` passes on all but credentials, cookies, and
    /// those that concern the connection or control the gateway.
    #[serde(default)]
    pub(super) allowed_extra_headers: Vec<String>,
    /// For `http` and `sse`: certificates of the server.
    pub(super) tls_config: Option<TlsConfig>,
    /// For `http` and `sse`: true to permit a server whose name has a private address. It is not
    /// needed for `localhost`, and for a URL that has a private address as its host.
    #[serde(default)]
    pub(super) allow_private: bool,
    /// For `http` and `sse`: authentication.
    #[serde(default)]
    pub(super) auth_type: AuthType,
    /// For the `auth_type` `oauth`: the client at the authorization server. What is absent is
    /// discovered, so it may be left out.
    pub(super) oauth_config: Option<OAuthConfig>,
    /// For MCP servers: time to start, to complete the handshake and to list the tools. A package
    /// runner such as `npx` may have to download the server first. `connect_timeout` and
    /// `startupTimeout` are the same. Default: 2m for `stdio` and `docker`, else 30s.
    #[serde(alias = "connect_timeout", alias = "startupTimeout")]
    pub(super) startup_timeout: Option<Time<MILLISECOND, HOUR>>,
    /// For MCP servers: time for one call, if that is less than the call has. A number without a
    /// unit is in seconds. `requestTimeout` and `tool_execution_timeout` are the same. Default: the
    /// time of the call.
    #[serde(alias = "requestTimeout", alias = "tool_execution_timeout")]
    pub(super) request_timeout: Option<Ranged<SecondsOrSpan, MILLISECOND, HOUR>>,
    /// For MCP servers: interval between checks of an idle server; `0s` for no checks.
    /// `heartbeatInterval` is the same.
    #[serde(alias = "heartbeatInterval")]
    pub(super) heartbeat_interval: Option<TimeOrZero<SECOND, DAY, { 30 * SECOND }>>,
    /// For MCP servers: false for no checks, which is the same as a `heartbeat_interval` of `0s`.
    /// `isPingAvailable` is the same.
    #[serde(alias = "isPingAvailable")]
    pub(super) is_ping_available: Option<Flag<true>>,
    /// For MCP servers: time without a single byte from the server after which it is restarted,
    /// even during a call; `0s` for no limit. It must be longer than `heartbeat_interval`.
    /// `staleTimeout` is the same.
    #[serde(alias = "staleTimeout")]
    pub(super) stale_timeout: Option<TimeOrZero<SECOND, DAY, 0>>,
    /// For MCP servers: restarts after failures.
    pub(super) restart: Option<Restart>,
    /// For MCP servers: life cycle of the connection.
    #[schemars(extend("default" = Lifecycle::default()))]
    pub(super) lifecycle: Option<Lifecycle>,
    /// For the life cycle `idle`: time without calls after which the server is stopped.
    /// `idleTimeout` is the same.
    #[serde(alias = "idleTimeout")]
    pub(super) idle_timeout: Option<Time<SECOND, DAY, { 5 * MINUTE }>>,
    /// For MCP servers: calls that run at the same time. One tenant gets at most three quarters of
    /// them. `maxConcurrentCalls` is the same.
    #[serde(alias = "maxConcurrentCalls")]
    pub(super) max_concurrent_calls: Option<Count<1, 1_024, 32>>,
    /// For MCP servers: calls that wait for others to end. Further calls fail as busy.
    /// `maxWaitingCalls` is the same.
    #[serde(alias = "maxWaitingCalls")]
    pub(super) max_waiting_calls: Option<Count<0, 4_096, 128>>,
    /// For MCP servers: interval at which the list of tools is read again, besides the reports of
    /// the server; `0s` for no interval. `toolSyncInterval` is the same.
    #[serde(alias = "toolSyncInterval")]
    pub(super) tool_sync_interval: Option<TimeOrZero<{ 10 * SECOND }, DAY, 0>>,
    /// For MCP servers: prefix of the names of its tools, `<prefix>-<tool>`, with the characters of
    /// `name`. It is not the name or prefix of another client. With `""`, a tool has its name at
    /// the server, as long as no other tool may have it. Default: `name`.
    pub(super) prefix: Option<String>,
    /// For MCP servers: trust in the texts of the server.
    #[schemars(extend("default" = Trust::default()))]
    pub(super) trust: Option<Trust>,
    /// For `stdio` and `http`: definitions of its tools that are used.
    #[schemars(extend("default" = Pin::default()))]
    pub(super) pin: Option<Pin>,
    /// For `wasm`: the plugin.
    pub(super) wasm_config: Option<Wasm>,
    /// Tools that may be called at all, by the source's own names; `["*"]` permits all. Upper and
    /// lower case are the same, unless the source has tools whose names differ only in case.
    #[serde(default)]
    pub(super) tools_to_execute: Vec<String>,
    /// Tools that may be called without an approval; each must be in `tools_to_execute`.
    #[serde(default)]
    pub(super) tools_to_auto_execute: Vec<String>,
    /// Resources that MCP clients may read, by URI. An entry that ends with `*` permits every URI
    /// that begins with the rest; `["*"]` permits all. Upper and lower case differ.
    #[serde(default)]
    pub(super) resources_to_read: Vec<String>,
    /// Prompts that MCP clients may get, by the source's own names; `["*"]` permits all.
    #[serde(default)]
    pub(super) prompts_to_get: Vec<String>,
    /// True to pass the server's instructions for models on to MCP clients.
    #[serde(default)]
    pub(super) relay_instructions: bool,
    /// For MCP servers: questions that the server may ask the callers of its tools, resources and
    /// prompts. A caller is asked only what it can answer.
    #[serde(default)]
    pub(super) allow: BTreeSet<Allowed>,
    /// For `stdio` and `docker`: framing of messages to the server. Its own are read in either one.
    #[schemars(extend("default" = Framing::default()))]
    pub(super) framing: Option<Framing>,
    /// For MCP servers: era of the protocol that is spoken with the server.
    #[schemars(extend("default" = Protocol::default()))]
    pub(super) protocol: Option<Protocol>,
    /// True to offer the tools to scripts, through the meta-tools, and not to the model directly.
    #[serde(default, rename = "is_code_mode_client")]
    pub(super) code_mode: bool,
    /// For clients in code mode: layout of the virtual files of its tools. Default:
    /// `code_mode_binding_level` of `tool_manager_config`.
    pub(super) code_mode_binding_level: Option<BindingLevel>,
    /// True if a virtual key without a row for this client may use all its tools.
    #[serde(default)]
    pub(super) allow_on_all_virtual_keys: bool,
    /// True to leave this client unconnected. Its environment variables need not exist. An MCP
    /// server is listed to operators as disabled.
    #[serde(default)]
    pub(super) disabled: bool,
}

/// Restarts of an MCP server after failures.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Restart {
    /// Starts in a row that may fail; after the last one, only the operator starts the server
    /// again. 0 for no limit. `maxAttempts` is the same.
    #[serde(alias = "maxAttempts")]
    pub(super) max_attempts: u32,
    /// Delay before the second start. Each further one waits twice as long, with jitter.
    pub(super) backoff: Time<MILLISECOND, DAY, SECOND>,
    /// Longest delay. `maxBackoff` is the same.
    #[serde(alias = "maxBackoff")]
    pub(super) max_backoff: Option<Time<MILLISECOND, DAY, MINUTE>>,
    /// Time after which a connection counts as stable, which resets the attempts. `stableAfter` is
    /// the same.
    #[serde(alias = "stableAfter")]
    pub(super) stable_after: Time<MILLISECOND, DAY, MINUTE>,
}

/// Framing of messages to an MCP server that is a process.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Framing {
    /// `lines`, and `content_length` after two starts on which the server wrote nothing within
    /// `startup_timeout`.
    #[default]
    Auto,
    /// One message for each line, as MCP demands.
    Lines,
    /// A header `Content-Length` before each message.
    ContentLength,
}

/// Era of the protocol that is spoken with an MCP server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Protocol {
    /// The one that the server speaks. Of a server of both, the legacy one if `allow` permits
    /// questions, because many such servers can ask in it alone; else the modern one.
    #[default]
    Auto,
    /// The legacy one, with `initialize`: revisions up to 2025-11-25.
    Legacy,
    /// The modern one, with `server/discover`: revision 2026-07-28.
    Modern,
}

/// Life cycle of the connection to an MCP server.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Lifecycle {
    /// Connected for as long as the gateway runs.
    #[default]
    Persistent,
    /// Stopped after `idle_timeout` without calls, and started by the next call.
    Idle,
    /// A connection of its own for each call, which ends with the call.
    PerCall,
}

/// Definitions of an MCP server's tools that are used.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Pin {
    /// Those that the server sends. Nothing is pinned.
    Off,
    /// Those of the first list, and those accepted with `airlock upstream accept`. A changed tool
    /// keeps its old definition. A tool that is added later needs an approval for every call until
    /// it is accepted.
    #[default]
    TrustOnFirstUse,
    /// Those accepted with `airlock upstream accept`. All others are withheld.
    Strict,
}

/// Kind of a source of tools.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ConnectionType {
    /// A child process that speaks MCP on stdin and stdout.
    Stdio,
    /// A process in a container that speaks MCP on stdin and stdout.
    Docker,
    /// An MCP server with the streamable HTTP transport.
    Http,
    /// An MCP server with the transport HTTP+SSE of 2024-11-05.
    Sse,
    /// A plugin.
    Wasm,
    /// The same as `wasm`.
    Inprocess,
}

impl ConnectionType {
    /// Returns whether the source is a plugin, and not an MCP server.
    pub(super) fn is_plugin(self) -> bool {
        matches!(self, Self::Wasm | Self::Inprocess)
    }

    /// Returns its name if the source is an MCP server.
    pub(super) fn of_server(self) -> Option<&'static str> {
        match self {
            Self::Stdio => Some("stdio"),
            Self::Docker => Some("docker"),
            Self::Http => Some("http"),
            Self::Sse => Some("sse"),
            Self::Wasm | Self::Inprocess => None,
        }
    }
}

/// A question of an MCP server to the caller of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Allowed {
    /// A form or a URL for the caller's user.
    Elicitation,
    /// A message that the caller's model writes.
    Sampling,
    /// The list of the caller's roots.
    Roots,
}

/// Trust in the texts of an MCP server.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Trust {
    /// Models see its descriptions and results marked as external.
    #[default]
    Untrusted,
    /// Models see its descriptions and results as they are.
    Trusted,
}

/// Authentication at a server.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AuthType {
    /// No authentication. The gateway sends exactly the `headers`.
    None,
    /// The `headers` authenticate the gateway.
    #[default]
    Headers,
    /// OAuth 2.1: the operator logs in with `airlock upstream login`, and the gateway sends the
    /// access token in addition to the `headers`.
    Oauth,
}

/// Limits and settings of tool calls.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ToolManager {
    /// Time for one call with all its nested calls. A number without a unit is in seconds.
    pub(super) tool_execution_timeout:
        Ranged<SecondsOrSpan, MILLISECOND, HOUR, { 30 * SECOND }, true>,
    /// Rounds of tool calls in one chat completion or Response. After the last round, the calls of
    /// the model's response are not run but returned as pending. 0 means the default.
    pub(super) max_agent_depth: Ranged<u64, 1, 100, 10, true>,
    /// Tool calls of one response of the model that are run. Calls beyond it are not run, and the
    /// model is told to ask for them again.
    pub(super) max_tool_calls_per_answer: Count<1, { MAX_CALLS_READ as u64 }, 128>,
    /// Bytes that tool calls and their results may add to the conversation of one request, all
    /// rounds together. A result that does not fit is left out, and the model is told so.
    pub(super) max_tool_results: Bytes<{ 64 * KIB }, { 64 * MIB }, { 8 * MIB }>,
    /// Text of one MCP server's result in a conversation. The model receives a preview of a longer
    /// one and reads the rest in pages, with the tool `readContent`.
    pub(super) max_inline_result: Bytes<{ 4 * KIB }, MIB, { 32 * KIB }>,
    /// Time for which such a longer result can be read.
    pub(super) kept_result_expire_after: Time<SECOND, DAY, { 15 * MINUTE }>,
    /// Memory for all such longer results, and as much again for calls that clients do not send
    /// back and that may not be stored. One virtual key gets at most half of it.
    pub(super) max_kept_results: Bytes<{ 8 * MIB }, { 4 * GIB }, { 64 * MIB }>,
    /// Wall-clock time for one chat completion or Response: all responses of the model and all tool
    /// calls together. The header `x-airlock-timeout` may shorten it.
    pub(super) agent_timeout: Time<MILLISECOND, DAY, { 30 * MINUTE }>,
    /// Layout of the virtual files of code mode.
    pub(super) code_mode_binding_level: BindingLevel,
    /// Time for one script with all its calls.
    pub(super) code_mode_timeout: Time<MILLISECOND, HOUR, { 5 * MINUTE }>,
    /// CPU time of one script. The time in which it waits for tools does not count.
    pub(super) code_mode_cpu_time: Time<MILLISECOND, DAY, { 30 * SECOND }>,
    /// False to keep no journal of the runs of scripts: a script that calls a tool that needs an
    /// approval then ends there and cannot be resumed.
    pub(super) code_mode_journal: Flag<true>,
    /// Time from the last change of a run until it is removed.
    pub(super) code_mode_run_expire_after: Time<SECOND, { 366 * DAY }, { 7 * DAY }>,
    /// Most runs that are kept for one virtual key.
    pub(super) code_mode_max_runs: Count<1, 100_000, 200>,
    /// Most bytes of runs that are kept for one virtual key; all keys together may have 16 times as
    /// much.
    pub(super) code_mode_max_run_bytes: Bytes<MIB, { 64 * GIB }, { 64 * MIB }>,
    /// Time after which another process may resume the run of a process that has ended.
    pub(super) code_mode_run_lease: Time<{ 100 * MILLISECOND }, { 10 * MINUTE }, { 10 * SECOND }>,
    /// Time for which the approval of a call in a script is valid.
    pub(super) code_mode_approval_expire_after: Time<SECOND, { 7 * DAY }, HOUR>,
    /// True if a caller that executes a script at `/v1/mcp/tool/execute` approves every call of the
    /// script, and not only those that it was shown.
    pub(super) code_mode_approve_whole_scripts: bool,
    /// True to let Python scripts see the time at which their run began. It is stored with the run,
    /// so that a run that is resumed sees the same time.
    pub(super) code_mode_clock: bool,
    /// Number of tools for scripts above which a request also has the meta-tool `searchTools`.
    pub(super) code_mode_search_threshold: Count<0, 100_000, 60>,
    /// Language of scripts in code mode. The header `x-airlock-code-mode-language` selects another
    /// one for a request.
    pub(super) code_mode_language: ScriptLanguage,
    /// True to offer a tool to a model only if the request names it in an include header.
    pub(super) disable_auto_tool_inject: bool,
    /// Whether a chat completion has the results of calls that ran as text, if other calls of the
    /// same answer are returned. Other results are kept, and put back into the request that answers
    /// those calls.
    pub(super) results_as_text: ResultsAsText,
    /// Treatment of a model's calls of tools that are not in `tools_to_auto_execute`, unless the
    /// header `x-airlock-approval` or the virtual key sets another.
    pub(super) approval: ApprovalChoice,
    /// Longest time that one such call waits with `approval: wait`.
    pub(super) approval_wait: Time<SECOND, DAY, { 10 * MINUTE }>,
    /// Calls at the same time, in one round of the model or in one script.
    pub(super) max_parallel_tool_calls: Count<1, 64, 8>,
    /// Nested calls of a script or a plugin, at all depths together.
    pub(super) max_nested_calls: Count<0, 10_000, 64>,
    /// Depth of nested calls, the first call included.
    pub(super) max_call_depth: Count<1, 16, 4>,
}

/// When a chat completion has results of calls as text, if other calls of the same answer are returned.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ResultsAsText {
    /// If all returned calls are of the gateway's tools, and the request does not ask for JSON. Also
    /// if the results cannot be kept, because the identifiers of the returned calls are not unique.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never, even if the results cannot be kept.
    Never,
}

/// Treatment of a model's calls that need an approval.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ApprovalChoice {
    /// They are returned to the caller, which can approve them.
    #[default]
    Return,
    /// Tools that need an approval are not offered to the model.
    Omit,
    /// The request stays open until a person decides by command line or API, or `approval_wait` has
    /// passed.
    Wait,
}

/// Layout of the virtual files of code mode.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BindingLevel {
    /// One file for each client.
    #[default]
    Server,
    /// One file for each tool.
    Tool,
}

/// Language of scripts in code mode.
#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ScriptLanguage {
    /// A small Python without exceptions and classes.
    #[default]
    Starlark,
    /// A subset of Python, with exceptions and `await`.
    Python,
}

/// Credentials of callers, and the tools that each opens.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Governance {
    /// Credentials of callers.
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
    /// False to refuse the key.
    #[serde(default)]
    pub(super) is_active: Flag<true>,
    /// Treatment of a model's calls that need an approval. Default: that of `tool_manager_config`.
    pub(super) approval: Option<ApprovalChoice>,
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
    /// Tools, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub(super) tools_to_execute: Vec<String>,
    /// Resources, by URI, as in the client's `resources_to_read`.
    #[serde(default)]
    pub(super) resources_to_read: Vec<String>,
    /// Prompts, by the source's own names; `["*"]` opens all.
    #[serde(default)]
    pub(super) prompts_to_get: Vec<String>,
}
