//! MCP servers as sources of tools: connects to them, keeps them connected, and runs their tools.
//!
//! A server is untrusted. Whatever it sends is bounded before it is kept, and one that hangs,
//! floods, crashes or lies costs its own calls and no others. The bounds are in `limits`, with
//! their units; every message passes the `inbox` and every text the `mask` before anything else
//! sees it; and all of it happens on a [`Runtime`] of its own. Nothing here decides who may call
//! what, and `rmcp` is spoken nowhere else on this side.

mod answer;
mod backoff;
mod complaints;
mod connection;
mod decode;
mod envelope;
mod http;
mod inbox;
mod limits;
mod link;
mod listing;
mod mask;
mod meter;
mod outbox;
mod process;
mod runtime;
mod server;
mod stdio;
mod supervise;
#[cfg(test)]
mod tests;
mod trouble;

use std::{collections::BTreeMap, time::Duration};

pub use self::{runtime::Runtime, supervise::supervise};
use crate::{secret::Secret, tool::ClientName};

/// How to reach one MCP server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The client's name.
    pub name: ClientName,
    /// Where the server is.
    pub transport: Transport,
    /// Time for starting, shaking hands and listing tools.
    pub connect_timeout: Duration,
}

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process that speaks on stdin and stdout.
    Stdio {
        /// What to run. Without a `/` it is looked up in the `PATH` of `env`, or, if there is none,
        /// in the gateway's own.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment: nothing of the gateway's own is inherited, `PATH` and `HOME`
        /// included. A script that starts with `#!/usr/bin/env node` therefore needs a `PATH` here.
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
    /// What the configuration calls it.
    pub fn connection_type(&self) -> &'static str {
        match self {
            Self::Stdio { .. } => "stdio",
            Self::Http { .. } => "http",
        }
    }
}
