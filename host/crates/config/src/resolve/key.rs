//! `governance.virtual_keys`.

use std::collections::{BTreeMap, BTreeSet};

use super::{super::file, Field};
use airlock_core::{
    door::{ApprovalChoice, Keys, RelayRow, VirtualKey},
    tool::{ClientName, INTERNAL_CLIENT, Whitelist, with_internal_client},
};

/// Prefix of credentials, which distinguishes them from a provider's own keys.
const PREFIX: &str = "sk-bf-";
/// Minimum length of a credential. Shorter ones could be guessed.
const MIN_CHARACTERS: usize = 20;

/// Returns whether a key is active. An inactive key is checked too, but its environment variable
/// need not exist.
pub(super) fn is_active(key: &file::VirtualKey) -> bool {
    key.is_active.0
}

pub(super) fn resolve(
    field: &Field<'_>,
    keys: Vec<file::VirtualKey>,
    clients: &BTreeSet<ClientName>,
) -> Keys {
    let mut names = BTreeSet::new();
    let mut values = BTreeMap::new();
    let mut resolved = Vec::new();
    for (index, key) in keys.into_iter().enumerate() {
        let field = field.element(index);
        let name = field.member("name");
        if key.name.trim().is_empty() {
            name.refuse("is empty");
        } else if !names.insert(key.name.clone()) {
            name.refuse(format_args!("another key is named {:?} already", key.name));
        }
        let is_active = is_active(&key);
        let approval = key.approval.map(ApprovalChoice::from);
        let rows = rows(&field.member("mcp_configs"), &key.mcp_configs, clients);
        let field = field.member("value");
        let Some(value) = is_active.then(|| field.text(key.value)).flatten() else { continue };
        if !is_credential(value.expose()) {
            field.refuse(format_args!(
                "must start with {PREFIX:?} and have at least {MIN_CHARACTERS} characters, without spaces"
            ));
        }
        if let Some(first) = values.insert(value.expose().to_owned(), key.name.clone()) {
            field.refuse(format_args!("is the same as that of the key {first:?}"));
        }
        let relayed = rows.iter().map(|(client, (_, row))| (client.clone(), row.clone())).collect();
        let rows = rows.into_iter().map(|(client, (tools, _))| (client, tools)).collect();
        let key = VirtualKey::new(key.name, value.expose(), rows);
        resolved.push(key.with_relayed(relayed).with_approval(approval));
    }
    Keys::new(resolved)
}

/// Returns whether `text` is a valid credential. Blanks are invalid because they cannot be sent in
/// a header, for example the line break at the end of a file of secrets.
fn is_credential(text: &str) -> bool {
    text.starts_with(PREFIX)
        && text.len() >= MIN_CHARACTERS
        && text.chars().all(|c| c.is_ascii_graphic())
}

fn rows(
    field: &Field<'_>,
    rows: &[file::KeyRow],
    clients: &BTreeSet<ClientName>,
) -> BTreeMap<ClientName, (Whitelist, RelayRow)> {
    let mut resolved = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let field = field.element(index);
        let tools = field.member("tools_to_execute").whitelist(&row.tools_to_execute);
        let relayed = RelayRow {
            resources: field.member("resources_to_read").uri_list(&row.resources_to_read),
            prompts: field.member("prompts_to_get").whitelist(&row.prompts_to_get),
        };
        let field = field.member("mcp_client_name");
        let name = with_internal_client(&row.mcp_client_name);
        let client = if name == INTERNAL_CLIENT {
            // Registered at run time by the embedding program.
            ClientName::internal()
        } else if let Some(client) = clients.iter().find(|client| client.as_str() == name) {
            client.clone()
        } else {
            field.refuse(format_args!("no client is named {:?}", row.mcp_client_name));
            continue;
        };
        if resolved.insert(client.clone(), (tools, relayed)).is_some() {
            field.refuse(format_args!("there is another row for {client:?}"));
        }
    }
    resolved
}
