//! Names of tools on the wire: those of one client with its prefix, and those of all clients without
//! one.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{LeftOut, MAX_TOOLS_PER_CLIENT, ToolSource, report::log_prefixed};
use airlock_core::tool::{
    ClientName, OWN_TOOLS, Policy, Prefix, Tool, ToolDefinition, ToolName, distinct_names,
};

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

/// Assigns the names of tools of clients without a prefix, in the order of the clients' names. A
/// tool whose name is not valid on the wire, or belongs to another tool, has its full name.
///
/// The tools of a client with a prefix, and the gateway's own, keep their names whatever others are
/// called: no bare name begins with a prefix and `-`. The names depend on the tools of the clients
/// and not on the order in which these connected.
pub(super) fn assign_bare_names(clients: &mut BTreeMap<ClientName, Arc<ToolSource>>) {
    if clients.values().all(|client| client.policy.prefix != Prefix::Off) {
        return;
    }
    let prefixes: BTreeSet<ClientName> = clients
        .values()
        .flat_map(|client| [&client.name, client.policy.prefix.for_client(&client.name)])
        .cloned()
        .collect();
    let mut taken = BTreeMap::new();
    for client in clients.values_mut().filter(|client| client.policy.prefix == Prefix::Off) {
        let mut is_changed = false;
        let mut tools = Vec::with_capacity(client.tools.len());
        for tool in client.tools.iter() {
            let renamed = renamed(tool, &prefixes, &mut taken);
            is_changed |= renamed.is_some();
            tools.push(renamed.unwrap_or_else(|| tool.clone()));
        }
        if is_changed {
            tools.sort_by(|one: &Arc<Tool>, other| one.name.cmp(&other.name));
            let mut changed = (**client).clone();
            changed.tools = tools.into();
            *client = Arc::new(changed);
        }
    }
}

/// Returns a tool with its name among all tools; `None` if it has that name already.
fn renamed(
    tool: &Arc<Tool>,
    prefixes: &BTreeSet<ClientName>,
    taken: &mut BTreeMap<ToolName, ClientName>,
) -> Option<Arc<Tool>> {
    let client = tool.client.as_ref()?;
    let (name, reason) = match bare_name(&tool.original, prefixes, taken) {
        Ok(name) => {
            taken.insert(name.clone(), client.clone());
            (name, None)
        }
        Err(reason) => (tool.full_name.clone(), Some(reason)),
    };
    if tool.name == name && tool.prefixed_because == reason {
        return None;
    }
    if let Some(reason) = &reason {
        log_prefixed(client, &name, reason);
    }
    let mut renamed = (**tool).clone();
    renamed.name = name;
    renamed.prefixed_because = reason;
    Some(Arc::new(renamed))
}

/// Returns the bare name of a tool, or the reason why it cannot have it.
fn bare_name(
    original: &str,
    prefixes: &BTreeSet<ClientName>,
    taken: &BTreeMap<ToolName, ClientName>,
) -> Result<ToolName, String> {
    let Some(name) = ToolName::bare(original) else {
        return Err("has a prefix, because its name is not valid for models".to_owned());
    };
    if OWN_TOOLS.contains(&original.to_ascii_lowercase().as_str()) {
        return Err("has a prefix, because the gateway's own tool has its name".to_owned());
    }
    if let Some((prefix, _)) =
        original.split_once('-').filter(|(prefix, _)| prefixes.contains(*prefix))
    {
        return Err(format!("has a prefix, because its name begins like the tools of {prefix}"));
    }
    match taken.get(&name) {
        None => Ok(name),
        Some(client) => Err(format!("has a prefix, because a tool of {client} has its name")),
    }
}

#[cfg(test)]
mod tests;
