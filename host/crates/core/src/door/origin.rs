//! The origin of a call, and the rules that depend on it.

use std::{collections::BTreeSet, sync::Arc};

/// Origin of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A model, through the agent loop.
    Model,
    /// A script, in code mode.
    Script,
    /// A plugin, through the host's `tools` interface, with the full names of the tools that the
    /// operator granted it.
    Plugin(Arc<BTreeSet<String>>),
    /// A caller that requests one call by name. The request is the approval.
    Caller,
    /// The program in whose process the gateway runs, which requests one call by name. The request is no
    /// approval.
    Program,
    /// An operator, who requests one call by name with the tools of a virtual key. The request is no approval.
    Operator,
    /// A client of the gateway's MCP endpoint.
    McpClient(Approval),
}

/// The approval state of the calls of an MCP client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Approval {
    /// The user was asked, by the gateway or by the client itself.
    Given,
    /// A person has approved the call in the list of calls that wait.
    ByPerson,
    /// As many operators as the tool needs have approved the call.
    ByOperators,
    /// The user was not asked yet.
    Missing,
}

impl Origin {
    /// Name in records, logs and metrics. Whether a user was asked is not a part of it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Script => "script",
            Self::Plugin(_) => "plugin",
            Self::Caller => "caller",
            Self::Program => "program",
            Self::Operator => "operator",
            Self::McpClient(_) => "mcp_client",
        }
    }

    /// Returns whether a call from this origin counts as approved.
    pub(super) fn approves(&self) -> bool {
        match self {
            Self::Caller => true,
            Self::McpClient(approval) => *approval != Approval::Missing,
            Self::Model | Self::Script | Self::Plugin(_) | Self::Program | Self::Operator => false,
        }
    }

    /// Returns whether a person has approved a call of the request itself in the list of calls that wait.
    pub(super) fn has_person(&self) -> bool {
        matches!(self, Self::McpClient(Approval::ByPerson | Approval::ByOperators))
    }

    /// Returns whether as many operators as the tool needs have approved a call of the request itself.
    pub(super) fn has_operators(&self) -> bool {
        matches!(self, Self::McpClient(Approval::ByOperators))
    }
}
