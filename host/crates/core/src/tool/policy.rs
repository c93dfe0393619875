//! The operator's policy for the tools of one client.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{CacheRule, ClientName, Exclusions, Tool, Trust};

/// A list of tool names, or all tools. An empty list allows no tool.
///
/// Names are compared without case, as the configuration always did, unless the source has several
/// tools whose names differ only in case: an entry then means the tool with exactly its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Allowlist {
    /// All tools, written `["*"]`.
    All,
    /// The tools with these names.
    Only(Names),
}

/// The names of an [`Allowlist`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    exact: BTreeSet<String>,
    /// The same in lower case.
    folded: BTreeSet<String>,
}

impl Names {
    /// Iterates over the names as they were written, sorted.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.exact.iter().map(String::as_str)
    }
}

/// Reason why a list is not a valid [`Allowlist`] or [`UriList`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadList {
    /// The list has `*` and other entries.
    #[error("\"*\" stands for every {of} and must be the only entry")]
    StarWithOthers {
        /// The kind of its entries.
        of: &'static str,
    },
    /// The list has the same entry twice.
    #[error("{0:?} is listed twice")]
    Duplicate(String),
}

/// Reads the entries of a list of the configuration; `None` for `["*"]`.
fn entries<S: AsRef<str>>(
    list: &[S],
    of: &'static str,
) -> Result<Option<BTreeSet<String>>, BadList> {
    let mut set = BTreeSet::new();
    for entry in list.iter().map(AsRef::as_ref) {
        if !set.insert(entry.to_owned()) {
            return Err(BadList::Duplicate(entry.to_owned()));
        }
    }
    let is_all = set.contains("*");
    if is_all && set.len() > 1 {
        return Err(BadList::StarWithOthers { of });
    }
    Ok((!is_all).then_some(set))
}

impl Default for Allowlist {
    fn default() -> Self {
        Self::Only(Names::default())
    }
}

impl Allowlist {
    /// Parses a list from the configuration. Fails if it has a name twice, or `*` and other names.
    pub fn parse<S: AsRef<str>>(names: &[S]) -> Result<Self, BadList> {
        let Some(exact) = entries(names, "tool")? else { return Ok(Self::All) };
        let folded = exact.iter().map(|name| name.to_lowercase()).collect();
        Ok(Self::Only(Names { exact, folded }))
    }

    /// Returns whether the list allows a tool.
    pub fn allows_tool(&self, tool: &Tool) -> bool {
        match self {
            Self::Only(names) if tool.has_twin => names.exact.contains(&tool.original),
            _ => self.allows(&tool.original),
        }
    }

    /// Returns whether the list allows a tool that is named `name`, if no other tool of its source
    /// has the same name but for case.
    pub fn allows(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.folded.contains(&name.to_lowercase()),
        }
    }

    /// Returns whether the list allows no tool.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(names) if names.exact.is_empty())
    }

    /// Iterates over the names that none of these tools has.
    pub fn unknown<'w>(&'w self, tools: &'w [Arc<Tool>]) -> impl Iterator<Item = &'w str> {
        let names = match self {
            Self::All => None,
            Self::Only(names) => Some(names.iter()),
        };
        let mut twins = BTreeSet::new();
        let mut folded = BTreeSet::new();
        for tool in tools.iter().filter(|_| !self.is_empty()) {
            if tool.has_twin {
                twins.insert(tool.original.as_str());
            } else {
                folded.insert(tool.original.to_lowercase());
            }
        }
        names
            .into_iter()
            .flatten()
            .filter(move |name| !twins.contains(name) && !folded.contains(&name.to_lowercase()))
    }

    /// Returns the list that allows what this one or another one allows.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(one), Self::Only(other)) => Self::Only(Names {
                exact: one.exact.union(&other.exact).cloned().collect(),
                folded: one.folded.union(&other.folded).cloned().collect(),
            }),
        }
    }

    /// Returns a name of `self` that `other` does not allow; `None` if there is none.
    pub fn beyond(&self, other: &Self) -> Option<String> {
        match (self, other) {
            (_, Self::All) => None,
            (Self::All, Self::Only(_)) => Some("*".into()),
            (Self::Only(names), Self::Only(_)) => {
                names.iter().find(|name| !other.allows(name)).map(str::to_owned)
            }
        }
    }
}

