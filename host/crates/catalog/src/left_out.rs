//! Tools of a source's list that are not in the catalog.

use airlock_core::{door::WithheldTool, tool::BadTool};

/// Maximum reasons of each kind that are kept of one client's tools: those that were left out,
/// and those whose schemas are not checked. An operator reads them in the status, and a server may give
/// a reason with each of its 2,000 tools.
pub(super) const MAX_REASONS: usize = 100;

/// A tool of a source's list that is not in the catalog, or all of its tools beyond the limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Name of the tool at its source. Untrusted text, with hidden characters if the source has them.
    /// `None` for the tools beyond the limit.
    pub tool: Option<String>,
    /// Kind of reason.
    pub cause: LeftOutCause,
    /// Reason, for the operator.
    pub reason: String,
}

/// Kind of reason why a tool is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOutCause {
    /// Another tool of the source has its name, or takes the names that it could have.
    NameTaken,
    /// Its name is not valid.
    NameNotValid,
    /// Its definition is not valid.
    Definition,
    /// The source has more tools than a client may publish.
    TooMany,
    /// A guard denies its definition, or has failed.
    Guard,
}

impl LeftOut {
    /// Returns the second tool of a name.
    pub(super) fn second(tool: &str) -> Self {
        let reason = format!("a second tool named {tool:?}");
        Self { tool: Some(tool.to_owned()), cause: LeftOutCause::NameTaken, reason }
    }

    /// Returns a tool for which other tools of its source leave no name.
    pub(super) fn nameless(tool: String) -> Self {
        let reason = format!("the names of other tools leave none for {tool:?}");
        Self { tool: Some(tool), cause: LeftOutCause::NameTaken, reason }
    }

    /// Returns the tools beyond the limit.
    pub(super) fn beyond(limit: usize) -> Self {
        let reason = format!("more than {limit} tools; the others are left out");
        Self { tool: None, cause: LeftOutCause::TooMany, reason }
    }
}

impl From<&WithheldTool> for LeftOut {
    fn from(withheld: &WithheldTool) -> Self {
        let tool = &withheld.tool.original;
        let reason = format!("{tool:?}: {}", withheld.cause());
        Self { tool: Some(tool.clone()), cause: LeftOutCause::Guard, reason }
    }
}

impl From<BadTool> for LeftOut {
    fn from(bad: BadTool) -> Self {
        let reason = bad.to_string();
        let (tool, cause) = match bad {
            BadTool::Name(tool) => (tool, LeftOutCause::NameNotValid),
            BadTool::Schema { tool, .. }
            | BadTool::SchemaTooLarge { tool, .. }
            | BadTool::HiddenKey { tool, .. } => (tool, LeftOutCause::Definition),
        };
        Self { tool: Some(tool), cause, reason }
    }
}
