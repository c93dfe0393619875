//! Where a call comes from, and what that decides.

use std::{collections::BTreeSet, sync::Arc};

use super::{Entry, Placement};

/// Where a call comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A model, through the agent loop.
    Model,
    /// A script, in code mode.
    Script,
    /// A plugin, through the host's `tools` interface, with the names that its operator granted it.
    Plugin(Arc<BTreeSet<String>>),
    /// Whoever asks for one call by name, and thereby approves it.
    Caller,
    /// A client of the gateway's MCP endpoint, which asks its own user.
    McpClient,
}

impl Origin {
    /// Whether this origin is shown a tool, and may therefore name it.
    pub(super) fn is_offered(&self, entry: &Entry) -> bool {
        match self {
            Self::Model | Self::McpClient => entry.placement != Placement::Script,
            Self::Script => entry.placement == Placement::Script,
            Self::Plugin(granted) => {
                entry.placement != Placement::Meta && granted.contains(entry.tool.name.as_str())
            }
            Self::Caller => true,
        }
    }

    /// Whether a call from here carries its approval with it.
    pub(super) fn approves(&self) -> bool {
        matches!(self, Self::Caller | Self::McpClient)
    }
}
