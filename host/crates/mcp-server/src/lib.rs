//! The gateway as an MCP server, independent of the transport.
//!
//! A [`Message`] is read from JSON text, a [`Service`] handles a request as an [`Exchange`], and the
//! transport sends what the exchange yields. Two eras of the protocol are served: in the *modern*
//! one (2026-07-28) every request is complete in itself; in the *legacy* one (2025-11-25 and older) a
//! client opens a [`Session`](session::Session) with `initialize`. The crate `airlock-server` has the
//! HTTP transport; [`stdio`] serves one client over a pair of queues, such as stdin and stdout.
//!
//! | module | purpose |
//! |---|---|
//! | [`meta`] | revision and capabilities of the client of a request |
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
//! | `questions` | passes on the questions of sources (elicitation, sampling, roots), in both eras |
//! | [`exchange`] | one request that is being handled, and what it sends |
//! | `running` | the running requests of one client |
//! | [`session`] | sessions of the legacy era, bounded and expiring |
//! | [`event_log`] | the events of one stream, kept for a client that lost the connection |
//! | [`watch`] | notices a change of a list |
//! | [`stdio`] | one client over a pair of queues: stdin and stdout, or HTTP+SSE |
//! | [`bridge`] | forwards messages between stdin and stdout and a running gateway |
//!
//! `rmcp` is not used here: its server loses a response whose stream was cut, lets one slow reader
//! stop all streams of a session, bounds neither sessions nor what they hold, and drops every member
//! of a result that its types do not know. The official conformance suite and real clients
//! test this implementation.

pub(crate) mod approval;
pub mod bridge;
pub(crate) mod call;
pub mod event_log;
pub mod exchange;
mod list;
pub mod meta;
pub(crate) mod offers;
mod questions;
pub mod relay;
pub(crate) mod result;
mod running;
pub mod service;
pub mod session;
pub mod stdio;
pub(crate) mod subscriptions;
mod tasks;
pub mod toolbox;
pub mod watch;

pub use self::{
    approval::{ApprovalMode, ApprovalRule},
    service::Settings,
    session::Bounds as SessionBounds,
};

#[cfg(test)]
mod tests {
    use airlock_json::Caps;
    use airlock_wire::message::{Message, Params};

    /// Returns the parameters of a request.
    pub(crate) fn params(text: &str) -> Params {
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{text}}}"#);
        match Message::read(request.into(), &Caps::memory(1 << 20)) {
            Ok(Message::Request(request)) => request.params,
            other => panic!("{other:?}"),
        }
    }
}
