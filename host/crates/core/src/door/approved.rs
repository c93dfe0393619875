//! A person's approval of one call, and what happens to calls that need one.

use std::sync::Arc;

use super::{Arguments, Entry};

/// Treatment of a model's calls that need an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalChoice {
    /// They are returned to the caller.
    #[default]
    Return,
    /// Tools that need an approval are not offered.
    Omit,
    /// The request stays open until a person decides.
    Wait,
}

impl ApprovalChoice {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::Return, Self::Omit, Self::Wait];

    /// Returns the name in headers and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Return => "return",
            Self::Omit => "omit",
            Self::Wait => "wait",
        }
    }
}

/// A person's approval of one call: of one tool, as it was defined when the person saw the call, with
/// exactly these arguments.
///
/// The keeper of the call ensures that the approval is used once and before it expires: the journal of
/// the run, or the list of calls that wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// Name by which the script or the model calls the tool.
    pub tool: Arc<str>,
    /// [`digest`](crate::tool::Tool::digest) of the tool's definition.
    pub definition: Arc<str>,
    /// The arguments, as they were sent.
    pub arguments: Arc<str>,
    /// True to approve the calls that a plugin makes in that call too, because a plugin cannot stop in
    /// its middle. False for a call that is made again after its answer was lost: its own calls need
    /// approvals as they did before.
    pub covers_nested: bool,
    /// True if as many operators have approved it as the tool needs, and not its caller.
    pub by_operators: bool,
    /// The parties that have approved it, for its record; `None` if the keeper of the call does not know them.
    pub decided_by: Option<Arc<str>>,
}

impl Approved {
    /// Creates the approval of one call of a tool as it is defined now, and of no calls that it makes.
    pub fn new(entry: &Entry, arguments: &str, decided_by: Option<String>) -> Self {
        let tool = &entry.tool;
        Self {
            tool: tool.name.as_str().into(),
            definition: tool.digest().into(),
            arguments: arguments.into(),
            covers_nested: false,
            by_operators: entry.needs_two,
            decided_by: decided_by.map(Into::into),
        }
    }

    /// Returns whether a call is the one that was approved.
    pub(super) fn covers(&self, entry: &Entry, arguments: &Arguments) -> bool {
        let names = [entry.tool.name.as_str(), entry.tool.full_name.as_str()];
        names.contains(&&*self.tool)
            && arguments.as_str() == &*self.arguments
            && entry.tool.digest() == *self.definition
    }
}
