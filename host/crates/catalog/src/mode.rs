//! The way in which a request offers the tools for scripts: the one that it names, or the one that takes the fewest
//! tokens.
//!
//! `auto` depends on three numbers of the view alone, so it is the same for equal views:
//!
//! | condition, the first that holds | way |
//! |---|---|
//! | the view has no tools for scripts, or no meta-tools | direct |
//! | the definitions take at most [`BREAK_EVEN`] times the tokens of the meta-tools | direct |
//! | there are more tools than `code_mode_search_threshold` | search |
//! | otherwise | code |

use serde_json::{Value, json};

use super::snapshot::Snapshot;
use airlock_core::door::{Entry, Origin, OwnTools, Placement, ToolMode, View};

/// Definitions pay up to so many times the tokens of the meta-tools: these are in each request, and the files or
/// results of a search that a task needs take about as much again. With tools of usual size that is between nine and
/// twelve of them, as measured in `tests/benches/tokens.md` for a task that uses three.
const BREAK_EVEN: u64 = 2;

/// The way that was taken, with the numbers that it depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModeChoice {
    /// The way that was asked for.
    pub asked: ToolMode,
    /// The way that was taken; not `Auto`.
    pub used: ToolMode,
    /// Reason for it.
    pub reason: ModeReason,
    /// Number of tools for scripts.
    pub tools: usize,
    /// Estimated tokens of their definitions.
    pub definition_tokens: u64,
    /// Most such tokens with which `auto` offers the tools one by one.
    pub break_even_tokens: u64,
}

airlock_strings::named_enum! {
    /// Reason for the way in which tools are offered. The names are those in responses.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum ModeReason {
        /// It was asked for.
        Asked = "asked",
        /// There are no tools for scripts.
        NoScriptTools = "no_script_tools",
        /// The view has no meta-tools, so no script can run.
        NoCodeMode = "no_code_mode",
        /// The definitions take few tokens.
        UpToBreakEven = "up_to_break_even",
        /// There are more tools than `code_mode_search_threshold`.
        ManyTools = "many_tools",
        /// The definitions take many tokens, and there are few enough tools for a list of files.
        AboveBreakEven = "above_break_even",
    }
}

impl ModeChoice {
    /// Chooses the way for a view. `search` is what can be added to it.
    fn new(asked: ToolMode, view: &View, search: Option<(&OwnTools, usize)>) -> Self {
        let scripted = view.list(&Origin::Script).map(|entry| entry.tool.definition_tokens());
        let (tools, definition_tokens) =
            scripted.fold((0, 0), |(count, sum), tokens| (count + 1, sum + tokens));
        let meta = view.list(&Origin::Model).filter(|entry| is_meta(entry, search));
        let meta_tokens: u64 = meta.map(|entry| entry.tool.definition_tokens()).sum();
        let reason = ModeReason::Asked;
        let break_even_tokens = BREAK_EVEN * meta_tokens;
        Self { asked, used: asked, reason, tools, definition_tokens, break_even_tokens }
            .chosen(search.map(|(_, above)| above))
    }

    /// Chooses the way by the numbers. `search_above` is the number of tools above which there is a search; `None`
    /// if there is none.
    fn chosen(self, search_above: Option<usize>) -> Self {
        let is_direct = matches!(self.asked, ToolMode::Direct);
        let (used, reason) = if self.tools == 0 {
            (ToolMode::Direct, ModeReason::NoScriptTools)
        } else if self.break_even_tokens == 0 && !is_direct {
            (ToolMode::Direct, ModeReason::NoCodeMode)
        } else if self.asked != ToolMode::Auto {
            (self.asked, ModeReason::Asked)
        } else if self.definition_tokens <= self.break_even_tokens {
            (ToolMode::Direct, ModeReason::UpToBreakEven)
        } else if search_above.is_some_and(|above| self.tools > above) {
            (ToolMode::Search, ModeReason::ManyTools)
        } else {
            (ToolMode::Code, ModeReason::AboveBreakEven)
        };
        Self { used, reason, ..self }
    }

    /// Returns the choice in the form of responses.
    pub fn to_json(&self) -> Value {
        json!({
            "asked": self.asked.name(),
            "used": self.used.name(),
            "reason": self.reason.name(),
            "tools": self.tools,
            "definition_tokens": self.definition_tokens,
            "break_even_tokens": self.break_even_tokens,
        })
    }
}

impl Snapshot {
    /// Returns a view of this snapshot that offers the tools for scripts in the way that is asked for, and the way.
    /// The tools, and the calls that are permitted, stay the same.
    pub fn in_mode(&self, view: View, asked: ToolMode) -> (View, ModeChoice) {
        let search = self.search.as_ref().map(|search| (&search.own, search.above));
        let choice = ModeChoice::new(asked, &view, search);
        if choice.tools == 0 {
            return (view, choice);
        }
        let view = match (choice.used, search) {
            (ToolMode::Direct, _) => {
                let readers = self.reader.iter().chain(self.resource_reader());
                readers.fold(view.without_code_mode(), View::with_reader)
            }
            (ToolMode::Search, Some((own, _))) => view.with_search(own, 0),
            (_, Some((own, _))) => view.without(own),
            (_, None) => view,
        };
        (view, choice)
    }
}

