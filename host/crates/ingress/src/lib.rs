//! Sockets and connections: accepts, bounds, serves and drains them.
//!
//! ```text
//! socket ─accept─▶ place of a connection ─TLS─▶ requests, each with a seat ─▶ service
//! ```
//!
//! A connection takes one of a bounded number of places, or is closed at once. Its activity is tracked: it is closed if
//! it stays in one state for too long, and can be evicted for another connection. Each request goes to the
//! [`HttpService`] of the caller, with the [`Ingress`] that it came by and its [`Seat`] beside the body. The response is
//! sent part by part, and its memory is charged until it is sent.
//!
//! | module | purpose |
//! |---|---|
//! | `listen` | serves and drains |
//! | `accept` | accepts connections over TCP and through the Unix socket |
//! | `connections` | the places: their number, the share of a peer and of a tenant, eviction |
//! | `activity` | the requests and responses of one connection |
//! | `closing` | the reasons for which the gateway closes a connection, and the time that is left then |
//! | `peer` | the remote end, for the limits of each |
//! | `ingress` | the way that a request came in, with its address and certificate |
//! | `request_body`, `response` | the bodies of requests and of responses |
//! | `next_request` | a request that hyper has read and not polled |
//! | `body_wake` | leaves out the wake-up of a connection by the end of a body |
//! | `version` | HTTP/1 or HTTP/2, by the first bytes of a connection |
//! | `tls` | the listener's certificate, and those of callers |
//! | [`socket`] | the Unix socket |
//!
//! This crate knows no API, no credential but that of the Unix socket, and no path.

mod accept;
mod activity;
mod body_wake;
mod closing;
mod connections;
mod ingress;
mod listen;
mod next_request;
mod peer;
mod request_body;
mod response;
pub mod socket;
mod tls;
mod version;

pub use self::{
    activity::{Activity, EvictionRank, ParkedRequest, Parking, RunningRequest},
    connections::{ConnectionSlot, Connections, SOCKET_CONNECTIONS, Seat, Seats, ShareInUse},
    ingress::{Ingress, PeerAddress, PeerCertificate, ShownCertificate},
    listen::{ConnectionSettings, HttpService, MIN_HEADER_BYTES, RequestHandler, serve},
    peer::Peer,
    request_body::{BodyError, RequestBody},
    response::{ChargedReply, Parts, Payload, ResponseBody, send},
    tls::{BadTls, ClientAuth, ListenerTls, TlsProblem, TlsSettings, Untimely},
};
