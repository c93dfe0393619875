//! `mcp.virtual_mcps`: groups of tools at paths of their own.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    key::KeyNames,
    resolved::{Problems, Resolved},
    row,
};
use airlock_config_file::file;
use airlock_core::{
    door::{GroupSlug, ToolGroup},
    tool::{Allowlist, ClientName},
};

/// Names of the other parts of the file.
pub(super) struct GroupContext<'a> {
    pub(super) clients: &'a BTreeSet<ClientName>,
    pub(super) keys: KeyNames<'a>,
    /// Names of the groups of the store.
    pub(super) of_store: &'a BTreeSet<String>,
}

/// Resolves every group that is enabled; the others are checked too. A group of the store must not have
/// the name of a client as its slug; of one of the file, that is noted at the client, see
/// [`client::check_slugs`](super::client::check_slugs).
pub(super) fn resolve(
    groups: Vec<file::VirtualMcp>,
    context: &GroupContext<'_>,
) -> Resolved<Vec<ToolGroup>> {
    let mut names = BTreeSet::new();
    let mut slugs = BTreeMap::new();
    Resolved::elements(groups, |problems, group| {
        let is_enabled = group.enabled.0;
        if !names.insert(group.name.clone()) {
            let name = &group.name;
            problems.refuse("name", format_args!("another virtual MCP is named {name:?} already"));
        }
        resolve_one(problems, group, &mut slugs, context).filter(|_| is_enabled)
    })
}

fn resolve_one(
    problems: &mut Problems,
    group: file::VirtualMcp,
    slugs: &mut BTreeMap<GroupSlug, String>,
    context: &GroupContext<'_>,
) -> Option<ToolGroup> {
    let file::VirtualMcp { name, endpoint_slug, tools, virtual_keys, .. } = group;
    if name.trim().is_empty() {
        problems.refuse("name", "is empty");
    }
    let tools = problems.take("tools", resolve_tools(&tools, context.clients));
    let keys = virtual_keys.map(|names| {
        let is_of_store = context.of_store.contains(&name);
        problems.take("virtual_keys", context.keys.check_owners(&names, is_of_store));
        BTreeSet::from_iter(names)
    });
    let slug = if let Some(slug) = &endpoint_slug {
        problems.accept("endpoint_slug", GroupSlug::parse(slug))?
    } else {
        let derived = GroupSlug::from_name(&name).map_err(|_| {
            format!("has no letter or digit that a slug can be derived from, or derives a reserved one; set `endpoint_slug` beside {name:?}")
        });
        problems.accept("name", derived)?
    };
    let is_of_client = context.clients.iter().any(|client| client.as_str() == slug.as_str());
    if is_of_client && context.of_store.contains(&name) {
        let key = if endpoint_slug.is_some() { "endpoint_slug" } else { "name" };
        problems.refuse(
            key,
            format_args!("the client {slug} is at `/mcp/{slug}`; set another `endpoint_slug`"),
        );
    }
    if let Some(first) = slugs.insert(slug.clone(), name.clone()) {
        let key = if endpoint_slug.is_some() { "endpoint_slug" } else { "name" };
        problems.refuse(key, format_args!(
            "the virtual MCP {first:?} is served at `/mcp/{slug}` already; set another `endpoint_slug`"
        ));
    }
    Some(ToolGroup { name, slug, tools, keys })
}

fn resolve_tools(
    tools: &[file::VirtualMcpTools],
    clients: &BTreeSet<ClientName>,
) -> Resolved<BTreeMap<ClientName, Allowlist>> {
    let mut seen = BTreeSet::new();
    let tools = Resolved::elements(tools, |problems, tools| {
        let names = Allowlist::parse(&tools.tool_names);
        let names = problems.accept("tool_names", names).unwrap_or_default();
        let client = row::client(&tools.mcp_client_name, clients);
        let client = problems.accept("mcp_client_name", client)?;
        if !seen.insert(client.clone()) {
            let message = format_args!("there is another element for {client:?}");
            problems.refuse("mcp_client_name", message);
        }
        Some((client, names))
    });
    tools.map(BTreeMap::from_iter)
}