/// A list of URIs, or all URIs. An entry that ends with `*` stands for every URI that begins with
/// the rest of it. Upper and lower case differ. An empty list allows none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UriList {
    /// All URIs, written `["*"]`.
    All,
    /// The URIs that match one of these entries.
    Only(BTreeSet<String>),
}

impl Default for UriList {
    fn default() -> Self {
        Self::Only(BTreeSet::new())
    }
}

impl UriList {
    /// Parses a list from the configuration. Fails if it has an entry twice, or `*` and others.
    pub fn parse<S: AsRef<str>>(list: &[S]) -> Result<Self, BadList> {
        Ok(entries(list, "URI")?.map_or(Self::All, Self::Only))
    }

    /// Returns the list that allows what this one or another one allows.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, _) | (_, Self::All) => Self::All,
            (Self::Only(one), Self::Only(other)) => Self::Only(one | other),
        }
    }

    /// Returns whether the list allows `uri`. A URI with a segment `.` or `..` after the beginning
    /// that an entry names is not allowed: it may lead to any other place.
    pub fn allows(&self, uri: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(entries) => entries.iter().any(|entry| match entry.strip_suffix('*') {
                Some(start) => uri.strip_prefix(start).is_some_and(|rest| !has_dot_segment(rest)),
                None => entry == uri,
            }),
        }
    }

    /// Returns whether the list allows every URI that a URI template expands to, or names it.
    pub fn allows_template(&self, template: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(entries) => entries.iter().any(|entry| match entry.strip_suffix('*') {
                Some(start) => template.starts_with(start),
                None => entry == template,
            }),
        }
    }

    /// Returns whether the list allows no URI.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(entries) if entries.is_empty())
    }
}

/// Returns whether a part of a URI has a segment `.` or `..`, written out or percent-encoded.
fn has_dot_segment(part: &str) -> bool {
    let plain = part.to_ascii_lowercase().replace("%2e", ".");
    let plain = plain.replace("%2f", "/").replace("%5c", "/");
    plain.split(['/', '\\', '?', '#']).any(|segment| matches!(segment, "." | ".."))
}

/// Policy for the tools of one client. The default allows nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a setting of the operator")]
pub struct Policy {
    /// Tools that may be called at all.
    pub execute: Allowlist,
    /// Tools that may not be called, whatever `execute` says.
    pub exclude: Exclusions,
    /// Tools that may be called without an approval; a subset of `execute`.
    pub auto_execute: Allowlist,
    /// Tools whose calls two operators approve. None of them runs without an approval.
    pub approve_twice: Exclusions,
    /// True if the tools are listed for scripts, behind the meta-tools, and hidden from models.
    pub code_mode: bool,
    /// True if a virtual key without a row for this client may use all its tools.
    pub allow_on_all_keys: bool,
    /// True if the client belongs to some virtual keys: only requests with a key that
    /// [owns](crate::door::Grants::owned) it may know of it. Such a key may use all its tools without a
    /// row.
    pub is_owned: bool,
    /// Selects whether the texts of this client are marked as external for models.
    pub trust: Trust,
    /// Prefix of the names of its tools.
    pub prefix: Prefix,
    /// Resources that MCP clients may read.
    pub resources: UriList,
    /// Prompts that MCP clients may get.
    pub prompts: Allowlist,
    /// True if the instructions of the source are passed on to MCP clients.
    pub relays_instructions: bool,
    /// Results of its tools that are kept. No tool belongs to two of the rules.
    pub cache: Vec<CacheRule>,
    /// Tools of other clients that are called while the client is away: full names by the names of its
    /// own tools at the source.
    pub fallbacks: BTreeMap<String, String>,
}

impl Policy {
    /// Returns the full name of the tool that takes the calls of `tool` while the client is away.
    pub fn fallback(&self, tool: &Tool) -> Option<&str> {
        let name = match self.fallbacks.get(&tool.original) {
            Some(name) => Some(name),
            None if tool.has_twin => None,
            None => self.fallbacks.iter().find_map(|(own, name)| {
                (own.to_lowercase() == tool.original.to_lowercase()).then_some(name)
            }),
        };
        name.map(String::as_str)
    }
}

