//! The table of views: from the claims of a token to the tools that its sender sees.

use serde_json::Value;

use crate::json::Object;

/// A row of the table. The first row that matches decides; a token that no row matches is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewRule {
    /// Name of a claim, or the path to a nested one, such as `realm_access.roles`. A member whose
    /// name is the whole rest of the path is preferred, so `https://example.com/roles` works too.
    pub claim: String,
    /// Value that the claim has: its text, or one of its texts if it is a list, or one word of
    /// `scope` and `scp`. Compared byte by byte. Numbers and booleans match nothing.
    pub value: String,
    /// Names what the sender sees, to the caller of this crate: a virtual key, or roles.
    pub view: String,
}

impl ViewRule {
    /// Returns whether the rule is about a claim that lists scopes in one text.
    pub(crate) fn is_about_scopes(&self) -> bool {
        matches!(self.claim.as_str(), "scope" | "scp")
    }

    fn matches(&self, claims: &Object) -> bool {
        texts(claims, &self.claim).any(|text| self.is_value(text))
    }

    fn is_value(&self, text: &str) -> bool {
        text == self.value
            || self.is_about_scopes() && text.split(' ').any(|word| word == self.value)
    }
}

/// Returns the text of a claim, or its texts if it is a list; none for a claim of another type.
pub(crate) fn texts<'c>(claims: &'c Object, path: &str) -> impl Iterator<Item = &'c str> {
    let found = find(claims, path);
    let list = found.and_then(Value::as_array).into_iter().flatten();
    found.into_iter().filter(|found| found.is_string()).chain(list).filter_map(Value::as_str)
}

/// Returns the view of the first rule that matches.
pub(crate) fn view<'a>(rules: &'a [ViewRule], claims: &Object) -> Option<&'a str> {
    rules.iter().find(|rule| rule.matches(claims)).map(|rule| rule.view.as_str())
}

fn find<'a>(object: &'a Object, path: &str) -> Option<&'a Value> {
    object.get(path).or_else(|| {
        let (first, rest) = path.split_once('.')?;
        find(object.get(first)?.as_object()?, rest)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(claim: &str, value: &str, view: &str) -> ViewRule {
        ViewRule { claim: claim.to_owned(), value: value.to_owned(), view: view.to_owned() }
    }

    fn matches(claim: &str, value: &str, claims: &Value) -> bool {
        rule(claim, value, "v").matches(claims.as_object().expect("an object"))
    }

    #[test]
    fn a_claim_matches_as_text_as_list_and_as_scope() {
        let claims = json!({
            "group": "ops",
            "groups": ["dev", "ops", 7, ["deep"]],
            "scope": "tools:read tools:write",
            "scp": ["a", "b c"],
            "realm_access": { "roles": ["admin"], "a.b": "dotted" },
            "https://example.com/roles": ["lead"],
        });
        for (claim, value) in [
            ("group", "ops"),
            ("groups", "dev"),
            ("groups", "ops"),
            ("scope", "tools:read"),
            ("scope", "tools:write"),
            ("scp", "a"),
            ("scp", "c"),
            ("realm_access.roles", "admin"),
            ("realm_access.a.b", "dotted"),
            ("https://example.com/roles", "lead"),
        ] {
            assert!(matches(claim, value, &claims), "{claim} {value}");
        }
    }

    #[test]
    fn a_claim_does_not_match_in_part_or_by_another_type() {
        let claims = json!({
            "group": "ops dev",
            "groups": ["ops dev", 7, null, { "ops": true }, ["ops"]],
            "scope": "tools:read",
            "number": 7,
            "flag": true,
            "none": null,
            "realm_access": { "roles": { "admin": {} } },
            "nested": [{ "roles": ["admin"] }],
        });
        for (claim, value) in [
            ("group", "ops"),
            ("group", "OPS DEV"),
            ("group", ""),
            ("groups", "ops"),
            ("groups", "7"),
            ("scope", "tools"),
            ("scope", ""),
            ("number", "7"),
            ("flag", "true"),
            ("none", "null"),
            ("missing", "ops"),
            ("realm_access", "roles"),
            ("realm_access.roles", "admin"),
            ("realm_access.roles.", "admin"),
            (".realm_access.roles", "admin"),
            ("realm_access.roles.admin", "admin"),
            ("nested.roles", "admin"),
            ("nested.0.roles", "admin"),
            ("group.ops", "dev"),
        ] {
            assert!(!matches(claim, value, &claims), "{claim} {value}");
        }
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rules = [
            rule("groups", "admins", "everything"),
            rule("groups", "staff", "most"),
            rule("groups", "admins", "nothing"),
        ];
        assert_eq!(view_of(&rules, &["staff", "admins"]).as_deref(), Some("everything"));
        assert_eq!(view_of(&rules, &["staff"]).as_deref(), Some("most"));
        assert_eq!(view_of(&rules, &["guests"]), None);
        assert_eq!(view_of(&rules, &[]), None);
    }

    fn view_of(rules: &[ViewRule], groups: &[&str]) -> Option<String> {
        let claims = json!({ "groups": groups });
        view(rules, claims.as_object().expect("an object")).map(str::to_owned)
    }
}
