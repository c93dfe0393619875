//! Takes tools from MCP servers: connects to the servers, keeps them connected, and runs their
//! tools.
//!
//! A server is untrusted. Everything it sends is bounded before it is kept. A server that hangs,
//! floods, crashes or lies affects only its own calls. The bounds are in `limits`, with their
//! units. This module does not decide who may call a tool. The modules, in the direction of data
//! flow:
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | the settings of one server |
//! | `supervise` | keeps one server connected: starts, restarts, lists, stops |
//! | `control` | the operator's control of one server |
//! | `status` | the state of a server with its history, for operators |
//! | `metrics`, `logs` | the counters of a server's calls, and its stored stderr |
//! | `connection` | opens a connection: transport, handshake |
//! | `advice` | advice for the operator about a server that does not start |
//! | `handshake` | agrees on a revision of the protocol, in both eras |
//! | `link` | JSON-RPC with one server: requests, notifications, responses |
//! | `transport` | the contract between a connection and its transport |
//! | `stdio`, `http`, `sse` | the transports |
//! | `framing` | the framing of messages to a process that is tried next |
//! | `process` | runs servers that are child processes |
//! | `inbox` | screens every message of a server, with `flood`, `envelope`, `scan` and `decode` |
//! | `secrets` | the secrets of a server's settings, which are redacted in what it sends |
//! | `oauth`, `credentials` | logins at servers with OAuth, and the access token of each request |
//! | `answer` | answers the requests of a server that are for no caller |
//! | `listing`, `skipped` | reads the list of tools |
//! | [`pins`] | the definitions that the operator has accepted, and the quarantine of others |
//! | `server` | runs the tools of one server, connected or not |
//! | `tasks` | follows calls whose results a server returns later |
//! | `result` | reads the result of a tool call |
//! | `questions` | questions of a server to the caller of a running request |
//! | `relay` | relays requests for resources and prompts, and what the server reports of them |
//! | [`Runtime`] | threads for all of this |
//!
//! `rmcp` is used for logins alone: its client loses every member that its types do not know, takes a server
//! that starts slowly for one of the other era, sends a call again after a session has expired, and
//! starts a task for each notification.

mod advice;
mod answer;
mod backoff;
mod channel;
mod connection;
mod control;
mod credentials;
mod decode;
mod docker;
mod envelope;
mod error;
mod flood;
mod framing;
mod handshake;
mod http;
mod inbox;
mod limits;
mod link;
mod listing;
mod logs;
mod metrics;
mod oauth;
pub mod pins;
mod process;
mod questions;
mod relay;
mod result;
mod runtime;
mod scan;
mod secrets;
mod server;
mod settings;
mod skipped;
mod sse;
mod status;
mod stderr;
mod stdio;
mod supervise;
mod tasks;
#[cfg(test)]
mod tests;
mod transport;

pub use airlock_process::{Confinement, Limits as ProcessLimits};

pub use self::{
    control::{Control, ControlError},
    docker::{Docker, Image, Mount, Place},
    http::{
        Authorities, BadAuthorities, ExtraHeaders, HttpSettings, is_reserved as is_reserved_header,
    },
    metrics::{Distribution, Outcome, Sample},
    oauth::{
        Callback, CallbackError, LoggedIn, LoginError, Logins, LoginsUnavailable, Oauth,
        PendingLogin, TokenAuthentication,
    },
    process::is_program,
    runtime::Runtime,
    settings::{
        Bounds, Framing, Lifecycle, Pinning, Process, Protocol, Restart, Settings, Timeouts, Transport,
    },
    status::{Phase, Transition},
    supervise::supervise,
};
