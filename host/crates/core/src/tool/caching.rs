//! Which results of a client's tools are kept, and for how long.

use std::time::Duration;

use super::{Allowlist, Tool};

/// Rule for the results of some tools of one client: a repeated call gets the result of an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheRule {
    /// The tools.
    pub tools: Allowlist,
    /// Time for which a result is used.
    pub ttl: Duration,
    /// Memory for the results of the rule, in bytes. The result that was used least recently is dropped
    /// first.
    pub max_bytes: usize,
    /// True if a tenant gets results of calls of other tenants.
    pub is_shared: bool,
}

impl CacheRule {
    /// Returns why results of a tool must not be kept, although the operator names it: its own definition
    /// says that it changes something. `None` if it does not. A tool without hints is the operator's word.
    pub fn contradiction(tool: &Tool) -> Option<&'static str> {
        let hints = &tool.annotations;
        if hints.read_only == Some(false) {
            return Some("its definition says `readOnlyHint: false`");
        }
        // The hint means nothing for a tool that is read-only.
        let is_destructive = hints.destructive == Some(true) && hints.read_only != Some(true);
        is_destructive.then_some("its definition says `destructiveHint: true`")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_says_that_the_tool_changes_something_contradicts_the_operator() {
        let mut tool = Tool::own("t", "", serde_json::json!({}));
        for (read_only, destructive, is_refused) in [
            (None, None, false),
            (Some(true), None, false),
            (Some(true), Some(true), false),
            (None, Some(false), false),
            (Some(false), None, true),
            (Some(false), Some(false), true),
            (None, Some(true), true),
        ] {
            tool.annotations.read_only = read_only;
            tool.annotations.destructive = destructive;
            let found = CacheRule::contradiction(&tool);
            assert_eq!(found.is_some(), is_refused, "{read_only:?} {destructive:?}");
        }
    }
}
