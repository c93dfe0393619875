//! The MCP server that misbehaves on request; what it can do is written at the top of its source.

use crate::{Client, binary};

/// It as a client of the gateway.
pub fn misbehaving<const N: usize>(name: &str, modes: [&str; N]) -> Client {
    Client::stdio(name, binary("misbehaving-server"), modes)
}
