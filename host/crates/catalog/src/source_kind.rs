//! Kinds of sources.

/// Kind of a source. It decides which values are checked, and whose texts the tools have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceKind {
    /// Tools of the program itself.
    Internal,
    /// A plugin, whose provider checks its values itself.
    Plugin,
    /// An MCP server, whose texts are not the operator's. Its transport, as `connection_type` in the
    /// configuration.
    Server(&'static str),
}

impl SourceKind {
    /// Returns the kind as `connection_type` in the configuration and in the administrative API.
    pub fn name(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Plugin => "wasm",
            Self::Server(transport) => transport,
        }
    }
}
