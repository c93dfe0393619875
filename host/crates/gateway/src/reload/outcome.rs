//! Outcome of taking settings.

use std::{collections::BTreeSet, io};

use serde_json::{Value, json};

use airlock_config::{Config, ConfigError};
use airlock_core::{door::Keys, tool::ClientName};
use airlock_management::Preview;
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
    /// All changes of the configuration, and the keys that wait for a restart.
    pub(crate) changes: Preview,
    /// Reason that the present content of the file was not taken, but its last valid one.
    pub(crate) file_problem: Option<ConfigError>,
}

/// The virtual keys of the settings that were taken.
#[derive(Debug, Clone)]
pub(super) struct TakenKeys {
    active: Keys,
    /// Names of those that have no credential yet.
    without_value: BTreeSet<String>,
}

impl From<&Config> for TakenKeys {
    fn from(config: &Config) -> Self {
        let Config { keys, keys_without_value, .. } = config;
        Self { active: keys.clone(), without_value: keys_without_value.clone() }
    }
}

impl TakenKeys {
    fn names(&self) -> BTreeSet<&str> {
        let active = self.active.iter().map(|key| key.name.as_str());
        active.chain(self.without_value.iter().map(String::as_str)).collect()
    }
}

/// Changes of the virtual keys, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyChanges {
    /// New ones, with those that have no credential yet.
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
            changes: Preview::default(),
            file_problem: None,
        }
    }

    /// Adds plugins whose changed components cannot be loaded.
    pub(super) fn with_failed(mut self, plugins: Vec<ClientName>) -> Self {
        self.failed = joined(self.failed, plugins);
        self.failed.sort();
        self.failed.dedup();
        self
    }

    /// Returns whether nothing has changed.
    pub(crate) fn is_empty(&self) -> bool {
        let clients = [&self.added, &self.changed, &self.rechecked, &self.removed, &self.failed];
        clients.iter().all(|clients| clients.is_empty())
            && self.keys == KeyChanges::default()
            && self.changes.settings.is_empty()
    }

    /// Returns the changes as JSON, in the form of the comparison with another file.
    pub(super) fn describe(&self) -> Value {
        let Preview { clients, virtual_keys, settings, restart, errors: _ } = &self.changes;
        json!({
            "status": "success",
            "clients": clients,
            "virtual_keys": virtual_keys,
            "settings": settings,
            "restart": restart,
            "failed": self.failed,
        })
    }
}

impl KeyChanges {
    pub(super) fn new(before: &TakenKeys, after: &TakenKeys) -> Self {
        let known = before.names();
        let present = after.names();
        let changed = known
            .intersection(&present)
            .filter(|name| before.active.named(name) != after.active.named(name));
        Self {
            added: present.difference(&known).map(|name| (*name).to_owned()).collect(),
            changed: changed.map(|name| (*name).to_owned()).collect(),
            removed: known.difference(&present).map(|name| (*name).to_owned()).collect(),
        }
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

    fn keys<const N: usize>(active: [VirtualKey; N], without_value: &[&str]) -> TakenKeys {
        let without_value = without_value.iter().map(|name| (*name).to_owned()).collect();
        TakenKeys { active: Keys::new(active), without_value }
    }

    #[test]
    fn keys_are_compared_by_name_and_a_new_credential_is_a_change() {
        let before = keys([key("same", "1"), key("other", "2"), key("gone", "3")], &[]);
        let after = keys([key("same", "1"), key("other", "4"), key("new", "3")], &[]);
        let expected = KeyChanges {
            added: vec!["new".to_owned()],
            changed: vec!["other".to_owned()],
            removed: vec!["gone".to_owned()],
        };
        assert_eq!(KeyChanges::new(&before, &after), expected);
        assert_eq!(KeyChanges::new(&after, &after), KeyChanges::default());
    }

    #[test]
    fn a_key_without_a_credential_is_a_key_and_its_credential_is_a_change() {
        let none = keys([], &[]);
        let new = keys([], &["new"]);
        let made = keys([key("new", "1")], &[]);
        let names = vec!["new".to_owned()];
        let added = KeyChanges { added: names.clone(), ..KeyChanges::default() };
        let changed = KeyChanges { changed: names.clone(), ..KeyChanges::default() };
        let removed = KeyChanges { removed: names, ..KeyChanges::default() };
        assert_eq!(KeyChanges::new(&none, &new), added);
        assert_eq!(KeyChanges::new(&new, &made), changed);
        assert_eq!(KeyChanges::new(&new, &none), removed);
        assert_eq!(KeyChanges::new(&new, &new), KeyChanges::default());
    }
}
