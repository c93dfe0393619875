//! Decides which definitions of a list are published. Reads and writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Definition;
use airlock_core::tool::ToolDefinition;
use airlock_mcp_client::Pinning;

/// The definitions of one server that may be used, by the tools' names.
#[derive(Debug, Default)]
pub(super) struct Pinned {
    /// Definitions that were accepted, or were in the first list.
    pub(super) accepted: BTreeMap<String, Definition>,
    /// First definitions of tools that came later. Their tools need an approval.
    pub(super) later: BTreeMap<String, Definition>,
    /// True if `accepted` is the content of the lock file.
    pub(super) is_locked: bool,
    /// True if `accepted` was pinned a moment ago.
    pub(super) is_first_use: bool,
}

/// A difference between a list and the accepted definitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name of the tool at its server.
    pub tool: String,
    /// Kind of difference.
    pub kind: ChangeKind,
    /// Accepted name of a renamed tool.
    pub was: Option<String>,
    /// The accepted definition; `None` for a new tool.
    pub accepted: Option<Definition>,
    /// The definition in the list; `None` for a removed tool.
    pub pending: Option<Definition>,
    /// True if a definition of the tool is offered: the accepted one, or the first one of a new tool.
    pub is_offered: bool,
}

airlock_strings::named_enum! {
    /// Kind of a [`Change`]. The names are those in documents.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum ChangeKind {
        /// No tool of this name was accepted.
        New = "new",
        /// The definition differs from the accepted one.
        Changed = "changed",
        /// The accepted definition has another name, which the list does not have any more.
        Renamed = "renamed",
        /// The list does not have the accepted tool.
        Removed = "removed",
    }
}

/// Outcome of a list.
#[derive(Debug, Default)]
pub(super) struct PinDecision {
    /// Definitions to publish, accepted ones first.
    pub(super) tools: Vec<ToolDefinition>,
    /// Names of the tools that need an approval.
    pub(super) unaccepted: BTreeSet<String>,
    /// Differences, sorted by name.
    pub(super) changes: Vec<Change>,
}

/// Compares a list with the pinned definitions.
///
/// | tool | `TrustOnFirstUse` | `Strict` |
/// |---|---|---|
/// | as accepted | published | published |
/// | as accepted, but sets have another order | accepted definition published | accepted definition published |
/// | changed | accepted definition published | accepted definition published |
/// | new or renamed | its first definition published, needs approval | withheld |
/// | removed | not published | not published |
pub(super) fn decide(
    pinning: Pinning,
    pinned: &Pinned,
    list: Vec<(ToolDefinition, Definition)>,
) -> PinDecision {
    let mut decision = PinDecision::default();
    let listed: BTreeSet<_> = list.iter().map(|(tool, _)| tool.name.clone()).collect();
    let mut removed: BTreeSet<&String> =
        pinned.accepted.keys().filter(|name| !listed.contains(*name)).collect();
    let (known, others): (Vec<_>, Vec<_>) =
        list.into_iter().partition(|(tool, _)| pinned.accepted.contains_key(&tool.name));
    for (tool, definition) in known {
        decision.add_known(pinned, tool, definition);
    }
    let mut nameless: BTreeMap<String, &String> = BTreeMap::new();
    if !others.is_empty() {
        let accepted = removed.iter().filter_map(|name| Some((pinned.accepted.get(*name)?, *name)));
        nameless = accepted.map(|(definition, name)| (definition.nameless(), name)).collect();
    }
    for (tool, definition) in others {
        let was = nameless.remove(&definition.nameless());
        if let Some(was) = was {
            removed.remove(was);
        }
        decision.add_other(pinning, pinned, tool, definition, was);
    }
    decision.changes.extend(removed.into_iter().map(|name| Change {
        tool: name.clone(),
        kind: ChangeKind::Removed,
        was: None,
        accepted: pinned.accepted.get(name).cloned(),
        pending: None,
        is_offered: false,
    }));
    decision.changes.sort_by(|one, other| one.tool.cmp(&other.tool));
    decision
}

impl PinDecision {
    /// Adds a tool whose name is accepted.
    fn add_known(&mut self, pinned: &Pinned, tool: ToolDefinition, definition: Definition) {
        let Some(accepted) = pinned.accepted.get(&tool.name) else { return };
        if accepted.digest() == definition.digest() {
            self.tools.push(tool);
            return;
        }
        let offered = accepted.tool();
        let is_offered = offered.is_some();
        self.tools.extend(offered);
        if is_offered && accepted.is_same_but_for_order(&definition) {
            return;
        }
        self.changes.push(Change {
            tool: tool.name,
            kind: ChangeKind::Changed,
            was: None,
            accepted: Some(accepted.clone()),
            pending: Some(definition),
            is_offered,
        });
    }

