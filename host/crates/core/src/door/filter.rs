//! The include headers of a request. They only ever narrow.
//!
//! Grammar: items divided by `,`, blanks around them dropped, empty items dropped. An absent header
//! filters nothing; a present one lets through what it names and so nothing if it names nothing.
//! (Bifrost lets a client header of blanks through as "no filter"; here a present header never
//! means "everything" unless it says so.)

use std::collections::BTreeSet;

use crate::tool::{ClientName, Tool};

/// Header that names clients; `*` stands for all.
pub const INCLUDE_CLIENTS: &str = "x-bf-mcp-include-clients";
/// Header that names tools as `client-tool`, or all of a client's as `client-*`. A bare `*` names
/// nothing.
pub const INCLUDE_TOOLS: &str = "x-bf-mcp-include-tools";

/// What a request wants to see. Names are compared exactly.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    clients: Option<BTreeSet<String>>,
    tools: Option<BTreeSet<String>>,
}

impl Filter {
    /// No filter.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the values of the two headers, where present.
    pub fn parse(include_clients: Option<&str>, include_tools: Option<&str>) -> Self {
        Self { clients: include_clients.map(items), tools: include_tools.map(items) }
    }

    /// Whether neither header was sent.
    pub fn is_none(&self) -> bool {
        self.clients.is_none() && self.tools.is_none()
    }

    /// Whether `client`'s tools can be let through at all.
    pub(super) fn admits_client(&self, client: &ClientName) -> bool {
        self.clients
            .as_ref()
            .is_none_or(|names| names.contains("*") || names.contains(client.as_str()))
    }

    /// Whether one tool of `client` is let through.
    pub(super) fn admits_tool(&self, client: &ClientName, tool: &Tool) -> bool {
        self.tools.as_ref().is_none_or(|names| {
            names.contains(tool.name.as_str())
                || names.contains(&format!("{client}-*"))
                || names.contains(&format!("{client}-{}", tool.original))
        })
    }
}

fn items(header: &str) -> BTreeSet<String> {
    header.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}
