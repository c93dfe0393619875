//! Changes of the plugin entries while the gateway runs: loads what is new, and withdraws what is gone.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::join_all;
use tracing::info;

use super::{
    Configured, PluginError, Plugins, Reloaded,
    entries::{PluginEntry, PluginSpec},
};
use airlock_catalog::SourceKind;
use airlock_core::tool::ClientName;

/// Outcome of a change of the entries.
#[derive(Debug, Default)]
pub struct Reconfigured {
    /// Plugins that are new.
    pub added: Vec<ClientName>,
    /// Plugins whose entry has changed.
    pub changed: Vec<ClientName>,
    /// Plugins whose entry is the same, and that were loaded again because the directories that may be
    /// granted have changed.
    pub rechecked: Vec<ClientName>,
    /// Plugins that are no longer configured.
    pub removed: Vec<ClientName>,
    /// Plugins of these that cannot be loaded by their new entry. They offer no tools now.
    pub failed: Vec<ClientName>,
}

impl Reconfigured {
    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty()
            && self.changed.is_empty()
            && self.rechecked.is_empty()
            && self.removed.is_empty()
            && self.failed.is_empty()
    }
}

impl Plugins {
    /// Takes away what these entries do not permit any more, whatever is being loaded: withdraws the plugins
    /// that are no longer configured, and puts changed policies in force. [`Plugins::configure`] does the rest.
    pub fn restrict(&self, configured: impl IntoIterator<Item = Configured>) {
        let catalog = &self.0.resources.catalog;
        let configured = configured.into_iter();
        let policies: BTreeMap<_, _> =
            configured.map(|configured| (configured.client, configured.policy)).collect();
        for (client, entry) in &*self.0.entries.all() {
            let Some(policy) = policies.get(client) else {
                self.withdraw(client, entry);
                continue;
            };
            let snapshot = catalog.snapshot();
            if snapshot.policy(client).is_some_and(|present| present != policy) {
                catalog.set_policy(client, policy.clone());
            }
        }
    }

    /// Replaces the entries: loads the plugins that are new or whose entry has changed, and removes
    /// those that are no longer configured. With `checks_directories`, every plugin with a granted
    /// directory is loaded again, because the directories that may be granted have changed. A changed
    /// policy is in force at once. Must not run twice at a time.
    pub async fn configure(
        &self,
        configured: impl IntoIterator<Item = Configured>,
        checks_directories: bool,
    ) -> Reconfigured {
        let catalog = &self.0.resources.catalog;
        let before = self.0.entries.all();
        let mut after = BTreeMap::new();
        let mut outcome = Reconfigured::default();
        let mut stale = Vec::new();
        for (client, spec) in configured.into_iter().map(PluginSpec::from_configured) {
            let entry = match before.get(&client) {
                None => {
                    catalog.add_client(&client, SourceKind::Plugin, spec.policy.clone());
                    outcome.added.push(client.clone());
                    Arc::new(PluginEntry::new(spec))
                }
                Some(entry) => {
                    let was_gone = entry.set_gone(false);
                    if was_gone {
                        entry.last_load().in_place = None;
                    }
                    let is_changed = was_gone || *entry.spec() != spec;
                    outcome.changed.extend(is_changed.then(|| client.clone()));
                    let has_directories = !spec.settings.grant.files.is_empty();
                    let is_checked = checks_directories && has_directories;
                    if !is_changed && !is_checked {
                        after.insert(client, entry.clone());
                        continue;
                    }
                    outcome.rechecked.extend((!is_changed).then(|| client.clone()));
                    catalog.set_policy(&client, spec.policy.clone());
                    entry.set_spec(spec);
                    entry.clone()
                }
            };
            stale.push((client.clone(), entry.clone()));
            after.insert(client, entry);
        }
        self.0.entries.replace(after);
        outcome.removed = self.remove(&before).await;
        let loads = stale.iter().map(|(client, entry)| self.load(client, entry));
        let loads: Vec<Result<Reloaded, PluginError>> = join_all(loads).await;
        let failed = stale.into_iter().zip(loads).filter(|(_, load)| load.is_err());
        outcome.failed = failed.map(|((client, _), _)| client).collect();
        outcome
    }

    /// Removes the plugins of `before` that have no entry any more. Returns their names.
    async fn remove(&self, before: &BTreeMap<ClientName, Arc<PluginEntry>>) -> Vec<ClientName> {
        let now = self.0.entries.all();
        let gone: Vec<_> = before.iter().filter(|(client, _)| !now.contains_key(*client)).collect();
        for (client, entry) in &gone {
            self.withdraw(client, entry);
        }
        let mut removed = Vec::new();
        for (client, entry) in gone {
            // A load that has begun ends before.
            let _loading = entry.loading.lock().await;
            self.0.resources.catalog.remove_client(client);
            info!(%client, "plugin unloaded");
            removed.push(client.clone());
        }
        removed
    }

    /// Removes the tools of a plugin that is no longer configured. A load that has begun publishes none.
    fn withdraw(&self, client: &ClientName, entry: &PluginEntry) {
        if !entry.set_gone(true) {
            entry.last_load().in_place = None;
            self.0.resources.catalog.withdraw(client, "it is no longer configured".to_owned());
        }
    }
}