    /// Adds a tool whose name is not accepted. `was` is the accepted name of its definition.
    fn add_other(
        &mut self,
        pinning: Pinning,
        pinned: &Pinned,
        tool: ToolDefinition,
        definition: Definition,
        was: Option<&String>,
    ) {
        let first = pinned.later.get(&tool.name).filter(|_| pinning == Pinning::TrustOnFirstUse);
        let first = first.and_then(Definition::tool);
        let is_offered = first.is_some();
        if let Some(first) = first {
            self.unaccepted.insert(tool.name.clone());
            self.tools.push(first);
        }
        self.changes.push(Change {
            tool: tool.name,
            kind: if was.is_some() { ChangeKind::Renamed } else { ChangeKind::New },
            was: was.cloned(),
            accepted: was.and_then(|was| pinned.accepted.get(was)).cloned(),
            pending: Some(definition),
            is_offered,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, description: &str) -> (ToolDefinition, Definition) {
        let tool = json!({"name": name, "description": description, "inputSchema": {}});
        let tool: ToolDefinition = serde_json::from_value(tool).expect("a definition");
        let definition = Definition::new(&tool).expect("not deep");
        (tool, definition)
    }

    fn map(tools: &[(&str, &str)]) -> BTreeMap<String, Definition> {
        tools.iter().map(|(name, text)| ((*name).to_owned(), tool(name, text).1)).collect()
    }

    fn pinned(accepted: &[(&str, &str)], later: &[(&str, &str)]) -> Pinned {
        Pinned { accepted: map(accepted), later: map(later), ..Pinned::default() }
    }

    /// Describes a decision: `name=description`, with `?` after tools that need an approval, then
    /// the changes.
    fn told(pinning: Pinning, pinned: &Pinned, list: &[(&str, &str)]) -> String {
        let list = list.iter().map(|(name, text)| tool(name, text)).collect();
        let decision = decide(pinning, pinned, list);
        let offered = decision.tools.iter().map(|tool| {
            let mark = if decision.unaccepted.contains(&tool.name) { "?" } else { "" };
            format!("{}={}{mark}", tool.name, tool.description)
        });
        for change in &decision.changes {
            let is_offered = decision.tools.iter().any(|tool| tool.name == change.tool);
            assert_eq!(change.is_offered, is_offered, "{}", change.tool);
        }
        let changed = decision.changes.iter().map(|change| {
            let was = change.was.as_ref().map(|was| format!("<{was}")).unwrap_or_default();
            format!("{}:{}{was}", change.tool, change.kind.name())
        });
        offered.chain(changed).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_kind_of_difference_has_its_outcome_in_each_mode() {
        use Pinning::{Strict, TrustOnFirstUse};
        let known = pinned(&[("a", "1"), ("b", "2")], &[("n", "3"), ("c", "2")]);
        for (list, first_use, strict) in [
            (&[("b", "2"), ("a", "1")][..], "b=2 a=1", "b=2 a=1"),
            (&[("a", "9"), ("b", "2")], "a=1 b=2 a:changed", "a=1 b=2 a:changed"),
            (&[("n", "3"), ("a", "1"), ("b", "2")], "a=1 b=2 n=3? n:new", "a=1 b=2 n:new"),
            (&[("a", "1"), ("b", "2"), ("n", "9")], "a=1 b=2 n=3? n:new", "a=1 b=2 n:new"),
            (&[("a", "1"), ("c", "2")], "a=1 c=2? c:renamed<b", "a=1 c:renamed<b"),
            (&[("a", "1")], "a=1 b:removed", "a=1 b:removed"),
            (&[], "a:removed b:removed", "a:removed b:removed"),
            (&[("a", "1"), ("b", "2"), ("x", "0")], "a=1 b=2 x:new", "a=1 b=2 x:new"),
        ] {
            assert_eq!(told(TrustOnFirstUse, &known, list), first_use, "{list:?}");
            assert_eq!(told(Strict, &known, list), strict, "{list:?}");
        }
    }

    #[test]
    fn a_tool_whose_sets_change_their_order_is_as_accepted_and_keeps_the_accepted_order() {
        let (accepted, definition) = requiring(["x", "y"], "1");
        let known = Pinned {
            accepted: BTreeMap::from([("a".to_owned(), definition)]),
            ..Pinned::default()
        };
        for pinning in [Pinning::Strict, Pinning::TrustOnFirstUse] {
            let decided = decide(pinning, &known, vec![requiring(["y", "x"], "1")]);
            assert_eq!((decided.tools.len(), decided.changes.len()), (1, 0));
            assert_eq!(decided.tools[0].input_schema, accepted.input_schema);
            let decided = decide(pinning, &known, vec![requiring(["y", "x"], "2")]);
            assert_eq!(decided.changes[0].kind, ChangeKind::Changed);
        }
    }

    /// Returns a tool with two required parameters.
    fn requiring(required: [&str; 2], text: &str) -> (ToolDefinition, Definition) {
        let schema = json!({"type": "object", "required": required});
        let tool = json!({"name": "a", "description": text, "inputSchema": schema});
        let tool: ToolDefinition = serde_json::from_value(tool).expect("a definition");
        let definition = Definition::new(&tool).expect("not deep");
        (tool, definition)
    }

    #[test]
    fn nothing_is_published_without_pins() {
        for pinning in [Pinning::TrustOnFirstUse, Pinning::Strict] {
            assert_eq!(told(pinning, &Pinned::default(), &[("a", "1")]), "a:new");
        }
    }

    #[test]
    fn a_new_tool_in_other_case_is_no_accepted_one_and_comes_after_it() {
        let known = pinned(&[("a-b", "1")], &[("a_b", "2"), ("A-b", "3")]);
        let list = [("a_b", "2"), ("A-b", "3"), ("a-b", "1")];
        let told = told(Pinning::TrustOnFirstUse, &known, &list);
        assert_eq!(told, "a-b=1 a_b=2? A-b=3? A-b:new a_b:new");
    }

    #[test]
    fn one_accepted_tool_has_one_new_name() {
        let told = told(Pinning::Strict, &pinned(&[("a", "1")], &[]), &[("b", "1"), ("c", "1")]);
        assert_eq!(told, "b:renamed<a c:new");
    }
}
