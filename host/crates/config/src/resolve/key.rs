//! `governance.virtual_keys`.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    file_env::FileEnv,
    refused::{InvalidValue, NamedPart, Referent},
    resolved::Resolved,
};
use crate::file;
use airlock_core::{
    door::{ApprovalChoice, Keys, RelayRow, VirtualKey},
    tool::{Allowlist, ClientName, INTERNAL_CLIENT, UriList, with_internal_client},
};

/// Prefix of credentials, which distinguishes them from a provider's own keys.
const PREFIX: &str = "sk-bf-";
/// Minimum length of a credential. Shorter ones could be guessed.
const MIN_CHARACTERS: usize = 20;

/// Resolves every active key. An inactive one is checked too, but its environment variable need not
/// exist.
pub(super) fn resolve(
    keys: Vec<file::VirtualKey>,
    clients: &BTreeSet<ClientName>,
    env: FileEnv<'_>,
) -> Resolved<Keys> {
    let mut names = BTreeSet::new();
    let mut values = BTreeMap::new();
    let keys = Resolved::elements(keys, |problems, key| {
        if key.name.trim().is_empty() {
            problems.refuse("name", "is empty");
        } else if !names.insert(key.name.clone()) {
            problems.refuse("name", format_args!("another key is named {:?} already", key.name));
        }
        let rows = problems.take("mcp_configs", rows(&key.mcp_configs, clients));
        if !key.is_active.0 {
            return None;
        }
        let value = problems.accept("value", env.text(key.value))?;
        if !is_credential(value.expose()) {
            problems.refuse("value", format_args!(
                "must start with {PREFIX:?} and have at least {MIN_CHARACTERS} characters, without spaces"
            ));
        }
        if let Some(first) = values.insert(value.expose().to_owned(), key.name.clone()) {
            problems.refuse("value", format_args!("is the same as that of the key {first:?}"));
        }
        let relayed = rows.iter().map(|(client, (_, row))| (client.clone(), row.clone())).collect();
        let tools = rows.into_iter().map(|(client, (tools, _))| (client, tools)).collect();
        let resolved = VirtualKey::new(key.name, value.expose(), tools);
        let approval = key.approval.map(ApprovalChoice::from);
        Some(resolved.with_relayed(relayed).with_approval(approval))
    });
    keys.map(Keys::new)
}

/// Returns the tools, resources and prompts of each client that a key opens.
fn rows(
    rows: &[file::KeyRow],
    clients: &BTreeSet<ClientName>,
) -> Resolved<BTreeMap<ClientName, (Allowlist, RelayRow)>> {
    let mut seen = BTreeSet::new();
    let rows = Resolved::elements(rows, |problems, row| {
        let tools = Allowlist::parse(&row.tools_to_execute);
        let resources = UriList::parse(&row.resources_to_read);
        let prompts = Allowlist::parse(&row.prompts_to_get);
        let tools = problems.accept("tools_to_execute", tools).unwrap_or_default();
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
        Some((client, (tools, relayed)))
    });
    rows.map(BTreeMap::from_iter)
}

fn client(name: &str, clients: &BTreeSet<ClientName>) -> Result<ClientName, InvalidValue> {
    let full_name = with_internal_client(name);
    if full_name == INTERNAL_CLIENT {
        // Registered at run time by the embedding program.
        return Ok(ClientName::internal());
    }
    let client = clients.iter().find(|client| client.as_str() == full_name);
    client.cloned().ok_or_else(|| {
        let clients = Referent::ElementOf(NamedPart::Clients);
        InvalidValue::absent(clients, format_args!("no client is named {name:?}"))
    })
}

/// Returns whether `text` is a valid credential. Blanks are invalid because they cannot be sent in
/// a header, for example the line break at the end of a file of secrets.
fn is_credential(text: &str) -> bool {
    text.starts_with(PREFIX)
        && text.len() >= MIN_CHARACTERS
        && text.chars().all(|c| c.is_ascii_graphic())
}
