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
    /// Names of environments; `None` for all, and for requests without one.
    pub environments: Option<BTreeSet<String>>,
}

impl Scope {
    /// Returns whether a call is one of them.
    pub fn has(&self, call: &ProposedCall<'_>) -> bool {
        let name = call.tool.full_name.as_str();
        self.has_tool(name)
            && self.has_client(call.tool.client.as_ref())
            && self.has_member(call.membership)
    }

    /// Returns whether the definition of a tool is one of them. It is listed for all keys, so a list of keys or environments
    /// has none.
    pub fn has_definition(&self, tool: &Tool) -> bool {
        !self.is_of_keys()
            && self.has_tool(tool.full_name.as_str())
            && self.has_client(tool.client.as_ref())
    }

    /// Returns whether a request to a model is one of them. It has no tool, so a list of tools or clients has none.
    pub fn has_model(&self, membership: &Membership) -> bool {
        self.tools.is_none() && self.clients.is_none() && self.has_member(membership)
    }

    /// Returns whether it is that of some keys or environments alone.
    pub fn is_of_keys(&self) -> bool {
        self.keys.is_some() || self.environments.is_some()
    }

    /// Returns the names in the lists that no client, no key and no environment has: they may be misspelt. The client of
    /// a pattern is known if there is no star before its end.
    pub fn unmatched(
        &self,
        clients: &BTreeSet<&str>,
        has_key: impl Fn(&str) -> bool,
        has_environment: impl Fn(&str) -> bool,
    ) -> BTreeSet<String> {
        let names = self.clients.iter().flatten().map(ClientName::as_str);
        let names = names.filter(|name| !clients.contains(name));
        let patterns = self.tools.iter().flatten().filter_map(ToolPattern::client);
        let patterns =
            patterns.filter(|name| !clients.iter().any(|client| client.eq_ignore_ascii_case(name)));
        let keys = self.keys.iter().flatten().map(String::as_str).filter(|name| !has_key(name));
        let environments = self.environments.iter().flatten().map(String::as_str);
        let environments = environments.filter(|name| !has_environment(name));
        names.chain(patterns).chain(keys).chain(environments).map(str::to_owned).collect()
    }

    fn has_tool(&self, name: &str) -> bool {
        let tools = self.tools.as_ref();
        tools.is_none_or(|tools| tools.iter().any(|pattern| pattern.matches(name)))
    }

    fn has_client(&self, name: Option<&ClientName>) -> bool {
        let clients = self.clients.as_ref();
        clients.is_none_or(|clients| name.is_some_and(|name| clients.contains(name)))
    }

    fn has_member(&self, member: &Membership) -> bool {
        let environment = member.environment.as_ref();
        let environments = self.environments.as_ref();
        self.has_key(member.key_name.as_deref())
            && environments
                .is_none_or(|listed| environment.is_some_and(|name| listed.contains(name)))
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
            environments: Some(["eu", "us"].map(str::to_owned).into()),
            ..keys(&["ann", "bob"])
        };
        let known = ["files", "mail"].into();
        let found = scope.unmatched(&known, |key| key == "ann", |environment| environment == "eu");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["bob", "mial", "us", "web"]);
        assert!(Scope::default().unmatched(&BTreeSet::new(), |_| false, |_| false).is_empty());
    }

    #[test]
    fn a_request_is_in_an_environment_by_its_key() {
        let environments = Some(["eu".to_owned()].into());
        let scope = Scope { environments, ..Scope::default() };
        for (environment, expected) in [(Some("eu"), true), (Some("us"), false), (None, false)] {
            let environment = environment.map(str::to_owned);
            let member = Membership { environment, ..Membership::default() };
            assert_eq!(scope.has_model(&member), expected, "{member:?}");
            let of_ann = Scope { keys: keys(&["ann"]).keys, ..scope.clone() };
            assert!(!of_ann.has_model(&member), "every list has to have it");
            let ann = Membership { key_name: Some("ann".to_owned()), ..member };
            assert_eq!(of_ann.has_model(&ann), expected);
        }
        assert!(Scope::default().has_model(&Membership::default()));
        assert!(scope.is_of_keys() && !Scope::default().is_of_keys());
    }
}
