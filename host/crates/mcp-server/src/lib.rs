//! The gateway as an MCP server, independent of the transport.
//!
//! A [`Message`](airlock_wire::message::Message) is read from JSON text, a [`McpService`] handles a
//! request as an [`Exchange`], and the transport sends what the exchange yields. Two eras of the
//! protocol are served: in the *modern* one (2026-07-28) every request is complete in itself; in the
//! *legacy* one (2025-11-25 and older) a client opens a [`Session`] with `initialize`. The crate
//! `airlock-server` has the HTTP transport; `stdio` serves one client over a pair of queues, such as
//! stdin and stdout.
//!
//! | module | purpose |
//! |---|---|
//! | `settings` | the settings, with the handling of approvals and the bounds on sessions |
//! | `meta` | revision and capabilities of the client of a request |
//! | `toolbox` | the tools that one MCP client sees, with their list as text; cached |
//! | `service` | what all requests share, and the results that the gateway has at once |
//! | `dispatch` | dispatches requests by their method |
//! | `call` | `tools/call`, from the request to its result |
//! | `offers` | the resources and prompts that one MCP client sees, with their names and URIs |
//! | `relay`, `resources` | `resources/read`, `prompts/get`, `completion/complete` |
//! | `listen`, `subscriptions` | `subscriptions/listen`; subscriptions to changes of resources |
//! | `list` | lists as text, in pages |
//! | `result` | the result of `tools/call`, for the client's revision |
//! | `suspended` | instructions for a person about a run that has stopped for a decision |
//! | `approval` | asks the client's user for an approval, in both eras |
//! | `tasks`, `task_requests` | calls that clients follow as tasks, in both eras |
//! | `questions`, `answers` | passes on the questions of sources (elicitation, sampling, roots), in both eras |
//! | `owner` | the gateway that has what a request refers to |
//! | `exchange` | one request that is being handled, and what it sends |
//! | `running` | the running requests of one client |
//! | `session` | sessions of the legacy era, bounded and expiring |
//! | `event_log` | the events of one stream, kept for a client that lost the connection |
//! | `trace` | the span of a request |
//! | `metrics` | the times of requests and sessions |
//! | `watch` | notices a change of a list |
//! | `stdio` | one client over a pair of queues: stdin and stdout, or HTTP+SSE |
//!
//! `rmcp` is not used here: its server loses a response whose stream was cut, lets one slow reader
//! stop all streams of a session, bounds neither sessions nor what they hold, and drops every member
//! of a result that its types do not know. The official conformance suite and real clients
//! test this implementation.

mod answers;
mod approval;
mod call;
mod dispatch;
mod event_log;
mod exchange;
mod list;
mod listen;
mod meta;
mod metrics;
mod offers;
mod owner;
mod questions;
mod relay;
mod resources;
mod result;
mod running;
mod service;
mod session;
mod settings;
mod stdio;
mod subscriptions;
mod suspended;
mod task_requests;
mod tasks;
mod toolbox;
mod trace;
mod watch;

pub use self::{
    event_log::EventReader,
    exchange::{Answer, Exchange, Outgoing},
    meta::{Peer, client_name, initialized_name},
    metrics::ServerTimes,
    owner::owner,
    relay::is_relayed,
    service::{
        EMPTY_RESULT, ListedPage, McpService, Requester, STOPPING, list_changed,
        requested_log_level, resource_updated,
    },
    session::{Listening, Session, SessionResponse, Sessions, StreamSlot, no_memory},
    settings::{ApprovalMode, ApprovalRule, SessionBounds, Settings},
    stdio::{ConnectionRequests, ConnectionSettings, Input, serve_connection},
    toolbox::{Selection, Toolbox, ToolboxScope},
    watch::ListWatch,
};

#[cfg(test)]
mod tests {
    use futures_util::future::BoxFuture;

    use airlock_core::{
        door::{Admitted, Provider},
        tool::{CallError, ClientName, ToolOutput},
    };
    use airlock_json::Caps;
    use airlock_wire::message::{Message, Params};

    /// A source whose tools are not called.
    pub(crate) struct Unused;
    impl Provider for Unused {
        fn call(&self, _: Admitted) -> BoxFuture<'_, Result<ToolOutput, CallError>> {
            Box::pin(async { Err(CallError::cancelled()) })
        }
    }

    pub(crate) fn client(name: &str) -> ClientName {
        ClientName::parse(name).expect("a good name")
    }

    /// Returns the parameters of a request.
    pub(crate) fn params(text: &str) -> Params {
        let request = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"m","params":{text}}}"#);
        match Message::read(request.into(), &Caps::memory(1 << 20)) {
            Ok(Message::Request(request)) => request.params,
            other => panic!("{other:?}"),
        }
    }
}
