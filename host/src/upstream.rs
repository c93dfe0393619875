//! MCP servers as sources of tools.

use std::{collections::BTreeMap, time::Duration};

use crate::{catalog::ClientName, secret::Secret};

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
        /// What to run; looked up in `PATH` of `env` if it has no `/`.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its whole environment: nothing of the gateway's own is inherited.
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
