//! Lists of tools that are taken away, or that need more approvals.

use std::{collections::BTreeSet, sync::Arc};

use super::{Allowlist, BadList, Tool};

/// A list of tool names that are taken away, or all tools. The default takes away none. The list of the tools that two
/// operators approve has the same form, and takes away the calls without these approvals.
///
/// Names are compared without case, also where a source has tools whose names differ only in case. An
/// [`Allowlist`] compares such names exactly. If this list did too, a source could bring a tool back by
/// listing a second one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exclusions(Allowlist);

impl Exclusions {
    /// Parses a list from the configuration. Fails if it has a name twice, or `*` and other names.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BadList> {
        Allowlist::parse(names).map(Self)
    }

    /// Returns whether the list takes away a tool.
    pub fn covers(&self, tool: &Tool) -> bool {
        self.covers_name(&tool.original)
    }

    /// Returns whether the list takes away the tools that are named `name` at their source.
    pub fn covers_name(&self, name: &str) -> bool {
        self.0.allows(name)
    }

    /// Returns whether the list takes away every tool.
    pub fn covers_all(&self) -> bool {
        self.0 == Allowlist::All
    }

    /// Returns whether the list takes away no tool.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the list as it is written.
    pub fn as_list(&self) -> &Allowlist {
        &self.0
    }

    /// Returns the list that takes away what this one or another one takes away.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self(self.0.union(&other.0))
    }

    /// Iterates over the names that none of these tools has.
    pub fn unknown<'w>(&'w self, tools: &[Arc<Tool>]) -> impl Iterator<Item = &'w str> {
        let names = match &self.0 {
            Allowlist::All => None,
            Allowlist::Only(names) => Some(names.iter()),
        };
        let tools = tools.iter().filter(|_| !self.is_empty());
        let known: BTreeSet<_> = tools.map(|tool| tool.original.to_lowercase()).collect();
        names.into_iter().flatten().filter(move |name| !known.contains(&name.to_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(original: &str, has_twin: bool) -> Arc<Tool> {
        let mut tool = Tool::own("t", "", serde_json::json!({}));
        tool.original = original.to_owned();
        tool.has_twin = has_twin;
        Arc::new(tool)
    }

    #[test]
    fn a_second_tool_of_a_name_brings_none_back() {
        let list = Exclusions::parse(&["DELETE"]).expect("a good list");
        for (name, has_twin) in [("delete", false), ("delete", true), ("Delete", true)] {
            assert!(list.covers(&tool(name, has_twin)), "{name} {has_twin}");
        }
        assert!(!list.covers(&tool("read", false)) && !list.covers_all());
        let none = Exclusions::default();
        assert!(none.is_empty() && !none.covers(&tool("delete", false)));
        assert!(Exclusions::parse(&["*"]).expect("a good list").covers_all());
        assert!(Exclusions::parse(&["*", "a"]).is_err());
    }

    #[test]
    fn names_that_no_tool_has_are_found_without_case() {
        let list = Exclusions::parse(&["DELETE", "gone"]).expect("a good list");
        let tools = [tool("delete", true), tool("Delete", true)];
        assert_eq!(list.unknown(&tools).collect::<Vec<_>>(), ["gone"]);
        assert_eq!(Exclusions::parse(&["*"]).expect("a good list").unknown(&tools).count(), 0);
    }

    #[test]
    fn a_union_takes_away_what_either_does() {
        let one = Exclusions::parse(&["a"]).expect("a good list");
        let other = Exclusions::parse(&["B"]).expect("a good list");
        let both = one.union(&other);
        assert!(both.covers_name("A") && both.covers_name("b") && !both.covers_name("c"));
        assert!(both.union(&Exclusions::parse(&["*"]).expect("a good list")).covers_all());
    }
}
