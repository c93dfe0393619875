//! Rows of virtual keys and roles.

use std::collections::BTreeSet;

use super::resolved::Resolved;
use airlock_config_file::{
    file,
    refused::{InvalidValue, NamedPart, Referent},
};
use airlock_core::{
    door::{Grants, RelayRow},
    tool::{Allowlist, ClientName, Exclusions, INTERNAL_CLIENT, UriList, with_internal_client},
};

/// Resolves the rows of a key or a role.
pub(super) fn resolve(rows: &[file::KeyRow], clients: &BTreeSet<ClientName>) -> Resolved<Grants> {
    let mut seen = BTreeSet::new();
    let rows = Resolved::elements(rows, |problems, row| {
        let tools = Allowlist::parse(&row.tools_to_execute);
        let excluded = Exclusions::parse(&row.tools_to_exclude);
        let resources = UriList::parse(&row.resources_to_read);
        let prompts = Allowlist::parse(&row.prompts_to_get);
        let tools = problems.accept("tools_to_execute", tools).unwrap_or_default();
        let excluded = problems.accept("tools_to_exclude", excluded).unwrap_or_default();
        let relayed = RelayRow {
            resources: problems.accept("resources_to_read", resources).unwrap_or_default(),
            prompts: problems.accept("prompts_to_get", prompts).unwrap_or_default(),
        };
        let client = client(&row.mcp_client_name, clients);
        let client = problems.accept("mcp_client_name", client)?;
        if !seen.insert(client.clone()) {
            let message = format_args!("there is another row for {client:?}");
            problems.refuse("mcp_client_name", message);
        }
        Some((client, tools, excluded, relayed))
    });
    rows.map(|rows| {
        let mut grants = Grants::default();
        for (client, tools, excluded, relayed) in rows {
            grants.rows.insert(client.clone(), tools);
            grants.relayed.insert(client.clone(), relayed);
            if !excluded.is_empty() {
                grants.excluded.insert(client, excluded);
            }
        }
        grants
    })
}

/// Returns the client that a part of the file names.
pub(super) fn client(
    name: &str,
    clients: &BTreeSet<ClientName>,
) -> Result<ClientName, InvalidValue> {
    let full_name = with_internal_client(name);
    if full_name == INTERNAL_CLIENT {
        // Registered at run time by the embedding program.
        return Ok(ClientName::internal());
    }
    clients.get(&*full_name).cloned().ok_or_else(|| {
        let clients = Referent::ElementOf(NamedPart::Clients);
        InvalidValue::absent(clients, format_args!("no client is named {name:?}"))
    })
}
