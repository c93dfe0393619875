//! The plugin entries of the configuration, which may change while the gateway runs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;
use tracing::info;

use super::{Configured, PluginError, Plugins, Reloaded, Settings, watch::FilesVersion};
use airlock_core::tool::{ClientName, Policy};
use airlock_lock::Pin;

/// The entries of all plugins, by name.
pub(super) struct PluginEntries(ArcSwap<BTreeMap<ClientName, Arc<PluginEntry>>>);

/// One plugin of the configuration, and what is loaded of it.
pub(super) struct PluginEntry {
    /// Serializes loading, so that the last file wins and not the last one to be compiled.
    pub(super) loading: tokio::sync::Mutex<()>,
    spec: Mutex<Arc<PluginSpec>>,
    /// State of the last load, successful or not.
    last_load: Mutex<LastLoad>,
    /// True if the plugin was withdrawn because it is no longer configured. Nothing is published then.
    is_gone: AtomicBool,
}

/// Configuration of a plugin.
#[derive(PartialEq)]
pub(super) struct PluginSpec {
    pub(super) policy: Policy,
    pub(super) settings: Settings,
}

#[derive(Clone, Default)]
pub(super) struct LastLoad {
    pub(super) files: Option<FilesVersion>,
    /// Time at which it is tried again; `None` if it does not depend on time.
    pub(super) retry_at: Option<Instant>,
    /// State of the plugin that is in place, and the entry that it was loaded by.
    pub(super) in_place: Option<(Pin, Arc<PluginSpec>)>,
    /// State of the plugin that was loaded last. It stays when that plugin is withdrawn, so that a
    /// build that was refused for it is not loaded because of a second change of the entry.
    pub(super) accepted: Option<Pin>,
}

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

impl PluginEntries {
    pub(super) fn new(configured: impl IntoIterator<Item = Configured>) -> Self {
        let entries = configured.into_iter().map(|configured| {
            let (client, spec) = PluginSpec::from_configured(configured);
            (client, Arc::new(PluginEntry::new(spec)))
        });
        Self(ArcSwap::from_pointee(entries.collect()))
    }

    /// Returns the entries as they are now.
    pub(super) fn all(&self) -> Arc<BTreeMap<ClientName, Arc<PluginEntry>>> {
        self.0.load_full()
    }
}

impl PluginSpec {
    fn from_configured(Configured { client, policy, settings }: Configured) -> (ClientName, Self) {
        (client, Self { policy, settings })
    }
}

impl PluginEntry {
    fn new(spec: PluginSpec) -> Self {
        Self {
            loading: tokio::sync::Mutex::default(),
            spec: Mutex::new(Arc::new(spec)),
            last_load: Mutex::default(),
            is_gone: AtomicBool::new(false),
        }
    }

    /// Returns whether the plugin is no longer configured.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone.load(Ordering::SeqCst)
    }

    /// Returns the entry as it is configured now.
    pub(super) fn spec(&self) -> Arc<PluginSpec> {
        self.spec.lock().clone()
    }

    fn set_spec(&self, spec: PluginSpec) {
        *self.spec.lock() = Arc::new(spec);
    }

    pub(super) fn last_load(&self) -> MutexGuard<'_, LastLoad> {
        self.last_load.lock()
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
                    catalog.add_client(
                        &client,
                        airlock_catalog::SourceKind::Plugin,
                        spec.policy.clone(),
                    );
                    outcome.added.push(client.clone());
                    Arc::new(PluginEntry::new(spec))
                }
                Some(entry) => {
                    let was_gone = entry.is_gone.swap(false, Ordering::SeqCst);
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
        self.0.entries.0.store(Arc::new(after));
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
        if !entry.is_gone.swap(true, Ordering::SeqCst) {
            entry.last_load().in_place = None;
            self.0.resources.catalog.withdraw(client, "it is no longer configured".to_owned());
        }
    }
}
