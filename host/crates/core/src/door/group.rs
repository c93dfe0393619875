//! Groups of tools that are served at paths of their own.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use super::VirtualKey;
use crate::tool::{Allowlist, ClientName, INTERNAL_CLIENT, Tool};

/// Maximum bytes of a slug, the key `endpoint_slug`: it is a part of a URL and of the audience of access tokens.
pub const MAX_SLUG: usize = 64;

/// Last segment of the path of a [`ToolGroup`]: 1 to 64 lower-case letters, digits and `-`, with a
/// letter or a digit at both ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct GroupSlug(Arc<str>);

/// Reason why a text is not a valid [`GroupSlug`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSlug {
    /// It has other characters, or too many.
    #[error(
        "{0:?} is not a valid slug: use 1 to {MAX_SLUG} lower-case letters, digits or `-`, with a letter or digit at both ends"
    )]
    Form(String),
    /// It is the path of something else.
    #[error("{0:?} is reserved for the tools of an embedding program")]
    Reserved(String),
}

impl GroupSlug {
    /// Parses a slug.
    pub fn parse(text: &str) -> Result<Self, BadSlug> {
        let bytes = text.as_bytes();
        let has_form = text.len() <= MAX_SLUG
            && bytes.iter().all(|byte| is_letter_or_digit(*byte) || *byte == b'-')
            && [bytes.first(), bytes.last()]
                .iter()
                .all(|end| end.is_some_and(|byte| is_letter_or_digit(*byte)));
        if !has_form {
            return Err(BadSlug::Form(text.to_owned()));
        }
        if text == INTERNAL_CLIENT {
            return Err(BadSlug::Reserved(text.to_owned()));
        }
        Ok(Self(text.into()))
    }

    /// Derives the slug of a group from its name: letters in lower case, and one `-` for every run of
    /// other characters between them. Fails if that leaves no valid slug.
    pub fn from_name(name: &str) -> Result<Self, BadSlug> {
        let lower = name.to_ascii_lowercase();
        let words = lower.split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        Self::parse(&words.join("-"))
    }

    /// The slug as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_letter_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Maps with slugs as keys are searched with text.
impl Borrow<str> for GroupSlug {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GroupSlug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A group of tools that is served at a path of its own. It grants nothing: a request sees those of
/// its tools that it sees anyway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolGroup {
    /// Name for people.
    pub name: String,
    /// Path below that of the endpoint.
    pub slug: GroupSlug,
    /// Its tools, by client.
    pub tools: BTreeMap<ClientName, Allowlist>,
    /// Names of the virtual keys for which the group exists; `None` for every request.
    pub keys: Option<BTreeSet<String>>,
}

impl ToolGroup {
    /// Returns whether the group exists for the requests of a key, or for those without one.
    pub fn exists_for(&self, key: Option<&VirtualKey>) -> bool {
        self.keys.as_ref().is_none_or(|names| key.is_some_and(|key| names.contains(&key.name)))
    }

    /// Returns whether the group has tools of a client.
    pub fn has_client(&self, client: &ClientName) -> bool {
        self.tools.get(client).is_some_and(|tools| !tools.is_empty())
    }

    /// Returns whether the group has a tool of a client.
    pub(super) fn has(&self, client: &ClientName, tool: &Tool) -> bool {
        self.tools.get(client).is_some_and(|tools| tools.allows_tool(tool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slug_is_a_segment_of_a_path_that_needs_no_escape() {
        for good in ["a", "docs", "on-call-2", &"a".repeat(MAX_SLUG)] {
            assert_eq!(GroupSlug::parse(good).map(|slug| slug.to_string()), Ok(good.to_owned()));
        }
        let long = "a".repeat(MAX_SLUG + 1);
        for bad in ["", "-a", "a-", "A", "a_b", "a/b", "..", "ä", "a b", &long] {
            assert_eq!(GroupSlug::parse(bad), Err(BadSlug::Form(bad.to_owned())));
        }
        assert_eq!(GroupSlug::parse("internal"), Err(BadSlug::Reserved("internal".to_owned())));
    }

    #[test]
    fn a_slug_is_derived_from_the_letters_and_digits_of_a_name() {
        for (name, slug) in
            [("Docs", "docs"), (" On-call: EU (2) ", "on-call-eu-2"), ("a__b", "a-b")]
        {
            assert_eq!(
                GroupSlug::from_name(name).map(|slug| slug.to_string()),
                Ok(slug.to_owned())
            );
        }
        for name in ["", "…", "ä"] {
            assert_eq!(GroupSlug::from_name(name), Err(BadSlug::Form(String::new())), "{name}");
        }
    }

    #[test]
    fn a_group_with_keys_exists_for_these_alone() {
        let slug = GroupSlug::parse("g").expect("a slug");
        let open = ToolGroup { name: "g".to_owned(), slug, tools: BTreeMap::new(), keys: None };
        let ann = VirtualKey::new("ann", "sk-bf-ann", BTreeMap::new());
        let bob = VirtualKey::new("bob", "sk-bf-bob", BTreeMap::new());
        assert!(open.exists_for(None) && open.exists_for(Some(&ann)));
        let of_ann = ToolGroup { keys: Some(BTreeSet::from(["ann".to_owned()])), ..open };
        assert!(of_ann.exists_for(Some(&ann)));
        assert!(!of_ann.exists_for(Some(&bob)) && !of_ann.exists_for(None));
    }
}
