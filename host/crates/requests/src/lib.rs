//! Requests of senders, whatever API they come in: over HTTP, or from the program that embeds the gateway.
//!
//! A request has a [`Sender`], who is authenticated by what receives the request. [`RequestParts`] are
//! the parts of the gateway that the request uses: the tools that it sees, the model that it asks, the
//! approvals that it waits for. What it holds in memory is charged to a
//! [`RequestCharge`](airlock_core::request_memory::RequestCharge).
//!
//! | file | purpose |
//! |---|---|
//! | `sender` | the sender: a key, a selection of tools, a treatment of approvals |
//! | `parts` | the view of a request, its caller, and its approvals |
//! | `availability` | sources of tools that were never listed |
//! | `chat` | starts the agent loop for a chat |
//! | `current` | approvals of calls that wait in a request |
//!
//! This crate knows neither HTTP nor the forms of requests, and makes no decisions about tools: the door does.

mod availability;
mod chat;
mod current;
mod parts;
mod sender;

pub use self::{
    chat::{PreparedChat, ToolOptions},
    parts::{ModelTools, RequestParts},
    sender::Sender,
};
