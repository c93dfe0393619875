//! Settings of the listener.

use std::{net::SocketAddr, time::Duration};

use http::Uri;
use url::Url;

use super::debug::DebugSettings;
use airlock_http::{body::BodySettings, memory};
use airlock_ingress::{ConnectionSettings, MIN_HEADER_BYTES, TlsSettings};
use airlock_operator_api::{ManagementSettings, OperatorSettings};
use airlock_replicas::ReplicaTls;
use airlock_responses::BuiltinTools;
use airlock_store::responses::ResponseBounds;

/// Settings of the listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and port; port 0 selects a free port.
    pub listen: SocketAddr,
    /// True if every request needs a virtual key. If false, `listen` must be a loopback address.
    pub require_virtual_key: bool,
    /// TLS of the listener; `None` for plain HTTP.
    pub tls: Option<TlsSettings>,
    /// URL at which the browsers of users reach the gateway; `None` for that of `listen`.
    pub external_url: Option<Url>,
    /// Host names that requests may carry in `Host`, on any port, in addition to loopback names and
    /// the address of `listen`. `Host` is checked if `listen` is a loopback address or if this list
    /// is not empty.
    pub allowed_hosts: Vec<String>,
    /// Origins that requests may carry in `Origin`, in addition to `Host` with its port. Written as
    /// browsers write them: `https://tools.example.com`, with a port unless it is the default port
    /// of the scheme. Pages of these origins may read responses (CORS).
    pub allowed_origins: Vec<String>,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Memory of all requests in flight: their bodies, as text and parsed, the bytes that models
    /// and tools add to them, and their responses until they are sent. One virtual key, or all
    /// requests without a key together, get at most half of it.
    pub max_request_memory_bytes: usize,
    /// Largest request head.
    pub max_header_bytes: usize,
    /// Time for the head of a request to arrive, and again for its body.
    pub read_timeout: Duration,
    /// Time for a client to read a response.
    pub write_timeout: Duration,
    /// Time that a connection may stay open without a request; over HTTP/1.1 at most `read_timeout`.
    pub idle_timeout: Duration,
    /// Time for requests in flight to end after shutdown starts.
    pub drain_timeout: Duration,
    /// Time after the start of the gateway in which requests wait for sources of tools that were never
    /// listed.
    pub startup_wait: Duration,
    /// Maximum number of open connections. Beyond it, the connections that are idle for longest are
    /// evicted; if none is idle, those whose responses are unread for longest.
    pub max_connections: usize,
    /// Maximum number of open connections of one peer: one address, or one /64 network of IPv6. A
    /// quarter more may be evicted but not closed yet.
    pub max_connections_per_peer: usize,
    /// Bounds on stored responses; `None` if responses are not stored.
    pub responses: Option<ResponseBounds>,
    /// Treatment of OpenAI's built-in tools in requests of the Responses API, and of Anthropic's in those
    /// of the Messages API.
    pub builtin_tools: BuiltinTools,
    /// URL at which the other gateways of the store reach this one: `http` or `https`, a host and a
    /// port, without a path. Port 0 stands for that of `listen`. They forward requests to it that refer to what only this one has. `None` if
    /// they do not.
    pub replica_url: Option<Uri>,
    /// Certificates of the gateways for each other, if `replica_url` is https.
    pub replica_tls: ReplicaTls,
    /// Requests of models that are recorded for operators; `None` if none are.
    pub debug_requests: Option<DebugSettings>,
    /// The gateway as an MCP server.
    pub mcp: airlock_mcp_server::Settings,
    /// The management API.
    pub management: ManagementSettings,
}

/// Reason that settings are rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSettings {
    /// The gateway would be open to the network without virtual keys.
    #[error(
        "listening on {listen} would let anyone on the network use every tool; set require_virtual_key, or listen on 127.0.0.1"
    )]
    Open {
        /// The configured address.
        listen: SocketAddr,
    },
    /// The head limit is below the minimum of hyper.
    #[error("max_header_bytes must be at least {MIN_HEADER_BYTES}, found {found}")]
    HeaderBytes {
        /// The configured value.
        found: usize,
    },
    /// A connection limit is zero.
    #[error("max_connections and max_connections_per_peer must be at least 1")]
    Connections,
    /// The memory budget cannot hold a body of the largest size.
    #[error(
        "max_request_memory_bytes must be at least {least} for bodies of {max_body_bytes} bytes, found {found}"
    )]
    RequestMemory {
        /// The configured value.
        found: usize,
        /// Largest body size, in bytes.
        max_body_bytes: usize,
        /// Smallest valid value.
        least: usize,
    },
}

impl Settings {
    /// Fails if the settings are unsafe or cannot work.
    pub fn check(&self) -> Result<(), BadSettings> {
        if !self.listen.ip().is_loopback() && !self.require_virtual_key {
            return Err(BadSettings::Open { listen: self.listen });
        }
        if self.max_header_bytes < MIN_HEADER_BYTES {
            return Err(BadSettings::HeaderBytes { found: self.max_header_bytes });
        }
        if self.max_connections == 0 || self.max_connections_per_peer == 0 {
            return Err(BadSettings::Connections);
        }
        let found = self.max_request_memory_bytes;
        let least = self.least_request_memory();
        if found < least {
            return Err(BadSettings::RequestMemory {
                found,
                max_body_bytes: self.max_body_bytes,
                least,
            });
        }
        Ok(())
    }

    /// Returns the bounds on connections.
    pub(super) fn connections(&self) -> ConnectionSettings {
        let Self { max_connections, max_connections_per_peer, max_header_bytes, .. } = *self;
        let Self { read_timeout, write_timeout, idle_timeout, drain_timeout, .. } = *self;
        ConnectionSettings {
            max_connections,
            max_connections_per_peer,
            max_header_bytes,
            read_timeout,
            write_timeout,
            idle_timeout,
            drain_timeout,
        }
    }

    /// Returns the bounds on the bodies of requests.
    pub(super) fn bodies(&self) -> BodySettings {
        let Self { max_body_bytes, read_timeout, .. } = *self;
        BodySettings { max_body_bytes, read_timeout }
    }

    /// Returns the settings of the requests of operators.
    pub(super) fn operators(&self) -> OperatorSettings {
        let ManagementSettings { hides_page, reports, .. } = &self.management;
        OperatorSettings {
            bodies: self.bodies(),
            requires_key: self.require_virtual_key,
            hides_page: *hides_page,
            reports: reports.clone(),
        }
    }

    /// Returns the scheme of the gateway's own URLs.
    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// Returns the smallest `max_request_memory_bytes` in which one caller's body of the largest
    /// size fits.
    pub fn least_request_memory(&self) -> usize {
        memory::least_for_body(self.max_body_bytes, self.max_header_bytes)
    }
}
