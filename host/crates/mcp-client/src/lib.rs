//! The gateway as a client of one MCP server: opens a connection, negotiates the revision of the
//! protocol, sends requests, and receives those of the server.
//!
//! A server is untrusted. Everything it sends is bounded before it is kept; the bounds are in
//! [`limits`], with their units. This crate knows one connection. Keeping servers connected, and
//! their tools, are the concern of `airlock-upstream`. The modules, in the direction of data flow:
//!
//! | module | purpose |
//! |---|---|
//! | [`settings`] | the settings of one server |
//! | [`connection`] | opens a connection: transport, handshake |
//! | [`connector`] | the contract between the settings of a server and its transport |
//! | [`handshake`], [`agreed`] | negotiates the revision of the protocol, in both eras |
//! | [`link`] | JSON-RPC with one server: requests, notifications, responses |
//! | [`transport`] | the contract between a connection and its transport |
//! | `stdio`, `http`, `sse` | the transports |
//! | `process`, `docker` | servers that are child processes, and servers in containers |
//! | [`inbox`] | screens every message of a server, with `flood` and `decode` |
//! | [`secrets`] | the secrets of a server's settings, which are redacted in what it sends |
//! | [`oauth`], [`credentials`] | logins at servers with OAuth, and the access token of each request |
//! | [`answer`] | responds to the requests of a server that no caller has to answer |
//! | [`questions`] | reads the questions of a server (elicitation, sampling, roots), bounded |
//! | [`listing`], [`skipped`] | reads the list of tools |
//! | [`logs`] | the stored stderr of a server |
//!
//! `rmcp` is used only for logins: its client loses every member that its types do not know, mistakes
//! a server that starts slowly for one of the other era, sends a call again after a session has
//! expired, and starts a task for each notification.

pub mod agreed;
pub mod answer;
pub mod backoff;
mod channel;
pub mod connection;
pub mod connector;
pub mod credentials;
pub mod decode;
mod docker;
pub mod error;
mod flood;
pub mod handshake;
pub mod http;
pub mod inbox;
pub mod limits;
pub mod link;
pub mod listing;
pub mod logs;
pub mod oauth;
mod process;
pub mod questions;
pub mod secrets;
pub mod settings;
pub mod skipped;
mod sse;
mod stderr;
pub mod stdio;
pub mod transport;

// A test of this crate is read by the tests of `airlock-upstream` too.
#[cfg(test)]
extern crate self as airlock_mcp_client;

pub use airlock_process::{Confinement, Limits as ProcessLimits};

pub use self::{
    docker::{Docker, Image, Mount, Place},
    http::{
        Authorities, BadAuthorities, ExtraHeaders, HttpSettings, StreamableHttp,
        is_reserved as is_reserved_header,
    },
    oauth::{
        Callback, CallbackError, LoggedIn, LoginError, Logins, LoginsUnavailable, Oauth,
        PendingLogin, TokenAuthentication,
    },
    process::Process,
    settings::{Bounds, Framing, Lifecycle, Pinning, Protocol, Restart, Settings, Timeouts},
    sse::HttpSse,
};
