//! The gateway as a client of one MCP server: opens a connection, negotiates the revision of the
//! protocol, sends requests, and receives those of the server.
//!
//! A server is untrusted. Everything it sends is bounded before it is kept; the bounds are in
//! `limits`, with their units. This crate knows one connection; `airlock-upstream` keeps servers connected and knows
//! their tools. The modules, in the direction of data flow:
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | the settings of one server |
//! | `connection` | opens a connection: transport, handshake |
//! | `connector`, `http_server` | the contract between the settings of a server and its transport; servers over HTTP |
//! | `handshake`, `agreed` | negotiates the revision of the protocol, in both eras |
//! | `link` | JSON-RPC with one server: requests, notifications, responses |
//! | `transport` | the contract between a connection and its transport |
//! | `channel` | a stream of bytes to a server, and the process or container behind it |
//! | `stdio`, `http`, `sse` | the transports |
//! | `process`, `docker` | servers that are child processes, and servers in containers |
//! | `embedded` | servers that an embedding program reaches in its own way |
//! | `inbox` | screens every message of a server, with `flood` and `decode` |
//! | `variables` | the secrets among the variables of a process, which are redacted in what the server sends |
//! | `credentials` | the credentials of a server's connections, of `airlock-mcp-oauth` |
//! | `answer` | responds to the requests of a server that no caller has to answer |
//! | `questions` | reads the questions of a server (elicitation, sampling, roots), bounded |
//! | `pages`, `listing`, `skipped` | reads lists in pages; the list of tools |
//! | `logs`, `stderr` | the stored stderr of a server; that of one process |
//! | `backoff`, `limits` | waits between attempts; bounds on what a server may use |
//! | `error` | reasons that a server is not connected |
//!
//! `rmcp` is not used: its client loses every member that its types do not know, mistakes
//! a server that starts slowly for one of the other era, sends a call again after a session has
//! expired, and starts a task for each notification.

mod agreed;
mod answer;
mod backoff;
mod channel;
mod connection;
mod connector;
mod credentials;
mod decode;
mod docker;
mod embedded;
mod error;
mod flood;
mod handshake;
mod http;
mod http_server;
mod inbox;
mod limits;
mod link;
mod listing;
mod logs;
mod pages;
mod process;
mod questions;
mod settings;
mod skipped;
mod sse;
mod stderr;
mod stdio;
mod transport;
mod variables;

// A test of this crate is read by the tests of `airlock-upstream` too.
#[cfg(test)]
extern crate self as airlock_mcp_client;

pub use airlock_process::{Confinement, Network, NetworkIsolation, ProcessLimits, ProcessUsage};

pub use self::{
    agreed::{Agreed, Capability},
    answer::answer_requests,
    backoff::Backoff,
    connection::{Attempt, Connection, Intake, check_connection},
    connector::{Connector, OpenError, UnusableFile},
    credentials::{Credentials, UserGrant, login_server},
    decode::read_response,
    docker::{Docker, Image, Mount, Place},
    embedded::{ConnectFailure, EmbeddedServer, ServerStream, ServerTransport},
    error::{ConnectionError, ConnectionFailure},
    handshake::{Handshake, HandshakeError, Identity, complete_handshake},
    http::mirror::mirrored_headers,
    http_server::{HttpServer, HttpTransport},
    inbox::{
        Inbox, LogMessages, Noise, OpenQuestion, Party, ServerEvent, ServerQuestion, Taker,
        Unsolicited,
    },
    limits::{
        DEFAULT_RUNNING, DEFAULT_WAITING, FLOOD_TOLERANCE, LAST_RETRY, LIST_TIMEOUT,
        MAX_MESSAGE_BYTES, MAX_PAGES, MAX_PARKED, MAX_QUESTIONS, MAX_REQUESTS_IN_FLIGHT,
        MAX_TREE_BYTES,
    },
    link::{
        AbandonedRequests, AskError, HeldPermits, Link, LinkObserver, Receiver, Request,
        RequestReport,
    },
    listing::{ToolList, read_tools},
    logs::StderrLogs,
    pages::{ListPage, PagesUnread, ReadPages, read_pages},
    process::{Process, process_usage, resident_memory},
    questions::{
        Refused, RequiredInput, ResumedRequest, TASK, question_response, read_required_input,
    },
    settings::{
        Bounds, Framing, Lifecycle, Pinning, Protocol, Renewal, Restart, Settings, Timeouts,
    },
    skipped::SkippedTools,
    stdio::Stdio,
    transport::SendError,
    variables::INHERITED_VARIABLES,
};
