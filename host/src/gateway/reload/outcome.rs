//! Outcome of taking settings.

use std::io;

use airlock_config::ConfigError;
use airlock_core::{door::Keys, tool::ClientName};
use airlock_plugin::Reconfigured;
use airlock_store::{LazyDatabase, Unavailable, entries::Entries};

use super::super::upstreams::ServerChanges;

/// Changes that were taken, and the settings that are in force.
#[derive(Debug, Default)]
pub(crate) struct TakenEntries {
    /// Clients that are new.
    pub(crate) added: Vec<ClientName>,
    /// Clients whose settings have changed.
    pub(crate) changed: Vec<ClientName>,
    /// Plugins that were checked again, because the directories that may be granted have changed.
    pub(crate) rechecked: Vec<ClientName>,
    /// Clients that are gone.
    pub(crate) removed: Vec<ClientName>,
    /// New or changed plugins that cannot be loaded, and servers that cannot be started. A server that
    /// cannot be reached is not among them: it is connected in the background.
    pub(crate) failed: Vec<ClientName>,
    /// Changes of the virtual keys.
    pub(crate) keys: KeyChanges,
    /// Reason that the present content of the file was not taken, but its last valid one.
    pub(crate) file_problem: Option<ConfigError>,
}

/// Changes of the virtual keys, by their names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// New ones.
    pub(crate) added: Vec<String>,
    /// Those of which anything has changed.
    pub(crate) changed: Vec<String>,
    /// Those that are refused from now on.
    pub(crate) removed: Vec<String>,
}

impl TakenEntries {
    pub(super) fn new(servers: ServerChanges, plugins: Reconfigured, keys: KeyChanges) -> Self {
        let Reconfigured { added, changed, rechecked, removed, failed } = plugins;
        Self {
            added: joined(servers.added, added),
            changed: joined(servers.changed, changed),
            rechecked,
            removed: joined(servers.removed, removed),
            failed: joined(servers.failed, failed),
            keys,
            file_problem: None,
        }
    }

    /// Returns whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        let clients = [&self.added, &self.changed, &self.rechecked, &self.removed, &self.failed];
        clients.iter().all(|clients| clients.is_empty()) && self.keys == KeyChanges::default()
    }
}

impl KeyChanges {
    pub(super) fn new(before: &Keys, after: &Keys) -> Self {
        let mut changes = Self::default();
        for key in after.iter() {
            match before.named(&key.name) {
                None => changes.added.push(key.name.clone()),
                Some(known) if **known != *key => changes.changed.push(key.name.clone()),
                Some(_) => {}
            }
        }
        let removed = before.iter().filter(|key| after.named(&key.name).is_none());
        changes.removed = removed.map(|key| key.name.clone()).collect();
        changes
    }
}

fn joined(mut one: Vec<ClientName>, other: Vec<ClientName>) -> Vec<ClientName> {
    one.extend(other);
    one
}

/// Reads the entries of the store.
pub(super) async fn read_entries(database: &LazyDatabase) -> Result<Entries, ConfigError> {
    let read = async {
        let opened = database.open().await.map_err(io::Error::other)?;
        opened.entries().await.map_err(|error: Unavailable| io::Error::other(error))
    };
    let file = database.location().to_string();
    read.await.map_err(|source| ConfigError::Unreadable { file, source })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use airlock_core::door::VirtualKey;

    fn key(name: &str, credential: &str) -> VirtualKey {
        VirtualKey::new(name, credential, BTreeMap::new())
    }

    #[test]
    fn keys_are_compared_by_name_and_a_new_credential_is_a_change() {
        let before = Keys::new([key("same", "1"), key("other", "2"), key("gone", "3")]);
        let after = Keys::new([key("same", "1"), key("other", "4"), key("new", "3")]);
        let expected = KeyChanges {
            added: vec!["new".to_owned()],
            changed: vec!["other".to_owned()],
            removed: vec!["gone".to_owned()],
        };
        assert_eq!(KeyChanges::new(&before, &after), expected);
        assert_eq!(KeyChanges::new(&after, &after), KeyChanges::default());
    }
}
