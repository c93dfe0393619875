//! `mcp.information_flow`.

use super::{
    resolved::Resolved,
    same_variants::{SameVariants as _, same_variants},
};
use airlock_config_file::{file, key_path::KeyPath};
use airlock_core::{
    door::{SinkArgument, SinkDecision, SinkRule, SinkRules, SourceSelection},
    tool::{ClientName, SourceSet, ToolPattern},
};

/// Maximum number of rules: caps `mcp.information_flow.sinks`. Each call of a tool is compared with all of them.
const MAX_SINKS: usize = 256;
/// Maximum number of arguments of a rule: caps `arguments`. Each is looked for in the arguments of a call, of up to 1 MiB.
const MAX_ARGUMENTS: usize = 32;
/// Stands for all sources.
const ALL: &str = "*";
/// Reason that a list without elements is refused.
const EMPTY: &str = "is empty, so that the rule is about no call";

/// Resolves the rules about sinks. Problems have their whole keys.
pub(super) fn resolve(flow: file::InformationFlow) -> Resolved<SinkRules> {
    Resolved::new(|problems| {
        SinkRules(problems.take(KeyPath::parse("mcp.information_flow.sinks"), sinks(flow.sinks)))
    })
}

fn sinks(sinks: Vec<file::Sink>) -> Resolved<Vec<SinkRule>> {
    let count = sinks.len();
    let resolved = Resolved::elements(sinks, |problems, sink| {
        let file::Sink { tools, from, arguments, decision } = sink;
        Some(SinkRule {
            tools: problems.take("tools", patterns(tools)),
            from: problems.take("from", sources(from)),
            arguments: problems.take("arguments", paths(arguments)),
            decision: decision.same(),
        })
    });
    let reason = format!("{count} sinks; the limit is {MAX_SINKS}");
    resolved.refused_if(count > MAX_SINKS, reason)
}

fn patterns(tools: Vec<String>) -> Resolved<Vec<ToolPattern>> {
    let is_empty = tools.is_empty();
    let patterns = Resolved::elements(tools, |problems, text| {
        problems.accept_whole(ToolPattern::parse(&text))
    });
    patterns.refused_if(is_empty, EMPTY)
}

fn paths(arguments: Vec<String>) -> Resolved<Vec<SinkArgument>> {
    let count = arguments.len();
    let paths = Resolved::elements(arguments, |problems, path| {
        problems.accept_whole(SinkArgument::parse(&path))
    });
    let reason = format!("{count} arguments; the limit is {MAX_ARGUMENTS}");
    paths.refused_if(count > MAX_ARGUMENTS, reason)
}

fn sources(from: Vec<String>) -> Resolved<SourceSelection> {
    let is_empty = from.is_empty();
    let is_all = from.iter().any(|source| source == ALL);
    let names = Resolved::elements(from, |problems, source| {
        if source == ALL { None } else { problems.accept_whole(ClientName::parse(&source)) }
    });
    names.refused_if(is_empty, EMPTY).map(|names| {
        if is_all {
            return SourceSelection::All;
        }
        SourceSelection::Named(names.iter().map(ClientName::as_str).collect::<SourceSet>())
    })
}

same_variants!(file::SinkDecision => SinkDecision { Deny, Ask });
