//! Names of the tools of one client on the wire, with its prefix.

use std::{collections::BTreeMap, sync::Arc};

use super::LeftOut;
use airlock_core::tool::{
    ClientName, Policy, Prefix, Tool, ToolDefinition, ToolName, distinct_names,
};

/// Maximum number of tools that one client may publish. Further tools are dropped, and
/// reported to the operator. Real servers have at most a few hundred; the catalog is searched, compared
/// and listed whole.
pub const MAX_TOOLS_PER_CLIENT: usize = 2_000;

/// Checks the definitions of one client and assigns names. Returns the tools, sorted by name, and
/// those that are left out. Of definitions with the same name the first one is kept.
pub(super) fn adopt_all(
    client: &ClientName,
    policy: &Policy,
    definitions: Vec<ToolDefinition>,
) -> (Vec<Arc<Tool>>, Vec<LeftOut>) {
    let mut dropped = Vec::new();
    let mut tools: BTreeMap<String, Tool> = BTreeMap::new();
    for (count, definition) in definitions.into_iter().enumerate() {
        if count == MAX_TOOLS_PER_CLIENT {
            dropped.push(LeftOut::beyond(MAX_TOOLS_PER_CLIENT));
            break;
        }
        match Tool::adopt(client, definition) {
            Ok(tool) if tools.contains_key(&tool.original) => {
                dropped.push(LeftOut::second(&tool.original));
            }
            Ok(tool) => drop(tools.insert(tool.original.clone(), tool)),
            Err(error) => dropped.push(error.into()),
        }
    }
    (named(client, policy, tools, &mut dropped), dropped)
}

/// Names tools, and sets the parts that depend on the names of all tools of the client.
fn named(
    client: &ClientName,
    policy: &Policy,
    tools: BTreeMap<String, Tool>,
    dropped: &mut Vec<LeftOut>,
) -> Vec<Arc<Tool>> {
    let mut spellings: BTreeMap<String, usize> = BTreeMap::new();
    for original in tools.keys() {
        *spellings.entry(original.to_lowercase()).or_default() += 1;
    }
    let full_names = own(distinct_names(client, tools.keys().map(String::as_str)));
    let names = match &policy.prefix {
        Prefix::Other(prefix) => own(distinct_names(prefix, tools.keys().map(String::as_str))),
        Prefix::Client | Prefix::Off => full_names.clone(),
    };
    let mut list = Vec::with_capacity(tools.len());
    for (original, mut tool) in tools {
        let (Some(name), Some(full_name)) = (names.get(&original), full_names.get(&original))
        else {
            dropped.push(LeftOut::nameless(original));
            continue;
        };
        tool.name = name.clone();
        tool.full_name = full_name.clone();
        tool.trust = policy.trust;
        if spellings.get(&original.to_lowercase()).is_some_and(|count| *count > 1) {
            tool.has_twin = true;
            tool.repairs.push(
                "another tool has the same name but for case: lists must name it exactly"
                    .to_owned(),
            );
        }
        list.push(Arc::new(tool));
    }
    list.sort_by(|one, other| one.name.cmp(&other.name));
    list
}

/// Applies the names and the trust of a changed policy to the tools of one client. A tool that gets no name
/// beside the others is left out.
pub(super) fn rename_all(
    client: &ClientName,
    policy: &Policy,
    tools: &[Arc<Tool>],
) -> Vec<Arc<Tool>> {
    let originals = tools.iter().map(|tool| tool.original.as_str());
    let names = distinct_names(policy.prefix.for_client(client), originals);
    let renamed = tools.iter().filter_map(|tool| {
        let mut renamed = Tool::clone(tool);
        renamed.name = names.get(tool.original.as_str())?.clone();
        renamed.trust = policy.trust;
        renamed.prefixed_because = None;
        Some(Arc::new(renamed))
    });
    let mut list: Vec<_> = renamed.collect();
    list.sort_by(|one, other| one.name.cmp(&other.name));
    list
}

fn own(names: BTreeMap<&str, ToolName>) -> BTreeMap<String, ToolName> {
    names.into_iter().map(|(original, name)| (original.to_owned(), name)).collect()
}

#[cfg(test)]
mod tests;
