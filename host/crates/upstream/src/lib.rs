//! Takes tools from MCP servers: connects to the servers, keeps them connected, and runs their
//! tools.
//!
//! A server is untrusted. Everything it sends is bounded before it is kept. A server that hangs,
//! floods, crashes or lies affects only its own calls. The bounds are in `limits`, with their
//! units. This crate does not decide who may call a tool; the door does. The modules, in the
//! direction of data flow:
//!
//! | module | purpose |
//! |---|---|
//! | `supervise` | keeps one server connected: starts, restarts, lists, stops |
//! | `control` | the operations of an operator on one server |
//! | `status` | the state of a server with its history, for operators |
//! | `metrics` | the counters of a server's calls |
//! | `framing` | the framing that the next attempt to connect to a process uses |
//! | [`pins`] | the definitions that the operator has accepted, and the quarantine of others |
//! | `provider` | the server as a provider: calls of its tools, and relayed requests |
//! | `server` | one server, connected or not, and the calls of its tools |
//! | `users` | servers that act for single users: their logins and connections |
//! | `tasks` | follows calls whose results a server returns later |
//! | `result` | reads the result of a tool call |
//! | `questions` | questions of a server to the caller of a running request |
//! | `relay` | relays requests for resources and prompts, and what the server reports of them |
//! | `subscriptions` | subscriptions to changes of resources, which outlive connections |
//! | `log_messages` | log messages of a server for the callers of its tools |
//! | [`Runtime`] | threads for all of this |
//! | `limits` | bounds on the resources of all servers |
//!
//! The crate `airlock-mcp-client` implements the protocol and the transports.

mod control;
mod framing;
mod limits;
mod log_messages;
mod metrics;
pub mod pins;
#[cfg(test)]
#[path = "../../mcp-client/src/link/tests/pipe.rs"]
mod pipe;
mod provider;
mod questions;
mod relay;
mod result;
mod runtime;
mod server;
mod status;
mod subscriptions;
mod supervise;
mod tasks;
#[cfg(test)]
mod tests;
mod users;

pub use self::{
    control::{Control, ControlError},
    metrics::{UpstreamMetrics, encode_family},
    runtime::Runtime,
    supervise::supervise,
    users::Accounts,
};
