//! The operator's trust in the texts of one client.

/// Trust in the texts of one client: its descriptions, and the results of its tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Trust {
    /// Models see the texts marked as external. Every MCP server, unless the operator trusts it.
    #[default]
    Untrusted,
    /// Models see the texts as they are. Also plugins and the tools of an embedding program, which
    /// the operator installed.
    Trusted,
}
