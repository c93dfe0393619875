//! The rules by which a request sees the tools of one client.
//!
//! A [`View`](super::View) has the tools that no rule hides. An explanation names the rules that hide
//! a tool. Both ask the same [`ToolRules`], so they cannot disagree.

use std::collections::BTreeSet;

use super::{
    Filter, VirtualKey,
    key::{Grant, Grants},
};
use crate::tool::{ClientName, Exclusions, Policy, Tool};

airlock_strings::named_enum! {
    /// A rule that hides a tool from a request. The codes are stable, and the rules are applied in this order.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum HidingRule as code {
        /// The operator has switched all tools off.
        SwitchedOff = "switched_off",
        /// The client belongs to virtual keys, and the request has none of them.
        Owner = "owner",
        /// The header for clients does not name the client.
        IncludeClients = "include_clients",
        /// `tools_to_execute` of the client does not list the tool.
        ToolsToExecute = "tools_to_execute",
        /// `tools_to_exclude` of the client lists the tool.
        ToolsToExclude = "tools_to_exclude",
        /// The environment of the virtual key does not have the client.
        Environment = "environment",
        /// `tools_to_exclude` of the environment of the virtual key lists the tool.
        EnvironmentExclude = "environment_exclude",
        /// The virtual key has no row for the client, which does not permit all keys.
        KeyWithoutRow = "key_without_row",
        /// The rows of the virtual key do not list the tool.
        KeyRow = "key_row",
        /// `tools_to_exclude` of a row of the virtual key lists the tool.
        KeyExclude = "key_exclude",
        /// The group of tools that the request asks for does not have the tool.
        Group = "virtual_mcp",
        /// The header for tools does not name the tool.
        IncludeTools = "include_tools",
        /// The header for excluded tools names the tool.
        ExcludeTools = "exclude_tools",
    }
}

/// The rules of one request for the tools of one client.
#[derive(Clone, Copy)]
pub struct ToolRules<'r> {
    client: &'r ClientName,
    policy: &'r Policy,
    filter: &'r Filter,
    is_client_included: bool,
    is_of_others: bool,
    is_switched_off: bool,
    /// `None` without a key.
    grants: Option<&'r Grants>,
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
        let grants = key.map(|key| &*key.grants);
        let grant = grants.map_or(Grant::All, |grants| grants.grant(client, policy));
        let is_of_others = match grants {
            Some(grants) => grants.is_of_others(client, policy),
            None => policy.is_owned && !filter.is_of_operator(),
        };
        let is_switched_off = false;
        Self {
            client,
            policy,
            filter,
            is_client_included,
            is_of_others,
            is_switched_off,
            grants,
            grant,
        }
    }

    /// Sets whether the operator has switched all tools off.
    #[must_use]
    pub fn switched_off(self, is_switched_off: bool) -> Self {
        Self { is_switched_off, ..self }
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

    /// Returns whether the client belongs to others than the sender of the request, who is not to know
    /// of it.
    pub fn conceal(self) -> bool {
        self.is_of_others
    }

    /// Returns whether the sender of the request may know of the client, whatever the request selects.
    pub fn reveal(self) -> bool {
        let is_known = self.grants.is_none_or(|grants| grants.knows(self.client, self.policy));
        is_known && !self.is_of_others
    }

    /// Returns whether the request may use resources and prompts of the client, if the lists permit any.
    pub(super) fn may_relay(self) -> bool {
        !self.is_switched_off && !self.is_of_others && self.filter.admits_all_of(self.client)
    }

    /// Returns whether the request sees a tool of the client.
    pub(super) fn show(self, tool: &Tool) -> bool {
        self.hiding(tool).next().is_none()
    }

    fn hides(self, rule: HidingRule, tool: &Tool) -> bool {
        match rule {
            HidingRule::SwitchedOff
            | HidingRule::Owner
            | HidingRule::IncludeClients
            | HidingRule::Environment
            | HidingRule::KeyWithoutRow => self.hides_all(rule),
            HidingRule::ToolsToExecute => !self.policy.execute.allows_tool(tool),
            HidingRule::ToolsToExclude => self.policy.exclude.covers(tool),
            HidingRule::EnvironmentExclude => {
                let taken_away = self.grants.and_then(|grants| grants.taken_away(self.client));
                taken_away.is_some_and(|excluded| excluded.covers(tool))
            }
            HidingRule::KeyRow => match self.grant {
                Grant::Row(row) => !row.allows_tool(tool),
                Grant::All | Grant::Nothing => false,
            },
            HidingRule::KeyExclude => {
                self.grants.is_some_and(|grants| grants.excludes(self.client, tool))
            }
            HidingRule::Group => !self.filter.has_in_group(self.client, tool),
            HidingRule::IncludeTools => !self.filter.admits_tool(self.client, tool),
            HidingRule::ExcludeTools => self.filter.excludes_tool(self.client, tool),
        }
    }

    fn hides_all(self, rule: HidingRule) -> bool {
        match rule {
            HidingRule::SwitchedOff => self.is_switched_off,
            HidingRule::Owner => self.is_of_others,
            HidingRule::IncludeClients => !self.is_client_included,
            HidingRule::ToolsToExecute => self.policy.execute.is_empty(),
            HidingRule::ToolsToExclude => self.policy.exclude.covers_all(),
            HidingRule::Environment => {
                self.grants.is_some_and(|grants| grants.is_outside(self.client))
            }
            HidingRule::EnvironmentExclude => {
                let taken_away = self.grants.and_then(|grants| grants.taken_away(self.client));
                taken_away.is_some_and(Exclusions::covers_all)
            }
            HidingRule::KeyWithoutRow => matches!(self.grant, Grant::Nothing),
            HidingRule::KeyRow => matches!(self.grant, Grant::Row(row) if row.is_empty()),
            HidingRule::KeyExclude => {
                self.grants.is_some_and(|grants| grants.excludes_all(self.client))
            }
            HidingRule::Group => !self.filter.has_client_in_group(self.client),
            HidingRule::IncludeTools => false,
            HidingRule::ExcludeTools => self.filter.excludes_all_of(self.client),
        }
    }
}

/// The rules of the configuration about approvals of one tool's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolApproval {
    /// True if `tools_to_auto_execute` of the client lists the tool.
    pub is_listed: bool,
    /// True if the operator has accepted the tool's definition, or needs to accept none.
    pub is_accepted: bool,
    /// True if `tools_to_approve_twice` of the client lists the tool: two operators approve each call.
    pub needs_two: bool,
}

impl ToolApproval {
    /// Decides by a client's policy. `unaccepted` has the names at the source of its tools whose
    /// definitions the operator has not accepted yet.
    pub fn new(policy: &Policy, unaccepted: &BTreeSet<String>, tool: &Tool) -> Self {
        Self {
            is_listed: policy.auto_execute.allows_tool(tool),
            is_accepted: !unaccepted.contains(&tool.original),
            needs_two: policy.approve_twice.covers(tool),
        }
    }

    /// Returns whether a call of the tool needs an approval.
    pub fn is_needed(self) -> bool {
        self.needs_two || !(self.is_listed && self.is_accepted)
    }
}

#[cfg(test)]
mod tests;
