//! The calls that a guard is asked about.

use std::collections::BTreeSet;

use airlock_core::{
    door::{Membership, ProposedCall, ROLES_PREFIX, roles_of_view},
    tool::{ClientName, Tool, ToolPattern},
};

/// The calls that a guard is asked about: those that every list has. The default has all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    /// Full names of tools; `None` for all.
    pub tools: Option<Vec<ToolPattern>>,
    /// Clients; `None` for all.
    pub clients: Option<BTreeSet<ClientName>>,
    /// Names of virtual keys, and `roles:NAME` for users with a role; `None` for all, and for requests without a key.
    pub keys: Option<BTreeSet<String>>,
}

impl Scope {
    /// Returns whether a call is one of them.
    pub fn has(&self, call: &ProposedCall<'_>) -> bool {
        let name = call.tool.full_name.as_str();
        self.has_tool(name)
            && self.has_client(call.tool.client.as_ref())
            && self.has_key(call.membership.key_name.as_deref())
    }

    /// Returns whether the definition of a tool is one of them. It is listed for all keys, so a list of keys has none.
    pub fn has_definition(&self, tool: &Tool) -> bool {
        self.keys.is_none()
            && self.has_tool(tool.full_name.as_str())
            && self.has_client(tool.client.as_ref())
    }

    /// Returns whether a request to a model is one of them. It has no tool, so a list of tools or clients has none.
    pub fn has_model(&self, membership: &Membership) -> bool {
        self.tools.is_none()
            && self.clients.is_none()
            && self.has_key(membership.key_name.as_deref())
    }

    /// Returns the names in the lists that no client and no key has: they may be misspelt. The client of a pattern is
    /// known if there is no star before its end.
    pub fn unmatched(
        &self,
        clients: &BTreeSet<&str>,
        has_key: impl Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        let names = self.clients.iter().flatten().map(ClientName::as_str);
        let names = names.filter(|name| !clients.contains(name));
        let patterns = self.tools.iter().flatten().filter_map(ToolPattern::client);
        let patterns =
            patterns.filter(|name| !clients.iter().any(|client| client.eq_ignore_ascii_case(name)));
        let keys = self.keys.iter().flatten().map(String::as_str);
        let keys = keys.filter(|name| !has_key(name));
        names.chain(patterns).chain(keys).map(str::to_owned).collect()
    }

    fn has_tool(&self, name: &str) -> bool {
        let tools = self.tools.as_ref();
        tools.is_none_or(|tools| tools.iter().any(|pattern| pattern.matches(name)))
    }

    fn has_client(&self, name: Option<&ClientName>) -> bool {
        let clients = self.clients.as_ref();
        clients.is_none_or(|clients| name.is_some_and(|name| clients.contains(name)))
    }

    /// Returns whether a key is listed. One key stands for all roles of a user: it is listed if one of them is.
    fn has_key(&self, name: Option<&str>) -> bool {
        let Some(keys) = &self.keys else { return true };
        let Some(name) = name else { return false };
        keys.contains(name)
            || roles_of_view(name).any(|role| keys.contains(&format!("{ROLES_PREFIX}{role}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Scope {
        let keys = names.iter().map(|name| (*name).to_owned()).collect();
        Scope { keys: Some(keys), ..Scope::default() }
    }

    #[test]
    fn a_key_of_several_roles_is_listed_if_one_of_them_is() {
        for (listed, name, expected) in [
            ("ann", Some("ann"), true),
            ("ann", Some("bob"), false),
            ("ann", None, false),
            ("roles:desk", Some("roles:desk"), true),
            ("roles:desk", Some("roles:audit,desk"), true),
            ("roles:desk", Some("roles:audit,desks"), false),
            ("roles:desk", Some("desk"), false),
            ("desk", Some("roles:desk"), false),
        ] {
            assert_eq!(keys(&[listed]).has_key(name), expected, "{listed} {name:?}");
        }
        assert!(Scope::default().has_key(None));
    }

    #[test]
    fn names_that_nothing_has_are_found() {
        let patterns = ["Files-read", "mial-*", "*-send", "fi*les-x", "*"];
        let patterns = patterns.map(|text| ToolPattern::parse(text).expect("a good pattern"));
        let clients = ["files", "web"].map(|name| ClientName::parse(name).expect("a name"));
        let scope = Scope {
            tools: Some(patterns.into()),
            clients: Some(clients.into()),
            ..keys(&["ann", "bob"])
        };
        let found = scope.unmatched(&["files", "mail"].into(), |key| key == "ann");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["bob", "mial", "web"]);
        assert!(Scope::default().unmatched(&BTreeSet::new(), |_| false).is_empty());
    }
}
