//! The configured plugins: loaded in the background, and replaced when a component has changed.
//!
//! A call in flight keeps the plugin that it began with. If a new component cannot be loaded, the
//! old plugin stays.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::future::join_all;
use indicatif::MultiProgress;
use tokio::sync::OnceCell;
use tracing::{info, warn};

use super::{
    Change, Drift, LockError, MetadataError, Pin, Refusal, Settings, load::Loaded,
    lock_policy::LockPolicy, watch::FilesVersion,
};
use crate::{
    catalog::{Catalog, State, report_dropped},
    egress::{self, Egress},
    sandbox::{LoadError, Sandbox, UseRecorder},
    store::{self, Database},
    text::with_causes,
    tool::{ClientName, Policy},
};

/// Reason that a plugin is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The component is unusable.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The metadata of the component cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The plugin needs rights that are not granted, or the grant is invalid.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The plugin differs from its accepted state.
    #[error(transparent)]
    Drift(#[from] Drift),
    /// A granted request is wider than that of the plugin in place.
    #[error("{0}")]
    Widened(#[from] Widened),
    /// The accepted state is unknown.
    #[error("the accepted state of the plugin is unknown")]
    Lock(#[from] LockError),
    /// None of its tools can be called, so it would be connected without use.
    #[error("none of its tools can be offered: {0}")]
    NoTools(String),
    /// The database for its stores cannot be opened.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// Outbound requests are not possible.
    #[error(transparent)]
    Egress(#[from] egress::Unusable),
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
}

/// Granted requests of a new build that are wider than those of the plugin in place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the new build would widen what is granted: {}; if you agree, restart the gateway, or pin all \
     plugins with `airlock plugin accept --all`",
    .0.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
)]
pub struct Widened(pub Vec<Change>);

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
    /// Path of the database for stores. The first plugin with a store opens it.
    pub store: PathBuf,
    /// Reads a variable of the environment, for secrets that come from there.
    pub environment: fn(&str) -> Option<String>,
    /// Progress of compilations, shown on a terminal.
    pub progress: MultiProgress,
    /// Records which of their grants the plugins use; `None` to record nothing.
    pub recorder: Option<UseRecorder>,
}

/// One plugin of the configuration.
pub struct Configured {
    /// Its name in the configuration.
    pub client: ClientName,
    /// Policy of its tools.
    pub policy: Policy,
    /// Its component and its grant.
    pub settings: Settings,
}

/// The configured plugins of one gateway. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(pub(super) Arc<Shared>);

pub(super) struct Shared {
    pub(super) resources: Resources,
    pub(super) lock: LockPolicy,
    pub(super) database: OnceCell<Database>,
    /// Egress client. Created for the first plugin with network rules.
    pub(super) egress: OnceCell<Egress>,
    pub(super) entries: BTreeMap<ClientName, Entry>,
}

pub(super) struct Entry {
    policy: Policy,
    pub(super) settings: Settings,
    /// Serializes loading, so that the last file wins and not the last one to be compiled.
    loading: tokio::sync::Mutex<()>,
    /// State of the last load, successful or not.
    last_load: Mutex<LastLoad>,
}

#[derive(Default)]
pub(super) struct LastLoad {
    pub(super) files: Option<FilesVersion>,
    /// State of the plugin that is in place.
    in_place: Option<Pin>,
}

impl Plugins {
    /// Creates the plugins of a gateway. Loads none of them.
    pub fn new(resources: Resources, configured: impl IntoIterator<Item = Configured>) -> Self {
        let entry = |Configured { client, policy, settings }| {
            let (loading, last_load) = (tokio::sync::Mutex::default(), Mutex::default());
            (client, Entry { policy, settings, loading, last_load })
        };
        Self(Arc::new(Shared {
            lock: LockPolicy::new(resources.lock.clone()),
            resources,
            database: OnceCell::new(),
            egress: OnceCell::new(),
            entries: configured.into_iter().map(entry).collect(),
        }))
    }

    /// Loads every plugin. A plugin that cannot be loaded is marked as failed, with the reason.
    pub async fn load_all(&self) {
        let catalog = &self.0.resources.catalog;
        for (client, entry) in &self.0.entries {
            catalog.add_client(client, "wasm", entry.policy.clone());
        }
        let load = async |client: &ClientName| {
            if let Err(error) = self.load(client).await {
                let reason = with_causes(&error);
                warn!(%client, reason, "plugin not loaded");
                catalog.set_state(client, State::Failed { reason });
            }
        };
        join_all(self.0.entries.keys().map(load)).await;
    }

    /// Reloads one plugin if its component has changed or was not loaded before. The old plugin
    /// stays if the new one cannot be loaded. If the future is dropped, the old plugin stays too,
    /// unless the new one was already complete.
    pub async fn reload(&self, client: &str) -> Result<Reloaded, PluginError> {
        let name = self.0.entries.keys().find(|name| name.as_str() == client);
        let name = name.ok_or_else(|| PluginError::Unknown(client.to_owned()))?;
        let reloaded = self.load(name).await;
        if let Err(error) = &reloaded {
            let reason = with_causes(error);
            warn!(client = %name, reason, "plugin not reloaded; the old one stays");
        }
        reloaded
    }

    /// Reloads every plugin that has changed.
    pub async fn reload_all(&self) {
        // Each reload logs its own outcome.
        join_all(self.0.entries.keys().map(|client| self.reload(client.as_str()))).await;
    }

    /// Returns the digest of the component that a client currently runs; `None` if there is no such
    /// plugin or if it is not loaded.
    pub fn digest(&self, client: &str) -> Option<String> {
        let (_, entry) = self.0.entries.iter().find(|(name, _)| name.as_str() == client)?;
        entry.last_load().in_place.as_ref().map(|pin| pin.component.clone())
    }

    async fn load(&self, client: &ClientName) -> Result<Reloaded, PluginError> {
        let Some(entry) = self.0.entries.get(client) else {
            return Err(PluginError::Unknown(client.to_string()));
        };
        let _loading = entry.loading.lock().await;
        let files = self.files_version(entry).await;
        let before = {
            let mut last = entry.last_load();
            last.files = Some(files);
            last.in_place.clone()
        };
        let Some(Loaded { plugin, definitions, pin }) =
            self.read(client, &entry.settings, before.as_ref()).await?
        else {
            return Ok(Reloaded::Unchanged);
        };
        let dropped = self.0.resources.catalog.publish(client, definitions, Arc::new(plugin)).await;
        report_dropped(client, &dropped);
        info!(%client, digest = pin.component, reloaded = before.is_some(), "plugin loaded");
        entry.last_load().in_place = Some(pin);
        Ok(Reloaded::Swapped)
    }
}

impl Entry {
    pub(super) fn last_load(&self) -> MutexGuard<'_, LastLoad> {
        // Every member is consistent after every statement.
        self.last_load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
