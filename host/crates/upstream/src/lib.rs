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
//! | `supervise` | keeps one server connected: starts, restarts, lists, stops |
//! | `control` | the operator's control of one server |
//! | `status` | the state of a server with its history, for operators |
//! | `metrics`, `logs` | the counters of a server's calls, and its stored stderr |
//! | `stdio`, `http`, `sse` | the transports |
//! | `framing` | the framing of messages to a process that is tried next |
//! | [`pins`] | the definitions that the operator has accepted, and the quarantine of others |
//! | `provider` | the server as a provider: calls of its tools, and relayed requests |
//! | `server` | one server, connected or not, and the calls of its tools |
//! | `tasks` | follows calls whose results a server returns later |
//! | `result` | reads the result of a tool call |
//! | `questions` | questions of a server to the caller of a running request |
//! | `relay` | relays requests for resources and prompts, and what the server reports of them |
//! | `subscriptions` | subscriptions to changes of resources, which outlive connections |
//! | `log_messages` | log messages of a server for the callers of its tools |
//! | [`Runtime`] | threads for all of this |
//!
//! The protocol towards one server is the crate `airlock-mcp-client`.

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

pub use self::{
    control::{Control, ControlError},
    metrics::UpstreamMetrics,
    runtime::Runtime,
    supervise::supervise,
};
