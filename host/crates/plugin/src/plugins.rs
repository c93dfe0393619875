//! The configured plugins: loaded in the background, and replaced when a component has changed.
//!
//! A call in flight keeps the plugin that it began with. If a new component cannot be loaded, the
//! old plugin stays.

#[cfg(test)]
mod tests;

use std::{path::PathBuf, sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::{sync::OnceCell, time::Instant};
use tracing::{info, warn};

use super::{
    Configured, PluginError, Publishers, StoreError,
    entries::{LastLoad, PluginEntries, PluginEntry, PluginSpec},
    load::Loaded,
    lock_policy::LockPolicy,
};
use airlock_catalog::{Catalog, SourceKind, report_dropped};
use airlock_compile::CompileHook;
use airlock_core::tool::ClientName;
use airlock_egress::Egress;
use airlock_sandbox::{Sandbox, UseRecorder};
use airlock_store::LazyDatabase;
use airlock_strings::with_causes;

/// Time after which a plugin is loaded again for which the store could not be used.
const RETRY: Duration = Duration::from_secs(5);

/// Outcome of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The component has not changed.
    Unchanged,
    /// The new plugin is in place.
    Swapped,
}

/// Resources of the gateway that its plugins share.
pub struct Resources {
    /// Registry that the tools are published to.
    pub catalog: Arc<Catalog>,
    /// Sandbox that the plugins run in.
    pub sandbox: Sandbox,
    /// Path of the lock file; `None` if the configuration was not loaded from a file.
    pub lock: Option<PathBuf>,
    /// Publishers whose signatures count.
    pub publishers: Publishers,
    /// Database for stores. The first plugin with a store opens it.
    pub store: LazyDatabase,
    /// Reads a variable of the environment, for secrets that come from there.
    pub environment: fn(&str) -> Option<String>,
    /// Shows that a component is being compiled; `None` to show nothing.
    pub on_compile: Option<Arc<CompileHook>>,
    /// Records which of their grants the plugins use; `None` to record nothing.
    pub recorder: Option<UseRecorder>,
}

/// The configured plugins of one gateway. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(pub(super) Arc<PluginsState>);

pub(super) struct PluginsState {
    pub(super) resources: Resources,
    pub(super) lock: LockPolicy,
    /// Egress client. Created for the first plugin with network rules.
    pub(super) egress: OnceCell<Egress>,
    pub(super) entries: PluginEntries,
}

impl Plugins {
    /// Creates the plugins of a gateway. Loads none of them.
    pub fn new(resources: Resources, configured: impl IntoIterator<Item = Configured>) -> Self {
        Self(Arc::new(PluginsState {
            lock: LockPolicy::new(resources.lock.clone(), resources.publishers.clone()),
            resources,
            egress: OnceCell::new(),
            entries: PluginEntries::new(configured),
        }))
    }

    /// Adds every plugin to the catalog, as a client that is not connected yet.
    pub fn announce(&self) {
        for (client, entry) in &*self.0.entries.all() {
            self.0.resources.catalog.add_client(
                client,
                SourceKind::Plugin,
                entry.spec().policy.clone(),
            );
        }
    }

    /// Reloads one plugin if its component has changed or was not loaded before. The old plugin
    /// stays if the new one cannot be loaded, unless its entry in the configuration has changed. If
    /// the future is dropped, the old plugin stays too, unless the new one was already complete.
    pub async fn reload(&self, client: &str) -> Result<Reloaded, PluginError> {
        let entries = self.0.entries.all();
        let found = entries.iter().find(|(name, _)| name.as_str() == client);
        let (name, entry) = found.ok_or_else(|| PluginError::Unknown(client.to_owned()))?;
        self.load(name, entry).await
    }

