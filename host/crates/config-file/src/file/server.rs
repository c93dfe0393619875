//! `server`, as written.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    http_client::TlsConfig,
    ranged::{Bytes, Count, DAY, Flag, GIB, HOUR, KIB, MIB, MILLISECOND, MINUTE, SECOND, Time},
};
use crate::env_text::EnvText;
use airlock_core::units::Size;

/// The HTTP server of the gateway.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    /// IP address and port; port 0 chooses a free one. Default: `127.0.0.1:8080`.
    pub listen: Option<String>,
    /// True if every request needs a virtual key. If false, `listen` must be a loopback address.
    /// Default: true if `governance.virtual_keys` has an active key, or `mcp_server.oauth` is set, else
    /// false.
    pub require_virtual_key: Option<bool>,
    /// TLS, with HTTP/2 and HTTP/1.1. Default: plain HTTP.
    pub tls: Option<Tls>,
    /// URL at which the browsers of users reach the gateway, such as `https://airlock.example.com`: where
    /// users log in at servers with the `auth_type` `per_user_oauth`, or enter headers for those with
    /// `per_user_headers`. It begins with `https://`, unless its host is `localhost` or a loopback address.
    /// Default: that of `listen`, if it is a loopback address; required if there is such a server and
    /// `listen` is another address, or `allowed_hosts` or `allowed_origins` is not empty.
    pub external_url: Option<String>,
    /// Host names that requests may have in `Host`, on any port, besides loopback names and the
    /// address of `listen`.
    pub allowed_hosts: Vec<String>,
    /// Origins that requests may have in `Origin`, besides `Host` with its port, as browsers write
    /// them: `https://tools.example.com`. Needed for a proxy that rewrites `Host`, and for pages of
    /// other sites: those of the list may send requests and read responses (CORS), all others may
    /// not.
    pub allowed_origins: Vec<String>,
    /// Largest request body. A parsed body may take four times as much memory.
    pub max_body: Bytes<KIB, { 256 * MIB }, { 16 * MIB }>,
    /// Memory of all requests in flight: bodies, as text and parsed, and responses until they are
    /// sent. One virtual key gets at most half of it, and so do all callers without a key together.
    /// Default: 256MiB, or what `max_body` needs if that is more.
    pub max_request_memory: Option<Size>,
    /// Largest request head.
    pub max_header: Bytes<{ 8 * KIB }, MIB, { 64 * KIB }>,
    /// Time for a request's head, and then for its body, to arrive.
    pub read_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Time for a client to read a response, or each part of a streamed one.
    pub write_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Time that a connection may stay open without a request; over HTTP/1.1 at most `read_timeout`.
    pub idle_timeout: Time<MILLISECOND, HOUR, MINUTE>,
    /// Time for requests in flight to end after the gateway receives a signal to stop.
    pub drain_timeout: Time<MILLISECOND, HOUR, { 30 * SECOND }>,
    /// Connections at the same time. Beyond it, the connections that are idle for longest are
    /// closed.
    pub max_connections: Count<1, 65_536, 1_024>,
    /// Connections of one address at the same time, or of one /64 network of IPv6. Default: a
    /// quarter of `max_connections`.
    pub max_connections_per_peer: Option<Count<1, 65_536>>,
    /// Time after the start of the gateway in which requests wait for servers that were never
    /// listed, so that no tools are missing. `0s`: they never wait.
    pub startup_wait: Time<0, { 10 * MINUTE }, { 10 * SECOND }>,
    /// URL at which the other gateways of the same `store` reach this one, such as
    /// `http://10.0.0.5:8080`; may be `env.NAME`. Port 0 stands for that of `listen`. They forward requests to it that refer to what only
    /// this gateway has: sessions and tasks of MCP clients, requests that wait for answers, and kept
    /// results. Default: none, and all requests of a client must reach the same gateway.
    pub replica_url: Option<EnvText>,
    /// Certificates of the other gateways, which are always checked if `replica_url` begins with `https://`, and
    /// of this one for the others. Changed files are taken while the gateway runs.
    pub replica_tls: Option<TlsConfig>,
    /// Requests of models that are recorded in memory, with the exact bodies that providers were sent and have
    /// sent, for operators with `sees_payloads`: `GET /api/requests/{id}/debug`. Default: none.
    pub debug_requests: Option<DebugRequests>,
    /// Responses of `POST /v1/responses` that are stored.
    pub responses: Responses,
}

/// Bounds on the requests that are recorded. Beyond them, the oldest are evicted.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DebugRequests {
    /// Number of requests.
    pub max: Count<1, 10_000, 100>,
    /// Memory of all requests. One gets at most a quarter of it, and is truncated beyond that.
    pub max_bytes: Bytes<MIB, GIB, { 64 * MIB }>,
}

/// TLS of the gateway's own address. Changed files are taken while the gateway runs: new connections get
/// them. If they cannot be used, the ones before stay.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// PEM file of the gateway's certificate, and after it of those that connect it to its authority.
    pub certificate: PathBuf,
    /// PEM file of its private key, which is not encrypted.
    pub key: PathBuf,
    /// PEM file of the authorities that sign certificates of callers.
    pub client_ca: Option<PathBuf>,
    /// PEM files of lists of revoked certificates of callers, at most 8. With them, each authority between a
    /// caller and `client_ca` needs a list, and a list that has expired makes its callers be refused.
    #[serde(default)]
    pub client_crl: Vec<PathBuf>,
    /// Certificates of callers. Default: `required` if `client_ca` is set, else `none`.
    pub client_auth: Option<ClientAuth>,
}

/// Certificates of callers.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientAuth {
    /// None are asked for.
    None,
    /// A caller may show one. One that no authority of `client_ca` has signed is refused.
    Optional,
    /// A caller without one that an authority of `client_ca` has signed is refused in the handshake.
    Required,
}

/// Responses that are stored, so that clients can continue and read them.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Responses {
    /// True if responses are stored in the database `store`, except those of requests with `store:
    /// false`, and with them the calls that clients do not send back. They hold conversations,
    /// unencrypted.
    pub store: Flag<true>,
    /// Time after which a conversation that was not continued expires.
    pub expire_after: Time<MINUTE, { 3_650 * DAY }, { 30 * DAY }>,
    /// Bytes of all stored responses. Beyond it, a conversation of the virtual key with the most
    /// bytes is evicted. Calls that clients do not send back get an eighth of it besides.
    pub max_bytes: Bytes<{ 64 * KIB }, { 1_024 * GIB }, GIB>,
    /// Bytes of the responses of one virtual key, or of all callers without a key together. Beyond
    /// it, its conversations that were not continued for longest are evicted.
    pub max_bytes_per_key: Bytes<{ 64 * KIB }, { 1_024 * GIB }, { 128 * MIB }>,
    /// Treatment of OpenAI's built-in tools in a request, such as `web_search`: no policy of the
    /// gateway applies to them.
    pub builtin_tools: BuiltinTools,
    /// Types of built-in tools that are passed to providers that have the Responses API, with
    /// `builtin_tools: pass`.
    pub builtin_tools_to_pass: Vec<String>,
}

/// Treatment of built-in tools.
#[derive(Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BuiltinTools {
    /// They are left out. The response and the log name their types.
    #[default]
    Drop,
    /// The request is refused.
    Refuse,
    /// Those in `builtin_tools_to_pass` are sent to a provider that has the Responses API, where they
    /// run without a decision of the gateway. The others are left out.
    Pass,
}
