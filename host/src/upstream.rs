//! Takes tools from MCP servers: connects to the servers, keeps them connected, and runs their
//! tools.
//!
//! A server is untrusted. Everything it sends is bounded before it is kept. A server that hangs,
//! floods, crashes or lies affects only its own calls. The bounds are in `limits`, with their
//! units. Every message passes the `inbox`, which redacts the server's `secrets`. All of this runs
//! on a separate [`Runtime`]. This module does not decide who may call a tool, and it is the only
//! user of `rmcp` on this side.

mod backoff;
mod connection;
mod decode;
mod envelope;
mod error;
mod flood;
mod http;
mod inbox;
mod limits;
mod listing;
mod outbox;
mod process;
mod progress;
mod result;
mod runtime;
mod secrets;
mod sender;
mod server;
mod skipped;
mod stdio;
mod supervise;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

pub use self::{runtime::Runtime, supervise::supervise};
use crate::{secret::Secret, tool::ClientName};

/// Settings for one MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The client's name.
    pub name: ClientName,
    /// Transport to the server.
    pub transport: Transport,
    /// Time limit for starting the server, the handshake and listing its tools.
    pub connect_timeout: Duration,
}

/// Transport to a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that communicates over stdin and stdout.
    Stdio {
        /// Program to run. Without a `/` it is looked up in the `PATH` of `env`, or in the
        /// gateway's own `PATH` if `env` has none.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment. Nothing is inherited from the gateway, not even `PATH` and
        /// `HOME`. A script that starts with `#!/usr/bin/env node` therefore needs a `PATH` here.
        env: BTreeMap<String, Secret>,
    },
    /// Streamable HTTP.
    Http {
        /// The endpoint.
        url: String,
        /// Headers sent with every request.
        headers: BTreeMap<String, Secret>,
    },
}

impl Transport {
    /// Returns the name of the transport in the configuration.
    pub fn connection_type(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }
}
