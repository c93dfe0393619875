//! `governance.virtual_keys`.

use std::collections::{BTreeMap, BTreeSet};

use super::{super::file, Place};
use crate::{
    door::{Keys, VirtualKey},
    tool::{ClientName, Whitelist},
};

/// How a credential starts, so that it is told from a provider's own key.
const PREFIX: &str = "sk-bf-";
/// Fewer characters could be guessed.
const MIN_CHARACTERS: usize = 20;

/// Whether a key can be used. An inactive one is checked but needs no value in the environment.
pub(super) fn is_active(key: &file::VirtualKey) -> bool {
    key.is_active.unwrap_or(true)
}

pub(super) fn resolve(
    place: &Place<'_>,
    keys: Vec<file::VirtualKey>,
    clients: &BTreeSet<ClientName>,
) -> Keys {
    let mut names = BTreeSet::new();
    let mut values = BTreeMap::new();
    let mut resolved = Vec::new();
    for (index, key) in keys.into_iter().enumerate() {
        let place = place.element(index);
        let name = place.member("name");
        if key.name.trim().is_empty() {
            name.refuse("is empty");
        } else if !names.insert(key.name.clone()) {
            name.refuse(format_args!("another key is named {:?} already", key.name));
        }
        let is_active = is_active(&key);
        let rows = rows(&place.member("mcp_configs"), &key.mcp_configs, clients);
        let place = place.member("value");
        let Some(value) = is_active.then(|| place.text(key.value)).flatten() else { continue };
        if !is_credential(value.expose()) {
            place.refuse(format_args!(
                "must start with {PREFIX:?} and have at least {MIN_CHARACTERS} characters, none of them blank"
            ));
        }
        if let Some(first) = values.insert(value.expose().to_owned(), key.name.clone()) {
            place.refuse(format_args!("is the same as that of the key {first:?}"));
        }
        resolved.push(VirtualKey::new(key.name, value.expose(), rows));
    }
    Keys::new(resolved)
}

/// A blank, such as the line break at the end of a file of secrets, could never be sent in a
/// header.
fn is_credential(text: &str) -> bool {
    text.starts_with(PREFIX)
        && text.len() >= MIN_CHARACTERS
        && text.chars().all(|c| c.is_ascii_graphic())
}

fn rows(
    place: &Place<'_>,
    rows: &[file::KeyRow],
    clients: &BTreeSet<ClientName>,
) -> BTreeMap<ClientName, Whitelist> {
    let mut resolved = BTreeMap::new();
    for (index, row) in rows.iter().enumerate() {
        let place = place.element(index);
        let tools = place.member("tools_to_execute").whitelist(&row.tools_to_execute);
        let place = place.member("mcp_client_name");
        let Some(client) = clients.iter().find(|client| client.as_str() == row.mcp_client_name)
        else {
            place.refuse(format_args!("no client is named {:?}", row.mcp_client_name));
            continue;
        };
        if resolved.insert(client.clone(), tools).is_some() {
            place.refuse(format_args!("there is another row for {client:?}"));
        }
    }
    resolved
}