/// Returns whether a tool is one of the meta-tools that every view with tools for scripts has.
fn is_meta(entry: &Entry, search: Option<(&OwnTools, usize)>) -> bool {
    let name = &entry.tool.name;
    let is_search = search.is_some_and(|(own, _)| own.tools.iter().any(|tool| tool.name == *name));
    entry.placement == Placement::Meta && !is_search
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, sync::Arc};

    use airlock_core::{
        door::{Filter, Provider},
        tool::{Allowlist, Policy, Tool},
    };
    use serde_json::json;

    use super::*;
    use crate::{
        Catalog, SourceKind,
        tests::{Unused, client},
    };

    /// Returns the choice of `auto` by its numbers.
    fn auto(tools: usize, definition_tokens: u64, search_above: Option<usize>) -> ModeChoice {
        let numbers = ModeChoice {
            asked: ToolMode::Auto,
            used: ToolMode::Auto,
            reason: ModeReason::Asked,
            tools,
            definition_tokens,
            break_even_tokens: 2_000,
        };
        numbers.chosen(search_above)
    }

    #[test]
    fn auto_depends_on_the_tokens_of_the_definitions_and_on_the_number_of_tools() {
        for (choice, used, reason) in [
            (auto(0, 0, Some(60)), ToolMode::Direct, ModeReason::NoScriptTools),
            (auto(9, 2_000, Some(60)), ToolMode::Direct, ModeReason::UpToBreakEven),
            (auto(9, 2_001, Some(60)), ToolMode::Code, ModeReason::AboveBreakEven),
            (auto(60, 9_000, Some(60)), ToolMode::Code, ModeReason::AboveBreakEven),
            (auto(61, 9_000, Some(60)), ToolMode::Search, ModeReason::ManyTools),
            (auto(61, 2_000, Some(60)), ToolMode::Direct, ModeReason::UpToBreakEven),
            (auto(61, 9_000, None), ToolMode::Code, ModeReason::AboveBreakEven),
        ] {
            assert_eq!((choice.used, choice.reason), (used, reason), "{choice:?}");
        }
    }

    #[test]
    fn without_meta_tools_every_way_is_direct() {
        for asked in ToolMode::ALL {
            let none = ModeChoice { asked, break_even_tokens: 0, ..auto(1, 9, None) };
            assert_eq!(none.chosen(None).used, ToolMode::Direct);
        }
    }

    fn own(name: &'static str) -> OwnTools {
        let tool = Tool::own(name, "Works.", json!({"type": "object"}));
        OwnTools { tools: vec![Arc::new(tool)], provider: Arc::new(Unused) as Arc<dyn Provider> }
    }

    /// Returns a catalog with a client in code mode and one that is not.
    fn catalog() -> Arc<Catalog> {
        let catalog = Catalog::new();
        for (name, code_mode) in [("scripted", true), ("plain", false)] {
            let policy = Policy { execute: Allowlist::All, code_mode, ..Policy::default() };
            let client = client(name);
            catalog.add_client(&client, SourceKind::Server("stdio"), policy);
            let tools = serde_json::from_value(json!([{"name": "t", "inputSchema": {}}]));
            catalog.blocking_publish(&client, tools.expect("definitions"), Arc::new(Unused));
        }
        catalog.set_meta_tools(own("run"));
        catalog.set_search(own("find"), 0);
        catalog.set_reader(own("read"));
        catalog
    }

    fn names(view: &View) -> BTreeSet<String> {
        view.list(&Origin::Model).map(|entry| entry.tool.name.as_str().to_owned()).collect()
    }

    #[test]
    fn each_way_offers_the_same_tools_otherwise_and_those_of_other_clients_stay_direct() {
        let snapshot = catalog().snapshot();
        for (asked, used, expected) in [
            (ToolMode::Direct, ToolMode::Direct, &["plain-t", "read", "scripted-t"][..]),
            (ToolMode::Search, ToolMode::Search, &["find", "plain-t", "read", "run"]),
            (ToolMode::Code, ToolMode::Code, &["plain-t", "read", "run"]),
            (ToolMode::Auto, ToolMode::Direct, &["plain-t", "read", "scripted-t"]),
        ] {
            let (view, choice) = snapshot.in_mode(snapshot.view(&Filter::none(), None), asked);
            assert_eq!((choice.asked, choice.used, choice.tools), (asked, used, 1));
            let offered = names(&view);
            assert!(offered.iter().eq(expected.iter()), "{asked:?}: {offered:?}");
            let callable = view.find(&Origin::Script, "scripted-t").is_some();
            assert_eq!(callable, used != ToolMode::Direct, "{asked:?}");
        }
        let kept = snapshot.view(&Filter::none(), None);
        assert!(names(&kept).contains("find"), "the views of other requests stay as they are");
    }

    #[test]
    fn a_view_without_tools_for_scripts_stays_as_it_is() {
        let snapshot = catalog().snapshot();
        let plain = Filter::parse(Some("plain"), None);
        let before = snapshot.view(&plain, None);
        let (view, choice) = snapshot.in_mode(before.clone(), ToolMode::Search);
        assert_eq!((choice.used, choice.reason), (ToolMode::Direct, ModeReason::NoScriptTools));
        assert!(view.id() == before.id());
    }
}
