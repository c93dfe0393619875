//! The sources that the arguments of a script's calls may have.
//!
//! The executor finds in the source which tools' results an argument may come from, wherever the script makes the call.
//! It does not run the script for it, so a run that is resumed decides as it would have. The sources are those of the
//! results that the script has got from these tools so far, and what was read before the script began: its author has
//! written it after that.

use std::{collections::BTreeMap, sync::OnceLock};

use parking_lot::Mutex;

use airlock_core::{door::ArgumentSources, tool::SourceSet};
use airlock_sandbox::{ScriptCall, ToolFlow, ValueFlow};

/// The known sources of the values of one run.
pub(super) struct RunFlow {
    /// Sources that were read before the script began.
    before: SourceSet,
    /// Values in the arguments of each tool; not set if the executor could not find them.
    values: OnceLock<BTreeMap<String, Vec<KnownValue>>>,
    /// Sources of the results of each tool so far.
    received: Mutex<BTreeMap<String, SourceSet>>,
}

/// A value in the arguments of a tool.
struct KnownValue {
    path: String,
    /// The tools whose results it may come from.
    tools: Vec<String>,
}

impl RunFlow {
    pub(super) fn new(before: SourceSet) -> Self {
        Self { before, values: OnceLock::new(), received: Mutex::default() }
    }

    /// Takes what the executor has found, before the first call. It does so once.
    pub(super) fn follow(&self, flows: Vec<ToolFlow>) {
        if let Some(values) = known_values(flows) {
            let _ = self.values.set(values);
        }
    }

    /// Adds sources of a result of a tool.
    pub(super) fn receive(&self, tool: &str, sources: &SourceSet) {
        if !sources.is_empty() {
            self.received.lock().entry(tool.to_owned()).or_default().extend(sources);
        }
    }

    /// Returns the sources that the arguments of a call may have with which the guards leave it, of a script that has read
    /// `context`; `None` if they are not known.
    pub(super) fn of_call(
        &self,
        written: &ScriptCall,
        left: &str,
        context: &SourceSet,
    ) -> Option<ArgumentSources> {
        let known = self.sources(&written.tool, context)?;
        // Guards may have moved any value to another place.
        Some(if left == written.arguments { known } else { known.mixed() })
    }

    /// Returns the sources that the arguments of calls of a tool may have as the script writes them.
    fn sources(&self, tool: &str, context: &SourceSet) -> Option<ArgumentSources> {
        let known = self.values.get()?;
        let values = known.get(tool)?;
        let received = self.received.lock();
        // What a tool returned whose calls the executor has not found may be anywhere.
        let (found, missed): (Vec<_>, Vec<_>) =
            received.iter().partition(|(tool, _)| known.contains_key(*tool));
        let mut before = self.before.clone();
        for (_, sources) in missed {
            before.extend(sources);
        }
        let mut sources = ArgumentSources::default();
        for value in values {
            sources.add(&value.path, &of_value(value, context, &before, &found));
        }
        Some(sources)
    }
}

/// Returns the sources that a value may have: all of the context, but those that came from other tools alone.
fn of_value(
    value: &KnownValue,
    context: &SourceSet,
    before: &SourceSet,
    received: &[(&String, &SourceSet)],
) -> SourceSet {
    let mut own = before.clone();
    let mut of_others = SourceSet::default();
    for (tool, sources) in received {
        if value.tools.contains(tool) {
            own.extend(sources);
        } else {
            of_others.extend(sources);
        }
    }
    let context = context.names();
    context.filter(|source| own.contains(source) || !of_others.contains(source)).collect()
}

