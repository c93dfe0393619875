//! `mcp.client_configs`, as written.

mod values;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Deserialize;

pub use self::values::{
    Allowed, AuthType, ConnectionType, Framing, Lifecycle, Pin, Protocol, Trust,
};
use super::{
    http_client::{OAuthConfig, TlsConfig, TokenExchangeConfig},
    limits::{CallRateLimit, Dollars},
    plugin::Wasm,
    process::{Docker, Stdio},
    ranged::{
        Bytes, Count, DAY, Flag, HOUR, KIB, MIB, MILLISECOND, MINUTE, Ranged, SECOND, Time,
        TimeOrZero,
    },
    tool_manager::BindingLevel,
};
use crate::env_text::EnvText;
use airlock_core::units::SecondsOrSpan;

/// One source of tools: an MCP server, or a plugin that runs in the gateway's sandbox.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[allow(clippy::struct_excessive_bools, reason = "each is a key of the file")]
pub struct Client {
    /// An identifier of the operator's own; nothing depends on it.
    #[serde(rename = "client_id")]
    _client_id: Option<String>,
    /// Its name, the prefix of its tools: a letter or `_`, then letters, digits or `_`, at most 32
    /// characters.
    pub name: String,
    /// Kind of source.
    pub connection_type: ConnectionType,
    /// For `stdio`: the process.
    pub stdio_config: Option<Stdio>,
    /// For `docker`: the container and the process in it.
    pub docker_config: Option<Docker>,
    /// For `http` and `sse`: the URL of the endpoint; may be `env.NAME`.
    pub connection_string: Option<EnvText>,
    /// For `http` and `sse`, instead of `connection_string`: the URLs of several servers that have the same
    /// tools, at most 16; each may be `env.NAME`. Each call goes to the one with the least calls among those
    /// that are connected and have the accepted tools.
    pub connection_strings: Option<Vec<EnvText>>,
    /// For `http` and `sse`: headers sent with every request; values may be `env.NAME`.
    pub headers: Option<BTreeMap<String, EnvText>>,
    /// For `http` and `sse`: headers of a caller's request that are passed on with its calls; they
    /// replace `headers` of the same name. `["*"]` passes on all but credentials, cookies, and
    /// those that concern the connection or control the gateway.
    #[serde(default)]
    pub allowed_extra_headers: Vec<String>,
    /// For `http` and `sse`: certificates of the server.
    pub tls_config: Option<TlsConfig>,
    /// For `http` and `sse`: true to permit a server whose name has a private address. It is not
    /// needed for `localhost`, and for a URL that has a private address as its host.
    #[serde(default)]
    pub allow_private: bool,
    /// For `http` and `sse`: authentication.
    #[serde(default)]
    pub auth_type: AuthType,
    /// For the `auth_type` `oauth` and `per_user_oauth`: the client at the authorization server. What is
    /// absent is discovered, so it may be left out.
    pub oauth_config: Option<OAuthConfig>,
    /// For the `auth_type` `per_user_headers`: names of the headers whose values each user enters, at most 8.
    #[serde(default)]
    pub per_user_header_keys: Vec<String>,
    /// For the `auth_type` `token_exchange`: the authorization server that exchanges the tokens.
    pub token_exchange: Option<TokenExchangeConfig>,
    /// For MCP servers: time to start, to complete the handshake and to list the tools. A package
    /// runner such as `npx` may have to download the server first. `connect_timeout` and
    /// `startupTimeout` are the same. Default: 2m for `stdio` and `docker`, else 30s.
    #[serde(alias = "connect_timeout", alias = "startupTimeout")]
    pub startup_timeout: Option<Time<MILLISECOND, HOUR>>,
    /// For MCP servers: time for one call, if that is less than the call has. A number without a
    /// unit is in seconds. `requestTimeout` and `tool_execution_timeout` are the same. Default: the
    /// time of the call.
    #[serde(alias = "requestTimeout", alias = "tool_execution_timeout")]
    pub request_timeout: Option<Ranged<SecondsOrSpan, MILLISECOND, HOUR>>,
    /// For MCP servers: interval between checks of an idle server; `0s` for no checks.
    /// `heartbeatInterval` is the same.
    #[serde(alias = "heartbeatInterval")]
    pub heartbeat_interval: Option<TimeOrZero<SECOND, DAY, { 30 * SECOND }>>,
    /// For MCP servers: false for no checks, which is the same as a `heartbeat_interval` of `0s`.
    /// `isPingAvailable` is the same.
    #[serde(alias = "isPingAvailable")]
    pub is_ping_available: Option<Flag<true>>,
    /// For MCP servers: time without a single byte from the server after which it is restarted,
    /// even during a call; `0s` for no limit. It must be longer than `heartbeat_interval`.
    /// `staleTimeout` is the same.
    #[serde(alias = "staleTimeout")]
    pub stale_timeout: Option<TimeOrZero<SECOND, DAY, 0>>,
    /// For MCP servers: restarts after failures.
    pub restart: Option<Restart>,
    /// For MCP servers: life cycle of the connection.
    #[schemars(extend("default" = Lifecycle::default()))]
    pub lifecycle: Option<Lifecycle>,
    /// For the life cycle `idle`: time without calls after which the server is stopped.
    /// `idleTimeout` is the same.
    #[serde(alias = "idleTimeout")]
    pub idle_timeout: Option<Time<SECOND, DAY, { 5 * MINUTE }>>,
    /// For MCP servers: calls that run at the same time. One tenant gets at most three quarters of
    /// them. `maxConcurrentCalls` is the same.
    #[serde(alias = "maxConcurrentCalls")]
    pub max_concurrent_calls: Option<Count<1, 1_024, 32>>,
    /// For MCP servers: calls that wait for others to end. Further calls fail as busy.
    /// `maxWaitingCalls` is the same.
    #[serde(alias = "maxWaitingCalls")]
    pub max_waiting_calls: Option<Count<0, 4_096, 128>>,
    /// For MCP servers: interval at which the list of tools is read again, besides the reports of
    /// the server; `0s` for no interval. `toolSyncInterval` is the same.
    #[serde(alias = "toolSyncInterval")]
    pub tool_sync_interval: Option<TimeOrZero<{ 10 * SECOND }, DAY, 0>>,
    /// For MCP servers: prefix of the names of its tools, `<prefix>-<tool>`, with the characters of
    /// `name`. It is not the name or prefix of another client. With `""`, a tool has its name at
    /// the server, as long as no other tool may have it. Default: `name`.
    pub prefix: Option<String>,
    /// For MCP servers: trust in the texts of the server.
    #[schemars(extend("default" = Trust::default()))]
    pub trust: Option<Trust>,
    /// For `stdio` and `http`: definitions of its tools that are used.
    #[schemars(extend("default" = Pin::default()))]
    pub pin: Option<Pin>,
    /// For `wasm`: the plugin.
    pub wasm_config: Option<Wasm>,
    /// Tools that may be called at all, by the source's own names; `["*"]` permits all. Upper and
    /// lower case are the same, unless the source has tools whose names differ only in case.
    #[serde(default)]
    pub tools_to_execute: Vec<String>,
    /// Tools that may not be called, whatever `tools_to_execute` and virtual keys permit; `["*"]`
    /// takes away all. Upper and lower case are always the same.
    #[serde(default)]
    pub tools_to_exclude: Vec<String>,
    /// Tools that may be called without an approval; each must be in `tools_to_execute`.
    #[serde(default)]
    pub tools_to_auto_execute: Vec<String>,
    /// Tools whose calls two operators approve, each of them; `["*"]` for all. None may be in
    /// `tools_to_auto_execute` by its name.
    #[serde(default)]
    pub tools_to_approve_twice: Vec<String>,
    /// Results of tools that change nothing, which are kept and returned to equal calls. No tool is in two
    /// of the entries.
    #[serde(default)]
    pub tool_cache: Vec<ToolCache>,
    /// Tools of other clients that take a call while this client is away: full names, `<client>-<tool>`, by
    /// the source's own names. Each must be in `tools_to_auto_execute` of its client.
    #[serde(default)]
    pub tool_fallbacks: BTreeMap<String, String>,
    /// Limits on the calls of its tools, for all callers together.
    pub rate_limit: Option<CallRateLimit>,
    /// Limits on the calls of single tools, for all callers together, by the source's own names.
    #[serde(default)]
    pub tool_limits: BTreeMap<String, CallRateLimit>,
    /// Price of one call in US dollars, which counts for budgets, by the source's own names of the tools; `*` for
    /// those that are not named.
    #[serde(default)]
    pub tool_pricing: BTreeMap<String, Dollars>,
    /// Resources that MCP clients may read, by URI. An entry that ends with `*` permits every URI
    /// that begins with the rest; `["*"]` permits all. Upper and lower case differ.
    #[serde(default)]
    pub resources_to_read: Vec<String>,
    /// Prompts that MCP clients may get, by the source's own names; `["*"]` permits all.
    #[serde(default)]
    pub prompts_to_get: Vec<String>,
    /// True to pass the server's instructions for models on to MCP clients.
    #[serde(default)]
    pub relay_instructions: bool,
    /// For MCP servers: questions that the server may ask the callers of its tools, resources and
    /// prompts. A caller is asked only what it can answer.
    #[serde(default)]
    pub allow: BTreeSet<Allowed>,
    /// For `stdio` and `docker`: framing of messages to the server. Its own are read in either one.
    #[schemars(extend("default" = Framing::default()))]
    pub framing: Option<Framing>,
    /// For MCP servers: era of the protocol that is spoken with the server.
    #[schemars(extend("default" = Protocol::default()))]
    pub protocol: Option<Protocol>,
    /// True to offer the tools to scripts, through the meta-tools, and not to the model directly.
    #[serde(default, rename = "is_code_mode_client")]
    pub code_mode: bool,
    /// For clients in code mode: layout of the virtual files of its tools. Default:
    /// `code_mode_binding_level` of `tool_manager_config`.
    pub code_mode_binding_level: Option<BindingLevel>,
    /// True if a virtual key without a row for this client may use all its tools.
    #[serde(default)]
    pub allow_on_all_virtual_keys: bool,
    /// Names of the virtual keys that the client belongs to. Only requests with one of them see it at
    /// all, and such a key needs no row for it. It replaces `allow_on_all_virtual_keys`. Default: it
    /// belongs to no key.
    pub virtual_keys: Option<Vec<String>>,
    /// Names or identifiers of the teams that the client belongs to: it belongs to their virtual keys,
    /// beside those of `virtual_keys`. Default: it belongs to no team.
    pub teams: Option<Vec<String>>,
    /// True to leave this client unconnected. Its environment variables need not exist. An MCP
    /// server is listed to operators as disabled.
    #[serde(default)]
    pub disabled: bool,
}

