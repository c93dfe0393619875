//! The rules by which a request sees the tools of one client.
//!
//! A [`View`](super::View) has the tools that no rule hides. An explanation names the rules that hide
//! a tool. Both ask the same [`ToolRules`], so they cannot disagree.

use std::collections::BTreeSet;

use super::{Filter, VirtualKey, key::Grant};
use crate::tool::{ClientName, Policy, Tool};

/// A rule that hides a tool from a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HidingRule {
    /// The header for clients does not name the client.
    IncludeClients,
    /// `tools_to_execute` of the client does not list the tool.
    ToolsToExecute,
    /// The virtual key has no row for the client, which does not permit all keys.
    KeyWithoutRow,
    /// The row of the virtual key does not list the tool.
    KeyRow,
    /// The header for tools does not name the tool.
    IncludeTools,
}

impl HidingRule {
    /// All rules, in the order in which they are applied.
    const ALL: [Self; 5] = [
        Self::IncludeClients,
        Self::ToolsToExecute,
        Self::KeyWithoutRow,
        Self::KeyRow,
        Self::IncludeTools,
    ];

    /// Returns the stable code of the rule.
    pub const fn code(self) -> &'static str {
        match self {
            Self::IncludeClients => "include_clients",
            Self::ToolsToExecute => "tools_to_execute",
            Self::KeyWithoutRow => "key_without_row",
            Self::KeyRow => "key_row",
            Self::IncludeTools => "include_tools",
        }
    }
}

/// The rules of one request for the tools of one client.
#[derive(Clone, Copy)]
pub struct ToolRules<'r> {
    client: &'r ClientName,
    policy: &'r Policy,
    filter: &'r Filter,
    is_client_included: bool,
    grant: Grant<'r>,
}

impl<'r> ToolRules<'r> {
    /// Creates the rules of a request. Without a key, the configuration of the client and the filter
    /// decide.
    pub fn new(
        client: &'r ClientName,
        policy: &'r Policy,
        filter: &'r Filter,
        key: Option<&'r VirtualKey>,
    ) -> Self {
        let is_client_included = filter.admits_client(client);
        let grant = key.map_or(Grant::All, |key| key.grant(client, policy));
        Self { client, policy, filter, is_client_included, grant }
    }

    /// Returns the rules that hide a tool of the client, in the order in which they are applied. The
    /// request sees the tool if there are none.
    pub fn hiding(self, tool: &Tool) -> impl Iterator<Item = HidingRule> {
        HidingRule::ALL.into_iter().filter(move |rule| self.hides(*rule, tool))
    }

    /// Returns the rules that hide every tool of the client, whatever it is named.
    pub fn hiding_all(self) -> impl Iterator<Item = HidingRule> {
        HidingRule::ALL.into_iter().filter(move |rule| self.hides_all(*rule))
    }

    /// Returns whether the request sees a tool of the client.
    pub(super) fn show(self, tool: &Tool) -> bool {
        self.hiding(tool).next().is_none()
    }

    fn hides(self, rule: HidingRule, tool: &Tool) -> bool {
        match rule {
            HidingRule::IncludeClients | HidingRule::KeyWithoutRow => self.hides_all(rule),
            HidingRule::ToolsToExecute => !self.policy.execute.allows_tool(tool),
            HidingRule::KeyRow => match self.grant {
                Grant::Row(row) => !row.allows_tool(tool),
                Grant::All | Grant::Nothing => false,
            },
            HidingRule::IncludeTools => !self.filter.admits_tool(self.client, tool),
        }
    }

    fn hides_all(self, rule: HidingRule) -> bool {
        match rule {
            HidingRule::IncludeClients => !self.is_client_included,
            HidingRule::ToolsToExecute => self.policy.execute.is_empty(),
            HidingRule::KeyWithoutRow => matches!(self.grant, Grant::Nothing),
            HidingRule::KeyRow => matches!(self.grant, Grant::Row(row) if row.is_empty()),
            HidingRule::IncludeTools => false,
        }
    }
}

/// Whether calls of a tool need an approval, by the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolApproval {
    /// True if `tools_to_auto_execute` of the client lists the tool.
    pub is_listed: bool,
    /// True if the operator has accepted the tool's definition, or needs to accept none.
    pub is_accepted: bool,
}

impl ToolApproval {
    /// Decides by a client's policy. `unaccepted` has the names at the source of its tools whose
    /// definitions the operator has not accepted yet.
    pub fn new(policy: &Policy, unaccepted: &BTreeSet<String>, tool: &Tool) -> Self {
        Self {
            is_listed: policy.auto_execute.allows_tool(tool),
            is_accepted: !unaccepted.contains(&tool.original),
        }
    }

