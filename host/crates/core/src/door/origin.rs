//! The origin of a call, and the rules that depend on it.

use std::{collections::BTreeSet, sync::Arc};

use super::{Entry, Placement};

/// Origin of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A model, through the agent loop.
    Model,
    /// A script, in code mode.
    Script,
    /// A plugin, through the host's `tools` interface, with the tool names that the operator
    /// granted it.
    Plugin(Arc<BTreeSet<String>>),
    /// A caller that requests one call by name. The request is the approval.
    Caller,
    /// A client of the gateway's MCP endpoint.
    McpClient(Approval),
}

/// Whether a user has approved the calls of an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The user was asked, by the gateway or by the client itself.
    Given,
    /// The user was not asked yet.
    Missing,
}

impl Origin {
    /// Returns whether a tool is listed for this origin. An origin can call only listed tools.
    pub(super) fn is_offered(&self, entry: &Entry) -> bool {
        match self {
            Self::Model | Self::McpClient(_) => entry.placement != Placement::Script,
            Self::Script => entry.placement == Placement::Script,
            Self::Plugin(granted) => {
                entry.placement != Placement::Meta && granted.contains(entry.tool.name.as_str())
            }
            Self::Caller => true,
        }
    }

    /// Returns whether a call from this origin counts as approved.
    pub(super) fn approves(&self) -> bool {
        matches!(self, Self::Caller | Self::McpClient(Approval::Given))
    }
}