/// Prefix of the names of one client's tools on the wire.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Prefix {
    /// The name of the client.
    #[default]
    Client,
    /// Another prefix, with the grammar of a client's name. No client has this name, and no other
    /// client this prefix.
    Other(ClientName),
    /// None: tools have their names at the source, where no other tool has them.
    Off,
}

impl Prefix {
    /// Returns the prefix that separates the tools of `client` from those of other clients. Without
    /// a prefix, the client's name is what a tool gets whose own name is taken.
    pub fn for_client<'p>(&'p self, client: &'p ClientName) -> &'p ClientName {
        match self {
            Self::Other(prefix) => prefix,
            Self::Client | Self::Off => client,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_must_be_the_only_entry_and_case_does_not_count() {
        assert_eq!(Allowlist::parse(&["*"]), Ok(Allowlist::All));
        assert_eq!(Allowlist::parse(&["*", "a"]), Err(BadList::StarWithOthers { of: "tool" }));
        assert_eq!(Allowlist::parse(&["A", "A"]), Err(BadList::Duplicate("A".into())));
        assert!(Allowlist::parse(&["getUser", "getuser"]).is_ok());
        let list = Allowlist::parse(&["Read_File"]).expect("a good list");
        assert!(list.allows("read_file") && list.allows("READ_FILE") && !list.allows("write_file"));
        assert!(!Allowlist::default().allows("a") && Allowlist::default().is_empty());
    }

    #[test]
    fn an_entry_means_exactly_its_tool_where_names_differ_only_in_case() {
        let list = Allowlist::parse(&["getuser"]).expect("a good list");
        assert!(
            list.allows_tool(&tool_named("GetUser", false))
                && list.allows_tool(&tool_named("getuser", true))
        );
        assert!(!list.allows_tool(&tool_named("GetUser", true)));
        // An entry that is neither of them opens none of them.
        let list = Allowlist::parse(&["GETUSER"]).expect("a good list");
        assert!(
            !list.allows_tool(&tool_named("GetUser", true))
                && !list.allows_tool(&tool_named("getuser", true))
        );
        assert!(Allowlist::All.allows_tool(&tool_named("GetUser", true)));
    }

    fn tool_named(name: &str, has_twin: bool) -> Tool {
        let mut tool = Tool::own("t", "", serde_json::json!({}));
        tool.original = name.to_owned();
        tool.has_twin = has_twin;
        tool
    }

    #[test]
    fn a_list_of_uris_has_exact_entries_and_beginnings_that_cannot_be_left() {
        let list = UriList::parse(&["memo://a", "file:///docs/*"]).expect("a good list");
        for allowed in ["memo://a", "file:///docs/x", "file:///docs/a..b/.hidden"] {
            assert!(list.allows(allowed), "{allowed}");
        }
        for other in [
            "memo://A",
            "memo://a/b",
            "file:///doc",
            "file:///docs/../etc",
            "file:///docs/a/..",
            "file:///docs/%2E%2e/etc",
            "file:///docs/a%2f..%2Fetc",
            "file:///docs/..\\etc",
            "file:///docs/..?x",
        ] {
            assert!(!list.allows(other), "{other}");
        }
        assert!(
            list.allows_template("file:///docs/{name}") && !list.allows_template("file:///{x}")
        );
        assert!(!list.allows("") && UriList::default().is_empty() && !list.is_empty());
        assert!(UriList::All.allows("x") && UriList::All.allows_template("{x}"));
        assert_eq!(UriList::parse(&["*"]), Ok(UriList::All));
        assert_eq!(UriList::parse(&["*", "a"]), Err(BadList::StarWithOthers { of: "URI" }));
        assert_eq!(UriList::parse(&["a", "a"]), Err(BadList::Duplicate("a".into())));
    }

    #[test]
    fn beyond_returns_a_name_that_the_other_list_does_not_allow() {
        assert_eq!(list(&["a"]).beyond(&list(&["a", "b"])), None);
        assert_eq!(list(&["a", "c"]).beyond(&list(&["a", "b"])), Some("c".into()));
        assert_eq!(Allowlist::All.beyond(&list(&["a"])), Some("*".into()));
        assert_eq!(Allowlist::All.beyond(&Allowlist::All), None);
    }

    fn list(names: &[&str]) -> Allowlist {
        Allowlist::parse(names).expect("a good list")
    }
}