    /// Loads every plugin that has changed or is not loaded. Returns those that could not be loaded, whose
    /// old component stays if it was loaded. Any other one is marked as failed, with the reason.
    pub async fn reload_all(&self) -> Vec<ClientName> {
        let entries = self.0.entries.all();
        // Each load logs its own outcome.
        let loads = entries.iter().map(|(client, entry)| self.load(client, entry));
        let failed = entries.iter().zip(join_all(loads).await).filter(|(_, load)| load.is_err());
        failed.map(|((client, _), _)| client.clone()).collect()
    }

    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    pub fn digest(&self, client: &str) -> Option<String> {
        let entries = self.0.entries.all();
        let (_, entry) = entries.iter().find(|(name, _)| name.as_str() == client)?;
        entry.last_load().in_place.as_ref().map(|(pin, _)| pin.component.clone())
    }

    /// Loads a plugin as its entry says now, and logs the outcome. If that fails, the plugin in place
    /// stays if it has the rights of the entry, and else is withdrawn: a right that the operator has
    /// taken away must not last because the plugin needs it.
    pub(super) async fn load(
        &self,
        client: &ClientName,
        entry: &PluginEntry,
    ) -> Result<Reloaded, PluginError> {
        let _loading = entry.loading.lock().await;
        let spec = entry.spec();
        let files = self.files_version(&spec.settings).await;
        let LastLoad { in_place, accepted, .. } = {
            let mut last = entry.last_load();
            last.files = Some(files);
            last.retry_at = None;
            last.clone()
        };
        if let Some((pin, loaded)) = &in_place
            && differs_in_policy(loaded, &spec)
        {
            // The policy is in force already.
            entry.last_load().in_place = Some((pin.clone(), spec));
            return Ok(Reloaded::Unchanged);
        }
        let is_current = in_place.as_ref().is_some_and(|(_, loaded)| Arc::ptr_eq(loaded, &spec));
        let catalog = &self.0.resources.catalog;
        let loaded = match self.read(client, &spec, accepted.as_ref(), is_current).await {
            Ok(Some(loaded)) => loaded,
            Ok(None) => return Ok(Reloaded::Unchanged),
            Err(error) => {
                if is_of_store(&error) {
                    entry.last_load().retry_at = Some(Instant::now() + RETRY);
                }
                let reason = with_causes(&error);
                if is_current {
                    warn!(%client, reason, "plugin not reloaded; the old one stays");
                } else {
                    warn!(%client, reason, "plugin not loaded");
                    entry.last_load().in_place = None;
                    catalog.withdraw(client, reason);
                }
                return Err(error);
            }
        };
        if entry.is_gone() {
            return Err(PluginError::Unknown(client.to_string()));
        }
        let Loaded { plugin, definitions, pin } = loaded;
        let dropped = catalog.publish(client, definitions, Arc::new(plugin)).await;
        if entry.is_gone() {
            // It was withdrawn before it was published.
            let error = PluginError::Unknown(client.to_string());
            catalog.withdraw(client, with_causes(&error));
            return Err(error);
        }
        report_dropped(client, &dropped);
        info!(%client, digest = pin.component, reloaded = in_place.is_some(), "plugin loaded");
        let mut last = entry.last_load();
        last.accepted = Some(pin.clone());
        last.in_place = Some((pin, spec));
        Ok(Reloaded::Swapped)
    }
}

/// Returns whether a plugin that was loaded by one entry is also that of another, which has at most
/// another policy. One with granted directories is checked again.
fn differs_in_policy(loaded: &Arc<PluginSpec>, spec: &Arc<PluginSpec>) -> bool {
    let settings = &spec.settings;
    !Arc::ptr_eq(loaded, spec)
        && loaded.settings == *settings
        && settings.component.file().is_none()
        && settings.grant.files.is_empty()
}

/// Returns whether a plugin is not loaded because the store cannot be used, which may end by itself.
fn is_of_store(error: &PluginError) -> bool {
    matches!(
        error,
        PluginError::Unavailable(_)
            | PluginError::Store(_)
            | PluginError::Entries(StoreError::Unavailable(_))
    )
}
