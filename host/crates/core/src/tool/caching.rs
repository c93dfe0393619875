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
    /// Returns why results of a tool must not be kept, although the rule is for it: its own definition says
    /// that it changes something, or the rule is for all tools and the definition does not say that this
    /// one changes nothing. `None` if they may. For a tool without hints that the operator lists by name,
    /// the operator's word counts.
    pub fn refusal(&self, tool: &Tool) -> Option<&'static str> {
        let hints = &tool.annotations;
        if hints.read_only == Some(true) {
            // The other hint means nothing for a tool that is read-only.
            return None;
        }
        if hints.read_only == Some(false) {
            return Some("its definition says `readOnlyHint: false`");
        }
        if hints.destructive == Some(true) {
            return Some("its definition says `destructiveHint: true`");
        }
        (self.tools == Allowlist::All).then_some(
            "its definition does not say `readOnlyHint: true`; if it changes nothing, list it by name",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_that_says_that_the_tool_changes_something_contradicts_the_operator() {
        let mut tool = Tool::own("t", "", serde_json::json!({}));
        let named = rule(Allowlist::parse(&["t"]).expect("a good list"));
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
            let found = named.refusal(&tool);
            assert_eq!(found.is_some(), is_refused, "{read_only:?} {destructive:?}");
        }
    }

    #[test]
    fn a_rule_for_all_tools_takes_those_that_say_that_they_are_read_only_alone() {
        let mut tool = Tool::own("t", "", serde_json::json!({}));
        let all = rule(Allowlist::All);
        for (read_only, destructive, is_refused) in [
            (Some(true), None, false),
            (Some(true), Some(true), false),
            (None, None, true),
            (None, Some(false), true),
            (Some(false), None, true),
        ] {
            tool.annotations.read_only = read_only;
            tool.annotations.destructive = destructive;
            let found = all.refusal(&tool);
            assert_eq!(found.is_some(), is_refused, "{read_only:?} {destructive:?}");
        }
    }

    fn rule(tools: Allowlist) -> CacheRule {
        CacheRule { tools, ttl: Duration::from_secs(1), max_bytes: 1, is_shared: false }
    }
}
