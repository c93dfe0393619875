//! A person's approval of one call.

use std::sync::Arc;

use super::{Arguments, Entry};
use crate::tool::SourceSet;

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
    /// Sources that the author of the call had read, as they were shown.
    pub sources: SourceSet,
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
            sources: SourceSet::default(),
        }
    }

    /// Sets the sources that were shown with the call.
    #[must_use]
    pub fn with_sources(self, sources: SourceSet) -> Self {
        Self { sources, ..self }
    }

    /// Returns whether a call is the one that was approved, and all sources were shown because of which it needs an
    /// approval.
    pub(super) fn covers(&self, entry: &Entry, arguments: &Arguments, asking: &SourceSet) -> bool {
        let names = [entry.tool.name.as_str(), entry.tool.full_name.as_str()];
        asking.is_subset(&self.sources)
            && names.contains(&&*self.tool)
            && arguments.as_str() == &*self.arguments
            && entry.tool.digest() == *self.definition
    }
}
