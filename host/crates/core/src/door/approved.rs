//! A person's approval of one call of a script.

use std::sync::Arc;

use super::{Arguments, Entry};

/// A person's approval of one call of a script: of one tool, as it was defined when the person saw
/// the call, with exactly these arguments.
///
/// The journal of the run decides that it is used once and before it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approved {
    /// Name by which the script calls the tool.
    pub tool: Arc<str>,
    /// [`digest`](crate::tool::Tool::digest) of the tool's definition.
    pub definition: Arc<str>,
    /// The arguments, as the script sends them.
    pub arguments: Arc<str>,
    /// True to approve the calls that a plugin makes in that call too, because a plugin cannot stop in
    /// its middle. False for a call that is made again after its answer was lost: its own calls need
    /// approvals as they did before.
    pub covers_nested: bool,
}

impl Approved {
    /// Returns whether a call is the one that was approved.
    pub(super) fn covers(&self, entry: &Entry, arguments: &Arguments) -> bool {
        let names = [entry.tool.name.as_str(), entry.tool.full_name.as_str()];
        names.contains(&&*self.tool)
            && arguments.as_str() == &*self.arguments
            && entry.tool.digest() == *self.definition
    }
}