/// Returns the values in the arguments of each tool; `None` if what the executor has found is not valid.
fn known_values(flows: Vec<ToolFlow>) -> Option<BTreeMap<String, Vec<KnownValue>>> {
    let names: Vec<_> = flows.iter().map(|flow| flow.tool.clone()).collect();
    let mut known: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for ToolFlow { tool, values } in flows {
        for ValueFlow { path, tools } in values {
            let tools = tools.into_iter().map(|at| names.get(usize::try_from(at).ok()?).cloned());
            let tools = tools.collect::<Option<Vec<_>>>()?;
            known.entry(tool.clone()).or_default().push(KnownValue { path, tools });
        }
    }
    Some(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(tool: &str, values: &[(&str, &[u32])]) -> ToolFlow {
        let values = values
            .iter()
            .map(|(path, tools)| ValueFlow { path: (*path).to_owned(), tools: tools.to_vec() });
        ToolFlow { tool: tool.to_owned(), values: values.collect() }
    }

    fn set(names: &[&str]) -> SourceSet {
        names.iter().copied().collect()
    }

    /// Returns what is known of a run that began after `user` was read, and in which `web-get` and `crm-get` are called,
    /// and `mail-send` with what they return.
    fn run() -> RunFlow {
        let run = RunFlow::new(set(&["user"]));
        run.follow(vec![
            flow("web-get", &[("", &[])]),
            flow("crm-get", &[("", &[])]),
            flow("mail-send", &[("", &[]), ("to", &[1]), ("body", &[0, 1])]),
        ]);
        run
    }

    fn expected(values: &[(&str, &[&str])]) -> ArgumentSources {
        let mut sources = ArgumentSources::default();
        for (path, names) in values {
            sources.add(path, &set(names));
        }
        sources
    }

    #[test]
    fn a_value_has_the_sources_of_its_tools_and_those_from_before() {
        let run = run();
        let before = set(&["user"]);
        let mut known = [("", &["user"][..]), ("to", &["user"]), ("body", &["user"])];
        assert_eq!(
            run.sources("mail-send", &before),
            Some(expected(&known)),
            "nothing is read yet"
        );
        run.receive("web-get", &set(&["web"]));
        run.receive("crm-get", &set(&["crm"]));
        run.receive("crm-get", &SourceSet::default());
        known[1].1 = &["crm", "user"];
        known[2].1 = &["crm", "user", "web"];
        assert_eq!(run.sources("mail-send", &set(&["crm", "user", "web"])), Some(expected(&known)));
    }

    #[test]
    fn a_source_of_several_tools_or_of_none_is_kept() {
        let run = run();
        run.receive("web-get", &set(&["web", "feed", "user"]));
        run.receive("crm-get", &set(&["feed"]));
        let context = set(&["feed", "unknown", "user", "web"]);
        let known: [(&str, &[&str]); 3] = [
            ("", &["unknown", "user"]),
            ("to", &["feed", "unknown", "user"]),
            ("body", &["feed", "unknown", "user", "web"]),
        ];
        assert_eq!(run.sources("mail-send", &context), Some(expected(&known)));
    }

    #[test]
    fn each_argument_that_guards_leave_has_all_sources_if_they_have_changed_any() {
        let run = run();
        run.receive("web-get", &set(&["web"]));
        let context = set(&["user", "web"]);
        let arguments = r#"{"to":"a","body":"b"}"#.to_owned();
        let written = ScriptCall { tool: "mail-send".to_owned(), arguments };
        let as_written = run.of_call(&written, &written.arguments, &context);
        let known = [("", &["user"][..]), ("to", &["user"]), ("body", &["user", "web"])];
        assert_eq!(as_written, Some(expected(&known)));
        let changed = run.of_call(&written, r#"{"to":"b","body":"b"}"#, &context);
        assert_eq!(changed, Some(expected(&[("", &["user", "web"])])));
    }

    #[test]
    fn results_of_a_tool_that_was_not_found_are_a_part_of_each_value() {
        let run = run();
        run.receive("feed-get", &set(&["feed"]));
        run.receive("web-get", &set(&["web"]));
        let known: [(&str, &[&str]); 3] = [
            ("", &["feed", "user"]),
            ("to", &["feed", "user"]),
            ("body", &["feed", "user", "web"]),
        ];
        let context = set(&["feed", "user", "web"]);
        assert_eq!(run.sources("mail-send", &context), Some(expected(&known)));
    }

    #[test]
    fn without_valid_findings_nothing_is_known() {
        let run = RunFlow::new(SourceSet::default());
        assert_eq!(run.sources("a-b", &set(&["web"])), None);
        run.follow(vec![flow("a-b", &[("", &[1])])]);
        assert_eq!(run.sources("a-b", &set(&["web"])), None, "there is no second tool");
        run.follow(vec![flow("a-b", &[("", &[0])])]);
        assert_eq!(run.sources("a-c", &set(&["web"])), None);
        assert_eq!(run.sources("a-b", &set(&["web"])), Some(expected(&[("", &["web"])])));
        run.follow(vec![flow("a-c", &[("", &[])])]);
        assert_eq!(run.sources("a-c", &set(&["web"])), None, "the first findings stay");
    }
}
