//! The operator's policy for the tools of one client.

use std::collections::BTreeSet;

/// A list of tool names, or all tools. Names are compared without case, as the configuration always
/// did. An empty list allows no tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whitelist {
    /// All tools, written `["*"]`.
    All,
    /// The tools with these names, in lower case.
    Only(BTreeSet<String>),
}

/// Reason why a list is not a valid [`Whitelist`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadWhitelist {
    /// The list has `*` and other names.
    #[error("\"*\" stands for every tool and must be the only entry")]
    StarWithOthers,
    /// The list has the same name twice.
    #[error("{0:?} is listed twice (case does not count)")]
    Duplicate(String),
}

impl Default for Whitelist {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl Whitelist {
    /// Parses a list from the configuration. Fails if it has a name twice, or `*` and other names.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BadWhitelist> {
        if let [only] = names
            && only.as_ref() == "*"
        {
            return Ok(Self::All);
        }
        let mut set = BTreeSet::new();
        for name in names.iter().map(AsRef::as_ref) {
            if name == "*" {
                return Err(BadWhitelist::StarWithOthers);
            }
            if !set.insert(name.to_lowercase()) {
                return Err(BadWhitelist::Duplicate(name.to_owned()));
            }
        }
        Ok(Self::Only(set))
    }

    /// Returns whether the list allows `name`.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(&name.to_lowercase()),
        }
    }

    /// Returns whether the list allows no tool.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.is_empty())
    }

    /// Returns a name of `self` that `other` does not allow; `None` if there is none.
    pub fn beyond(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (_, Self::All) => None,
            (Self::All, Self::Only(_)) => Some("*".into()),
            (Self::Only(names), Self::Only(_)) => {
                names.iter().find(|name| !other.allows(name)).cloned()
            }
        }
    }
}

/// Policy for the tools of one client. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// Tools that may be called at all.
    pub execute: Whitelist,
    /// Tools that may be called without an approval; a subset of `execute`.
    pub auto_execute: Whitelist,
    /// True if the tools are listed for scripts, behind the meta-tools, and hidden from models.
    pub code_mode: bool,
    /// True if a virtual key without a row for this client may use all its tools.
    pub allow_on_all_keys: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_must_be_the_only_entry_and_case_does_not_count() {
        assert_eq!(Whitelist::parse(&["*"]), Ok(Whitelist::All));
        assert_eq!(Whitelist::parse(&["*", "a"]), Err(BadWhitelist::StarWithOthers));
        assert_eq!(Whitelist::parse(&["a", "A"]), Err(BadWhitelist::Duplicate("A".into())));
        let list = Whitelist::parse(&["Read_File"]).expect("a good list");
        assert!(list.allows("read_file") && list.allows("READ_FILE") && !list.allows("write_file"));
        assert!(!Whitelist::default().allows("a") && Whitelist::default().is_empty());
    }

    #[test]
    fn beyond_returns_a_name_that_the_other_list_does_not_allow() {
        let list = |names: &[&str]| Whitelist::parse(names).expect("a good list");
        assert_eq!(list(&["a"]).beyond(&list(&["a", "b"])), None);
        assert_eq!(list(&["a", "c"]).beyond(&list(&["a", "b"])), Some("c".into()));
        assert_eq!(Whitelist::All.beyond(&list(&["a"])), Some("*".into()));
        assert_eq!(Whitelist::All.beyond(&Whitelist::All), None);
    }
}