    /// Returns whether a call of the tool needs an approval.
    pub fn is_needed(self) -> bool {
        !(self.is_listed && self.is_accepted)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::tool::{Allowlist, client};
    use HidingRule::{IncludeClients, IncludeTools, KeyRow, KeyWithoutRow, ToolsToExecute};

    fn list(names: &[&str]) -> Allowlist {
        Allowlist::parse(names).expect("a good list")
    }

    fn tool(original: &str) -> Tool {
        let definition = serde_json::json!({"name": original, "inputSchema": {}});
        let definition = serde_json::from_value(definition).expect("a definition");
        Tool::adopt(&client("fs"), definition).expect("a good tool")
    }

    fn policy(execute: &[&str], allow_on_all_keys: bool) -> Policy {
        Policy { execute: list(execute), allow_on_all_keys, ..Policy::default() }
    }

    fn key(rows: &[(&str, &[&str])]) -> VirtualKey {
        let rows = rows.iter().map(|(name, tools)| (client(name), list(tools)));
        VirtualKey::new("ann", "sk-bf-ann", rows.collect::<BTreeMap<_, _>>())
    }

    /// Returns the rules that hide `read` of `fs`, and those that hide the whole of `fs`.
    fn hiding(
        policy: &Policy,
        filter: &Filter,
        key: Option<&VirtualKey>,
    ) -> (Vec<HidingRule>, Vec<HidingRule>) {
        let fs = client("fs");
        let rules = ToolRules::new(&fs, policy, filter, key);
        (rules.hiding(&tool("read")).collect(), rules.hiding_all().collect())
    }

    #[test]
    fn each_rule_hides_a_tool_on_its_own() {
        let open = policy(&["*"], false);
        let none = Filter::none();
        assert_eq!(hiding(&open, &none, None), (vec![], vec![]));
        for (clients, tools, expected) in [
            (Some("web"), None, vec![IncludeClients]),
            (Some("web,fs"), None, vec![]),
            (Some("*"), None, vec![]),
            (None, Some("fs-write"), vec![IncludeTools]),
            (None, Some("fs-read"), vec![]),
            (None, Some("fs-*"), vec![]),
            (None, Some(""), vec![IncludeTools]),
        ] {
            let filter = Filter::parse(clients, tools);
            assert_eq!(hiding(&open, &filter, None).0, expected, "{filter:?}");
        }
        let other = policy(&["write"], false);
        assert_eq!(hiding(&other, &none, None), (vec![ToolsToExecute], vec![]));
        let empty = policy(&[], false);
        assert_eq!(hiding(&empty, &none, None), (vec![ToolsToExecute], vec![ToolsToExecute]));
        for (rows, allows_all, tool, whole) in [
            (&[][..], false, vec![KeyWithoutRow], vec![KeyWithoutRow]),
            (&[], true, vec![], vec![]),
            (&[("web", &["*"][..])], false, vec![KeyWithoutRow], vec![KeyWithoutRow]),
            (&[("fs", &["READ"])], false, vec![], vec![]),
            (&[("fs", &["write"])], true, vec![KeyRow], vec![]),
            (&[("fs", &[])], true, vec![KeyRow], vec![KeyRow]),
        ] {
            let key = key(rows);
            let open = policy(&["*"], allows_all);
            assert_eq!(hiding(&open, &none, Some(&key)), (tool, whole), "{key:?} {allows_all}");
        }
    }

    #[test]
    fn all_rules_that_apply_are_returned_in_the_order_of_the_door() {
        let filter = Filter::parse(Some("web"), Some("web-*"));
        let empty = policy(&[], false);
        let without = [IncludeClients, ToolsToExecute, KeyWithoutRow, IncludeTools];
        assert_eq!(hiding(&empty, &filter, Some(&key(&[]))).0, without);
        let other = key(&[("fs", &["write"])]);
        let with = [IncludeClients, ToolsToExecute, KeyRow, IncludeTools];
        assert_eq!(hiding(&empty, &filter, Some(&other)).0, with);
        let codes = HidingRule::ALL.map(HidingRule::code);
        assert_eq!(
            codes,
            ["include_clients", "tools_to_execute", "key_without_row", "key_row", "include_tools"]
        );
    }

    #[test]
    fn an_approval_is_needed_unless_the_tool_is_listed_and_accepted() {
        let read = tool("read");
        let unaccepted = BTreeSet::from(["read".to_owned()]);
        for (auto, unaccepted, is_needed) in [
            (&["read"][..], &BTreeSet::new(), false),
            (&["write"], &BTreeSet::new(), true),
            (&["*"], &unaccepted, true),
            (&[], &unaccepted, true),
        ] {
            let policy = Policy { auto_execute: list(auto), ..Policy::default() };
            let approval = ToolApproval::new(&policy, unaccepted, &read);
            assert_eq!(approval.is_needed(), is_needed, "{approval:?}");
        }
    }
}