/// Results of some tools that are kept.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolCache {
    /// The tools, by the source's own names; `["*"]` for all with `readOnlyHint: true`. Each must be in
    /// `tools_to_auto_execute`.
    pub tools: Vec<String>,
    /// Time for which a result is returned to equal calls.
    pub ttl: Time<SECOND, { 30 * DAY }>,
    /// Memory for the results. The one that was used least recently is dropped first.
    #[serde(default)]
    pub max_bytes: Bytes<{ 64 * KIB }, { 256 * MIB }, { 16 * MIB }>,
    /// True to return a result to calls with other virtual keys too: the results must not depend on the
    /// caller.
    #[serde(default)]
    pub shared: bool,
}

/// A key, and whether it is given.
type GivenKey = (&'static str, bool);

impl Client {
    /// Returns the given keys that belong to another connection type and would be ignored, each with
    /// that type. A key that is missing here does not compile.
    #[expect(clippy::too_many_lines, reason = "a list of all keys")]
    pub fn keys_of_other_types(&self) -> Vec<(&'static str, &'static str)> {
        let Self {
            // Keys of every client.
            _client_id: _,
            name: _,
            connection_type,
            tools_to_execute: _,
            tools_to_exclude: _,
            tools_to_auto_execute: _,
            tools_to_approve_twice: _,
            tool_cache: _,
            tool_fallbacks: _,
            rate_limit: _,
            tool_limits: _,
            tool_pricing: _,
            code_mode: _,
            code_mode_binding_level: _,
            allow_on_all_virtual_keys: _,
            virtual_keys: _,
            teams: _,
            disabled: _,
            // Keys of some.
            stdio_config,
            docker_config,
            connection_string,
            connection_strings,
            headers,
            allowed_extra_headers,
            tls_config,
            allow_private,
            auth_type,
            oauth_config,
            per_user_header_keys,
            token_exchange,
            startup_timeout,
            request_timeout,
            heartbeat_interval,
            is_ping_available,
            stale_timeout,
            restart,
            lifecycle,
            idle_timeout,
            max_concurrent_calls,
            max_waiting_calls,
            tool_sync_interval,
            prefix,
            trust,
            pin,
            wasm_config,
            resources_to_read,
            prompts_to_get,
            relay_instructions,
            allow,
            framing,
            protocol,
        } = self;
        let is_plugin = connection_type.is_plugin();
        let is_stdio = *connection_type == ConnectionType::Stdio;
        let is_docker = *connection_type == ConnectionType::Docker;
        let is_http = matches!(connection_type, ConnectionType::Http | ConnectionType::Sse);
        let of_servers = [
            ("startup_timeout", startup_timeout.is_some()),
            ("request_timeout", request_timeout.is_some()),
            ("heartbeat_interval", heartbeat_interval.is_some()),
            ("is_ping_available", is_ping_available.is_some()),
            ("stale_timeout", stale_timeout.is_some()),
            ("lifecycle", lifecycle.is_some()),
            ("idle_timeout", idle_timeout.is_some()),
            ("max_concurrent_calls", max_concurrent_calls.is_some()),
            ("max_waiting_calls", max_waiting_calls.is_some()),
            ("tool_sync_interval", tool_sync_interval.is_some()),
            ("prefix", prefix.is_some()),
            ("trust", trust.is_some()),
            ("pin", pin.is_some()),
            ("resources_to_read", !resources_to_read.is_empty()),
            ("prompts_to_get", !prompts_to_get.is_empty()),
            ("relay_instructions", *relay_instructions),
            ("allow", !allow.is_empty()),
            ("restart", restart.is_some()),
            ("protocol", protocol.is_some()),
        ];
        let of_http = [
            ("connection_string", connection_string.is_some()),
            ("connection_strings", connection_strings.is_some()),
            ("allowed_extra_headers", !allowed_extra_headers.is_empty()),
            ("tls_config", tls_config.is_some()),
            ("auth_type", !matches!(auth_type, AuthType::None | AuthType::Headers)),
            ("oauth_config", oauth_config.is_some()),
            ("per_user_header_keys", !per_user_header_keys.is_empty()),
            ("token_exchange", token_exchange.is_some()),
            ("allow_private", *allow_private),
            ("headers", headers.as_ref().is_some_and(|headers| !headers.is_empty())),
        ];
        let groups: [(bool, &'static str, &[GivenKey]); 6] = [
            (!is_plugin, "that of an MCP server", &of_servers),
            (is_stdio, "\"stdio\"", &[("stdio_config", stdio_config.is_some())]),
            (is_docker, "\"docker\"", &[("docker_config", docker_config.is_some())]),
            (is_http, "\"http\" or \"sse\"", &of_http),
            (is_stdio || is_docker, "\"stdio\" or \"docker\"", &[("framing", framing.is_some())]),
            (is_plugin, "\"wasm\"", &[("wasm_config", wasm_config.is_some())]),
        ];
        let others = groups.into_iter().filter(|(belongs, _, _)| !belongs);
        let keys = others.flat_map(|(_, owner, keys)| {
            keys.iter().filter(|(_, is_given)| *is_given).map(move |(key, _)| (*key, owner))
        });
        keys.collect()
    }
}

/// Restarts of an MCP server after failures.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Restart {
    /// Starts in a row that may fail; after the last one, only the operator starts the server
    /// again. 0 for no limit. `maxAttempts` is the same.
    #[serde(alias = "maxAttempts")]
    pub max_attempts: u32,
    /// Delay before the second start. Each further one waits twice as long, with jitter.
    pub backoff: Time<MILLISECOND, DAY, SECOND>,
    /// Longest delay. `maxBackoff` is the same.
    #[serde(alias = "maxBackoff")]
    pub max_backoff: Option<Time<MILLISECOND, DAY, MINUTE>>,
    /// Time after which a connection counts as stable, which resets the attempts. `stableAfter` is
    /// the same.
    #[serde(alias = "stableAfter")]
    pub stable_after: Time<MILLISECOND, DAY, MINUTE>,
}
