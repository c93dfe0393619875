//! The gateway as an MCP server, independent of the transport.
//!
//! A [`Message`] is read from JSON text, a [`Service`] handles a request as an [`Exchange`], and the
//! transport sends what the exchange yields. Two eras of the protocol are served: in the *modern*
//! one (2026-07-28) every request is complete in itself; in the *legacy* one (2025-11-25 and older) a
//! client opens a [`Session`](session::Session) with `initialize`. HTTP is in
//! [`server`](crate::server); one client over a pair of queues, such as standard input and output, is in [`stdio`].
//!
//! | module | purpose |
//! |---|---|
//! | [`message`] | JSON-RPC messages, read from hostile text |
//! | [`version`] | revisions of the protocol, and the two eras |
//! | [`meta`] | revision and capabilities of the client of a request |
//! | [`error`] | JSON-RPC errors |
//! | [`toolbox`] | the tools that one MCP client sees, with their list as text; cached |
//! | [`service`] | dispatches requests by their method |
//! | [`call`] | `tools/call`: approval, the door, progress, the result |
//! | [`offers`] | the resources and prompts that one MCP client sees, with their names and URIs |
//! | [`relay`] | `resources/read`, `prompts/get`, `completion/complete` |
//! | [`subscriptions`] | subscriptions to changes of resources |
//! | `list` | lists as text, in pages |
//! | [`result`] | the result of `tools/call`, for the client's revision |
//! | [`approval`] | asks the client's user for an approval, in both eras |
//! | `tasks` | calls that clients follow as tasks, in both eras |
//! | `questions` | passes on the questions of sources, in both eras |
//! | [`exchange`] | one request that is being handled, and what it sends |
//! | [`session`] | sessions of the legacy era, bounded and expiring |
//! | [`event_log`] | the events of one stream, kept for a client that lost the connection |
//! | [`watch`] | notices a change of a list |
//! | [`stdio`] | one client over a pair of queues: standard input and output, or HTTP+SSE |
//! | [`bridge`] | forwards messages between standard input and output and a running gateway |
//! | [`lines`] | messages as lines of standard input and output |
//! | [`headers`] | headers of streamable HTTP |
//!
//! `rmcp` is not used here: its server loses a response whose stream was cut, lets one slow reader
//! stop all streams of a session, bounds neither sessions nor what they hold, and drops every member
//! of a result that its types do not know. The official conformance suite and real clients
//! test this implementation.

pub(crate) mod approval;
pub(crate) mod bridge;
pub(crate) mod call;
pub(crate) mod error;
pub(crate) mod event_log;
pub(crate) mod exchange;
pub(crate) mod headers;
pub(crate) mod lines;
mod list;
pub(crate) mod message;
pub(crate) mod meta;
pub(crate) mod offers;
mod questions;
pub(crate) mod relay;
pub(crate) mod result;
mod running;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod stdio;
pub(crate) mod subscriptions;
mod tasks;
pub(crate) mod toolbox;
pub(crate) mod version;
pub(crate) mod watch;

pub use self::{
    approval::{ApprovalMode, ApprovalRule},
    service::Settings,
    session::Bounds as SessionBounds,
};
