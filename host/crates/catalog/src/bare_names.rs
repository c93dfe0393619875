//! Names of tools on the wire without a prefix, distinct among all clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{ToolSource, report::log_prefixed};
use airlock_core::tool::{ClientName, OWN_TOOLS, Prefix, Tool, ToolName};

/// Assigns the names of tools of clients without a prefix, in the order of the clients' names. A
/// tool whose name is not valid on the wire, or belongs to another tool, has its full name.
///
/// The tools that the operator permits and has accepted come first: a server that lists a tool of another one's name later
/// does not get the calls of that one. The tools of a client with a prefix, and the gateway's own, keep their names
/// whatever others are called: no bare name begins with a prefix and `-`. The names depend on the tools of the clients
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
    for comes_first in [true, false] {
        for client in clients.values_mut().filter(|client| client.policy.prefix == Prefix::Off) {
            rename(client, comes_first, &prefixes, &mut taken);
        }
    }
}

/// Assigns the names of the tools of one client that come first, or those of its other tools.
fn rename(
    client: &mut Arc<ToolSource>,
    comes_first: bool,
    prefixes: &BTreeSet<ClientName>,
    taken: &mut BTreeMap<ToolName, ClientName>,
) {
    let mut is_changed = false;
    let mut tools = Vec::with_capacity(client.tools.len());
    for tool in client.tools.iter() {
        let is_due = is_first(client, tool) == comes_first;
        let renamed = if is_due { renamed(tool, prefixes, taken) } else { None };
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

/// Returns whether the operator permits a tool and has accepted it, or needs to accept none.
fn is_first(client: &ToolSource, tool: &Tool) -> bool {
    client.policy.execute.allows_tool(tool)
        && !client.policy.exclude.covers(tool)
        && !client.unaccepted.contains(&tool.original)
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
