//! A presented result, and the servers that it comes from.

use std::collections::BTreeSet;

use super::marks::Marks;
use airlock_core::tool::{ClientName, Trust};

/// Provenance of a result: the MCP servers whose data it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provenance {
    /// Names of the servers; at least one.
    pub servers: BTreeSet<ClientName>,
    /// The operator's trust in them.
    pub trust: Trust,
}

/// A result as the text of a message has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Presented {
    /// Text of the result, whole or as a preview.
    pub text: String,
    /// The gateway's own remark about a preview. It belongs after the marks. Empty for a whole text.
    pub remark: String,
    /// Estimated tokens of the text that a preview leaves out.
    pub kept_out_tokens: u64,
}

impl Presented {
    /// Presents a whole text.
    pub fn whole(text: String) -> Self {
        Self { text, remark: String::new(), kept_out_tokens: 0 }
    }
}

impl Provenance {
    /// Creates the provenance of the result of one server.
    pub fn new(server: ClientName, trust: Trust) -> Self {
        Self { servers: BTreeSet::from([server]), trust }
    }

    /// Creates the provenance of the result of a tool that used servers; `None` if it used none. The
    /// operator trusts none of them.
    pub fn through(servers: BTreeSet<ClientName>) -> Option<Self> {
        (!servers.is_empty()).then_some(Self { servers, trust: Trust::Untrusted })
    }

    /// Returns the marks for one result; `None` if the server is trusted. Each result gets marks of
    /// its own.
    pub fn marks(&self) -> Option<Marks> {
        let names: Vec<_> = self.servers.iter().map(ClientName::as_str).collect();
        (self.trust == Trust::Untrusted).then(|| Marks::new(&names.join(", ")))
    }
}
