//! hyper: sockets, limits, drain, routes.

use std::{net::SocketAddr, time::Duration};

/// How the gateway listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Address and port; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Whether every request needs a virtual key. Without it, only loopback addresses can be listened on.
    pub require_virtual_key: bool,
    /// Host names, besides loopback ones and `listen` itself, that requests may carry in `Host` and `Origin`.
    pub allowed_hosts: Vec<String>,
    /// Largest request body.
    pub max_body_bytes: usize,
    /// Largest request head.
    pub max_header_bytes: usize,
    /// Time for a request's head and then for its body to arrive.
    pub read_timeout: Duration,
    /// Time for requests in flight to end after the gateway was told to stop.
    pub drain_timeout: Duration,
    /// Connections at the same time.
    pub max_connections: usize,
}
