//! Plugins: read, checked, compiled in the background, and then swapped in, at startup and whenever
//! a component has changed.
//!
//! A call in flight keeps the plugin that it began with. If a new component cannot be loaded, the
//! old plugin stays.

mod load;
mod operate;
#[cfg(test)]
mod tests;
mod watch;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, atomic::AtomicBool},
};

use futures_util::future::join_all;
use indicatif::MultiProgress;
use tokio::sync::OnceCell;
use tracing::{info, warn};

pub(crate) use self::load::read as read_component;
use self::{load::Loaded, watch::Mark};
use super::report::{report_dropped, report_unchecked};
use crate::{
    catalog::{Catalog, State},
    config::{Config, Source, Wasm},
    egress::{self, Egress},
    plugin::{Drift, FactsError, LockError, Refusal},
    sandbox::{LoadError, Sandbox},
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
    /// The facts about the component cannot be read.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// The plugin needs rights that are not granted, or the grant is invalid.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The plugin differs from its accepted state.
    #[error("{0}")]
    Drift(#[from] Drift),
    /// The accepted state is unknown.
    #[error("what was accepted cannot be told")]
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

/// Outcome of a reload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// The component has not changed.
    Unchanged,
    /// The new plugin is in place.
    Swapped,
}

/// The configured plugins of one gateway. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    /// Path of the lock file; `None` if the configuration was not loaded from a file.
    lock: Option<PathBuf>,
    /// True once the lock file was seen; it must not disappear after that.
    had_lock: AtomicBool,
    /// Path of the database for stores. The first plugin with a store opens it.
    store: PathBuf,
    database: OnceCell<Database>,
    /// Egress client. Created for the first plugin with network rules.
    egress: OnceCell<Egress>,
    entries: BTreeMap<ClientName, Entry>,
    /// Progress of compilations, shown on a terminal.
    progress: MultiProgress,
}

struct Entry {
    policy: Policy,
    wasm: Wasm,
    /// Serializes loading, so that the last file wins and not the last one to be compiled.
    turn: tokio::sync::Mutex<()>,
    /// State of the last load, successful or not.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    mark: Option<Mark>,
    /// Digest of the component that is in place.
    loaded: Option<String>,
    /// True if the operator was told that the plugin is not pinned.
    is_told_unpinned: bool,
}

impl Plugins {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        sandbox: Sandbox,
        config: &Config,
        progress: MultiProgress,
    ) -> Self {
        let entries = config.clients.iter().filter_map(|client| match &client.source {
            Source::Wasm(wasm) => {
                let entry = Entry {
                    policy: client.policy.clone(),
                    wasm: (**wasm).clone(),
                    turn: tokio::sync::Mutex::default(),
                    seen: Mutex::default(),
                };
                Some((client.name.clone(), entry))
            }
            Source::Upstream(_) => None,
        });
        Self(Arc::new(Inner {
            catalog,
            sandbox,
            lock: config.lock.clone(),
            had_lock: AtomicBool::new(false),
            store: config.store.clone(),
            database: OnceCell::new(),
            egress: OnceCell::new(),
            entries: entries.collect(),
            progress,
        }))
    }

    /// Loads every plugin. A plugin that cannot be loaded is marked as failed, with the reason.
    pub(super) async fn load_all(&self) {
        for (client, entry) in &self.0.entries {
            self.0.catalog.add_client(client, "wasm", entry.policy.clone());
        }
        let load = async |client: &ClientName| {
            if let Err(error) = self.load(client).await {
                let reason = with_causes(&error);
                warn!(%client, reason, "plugin not loaded");
                self.0.catalog.set_state(client, State::Failed { reason });
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
            warn!(client = %name, reason = with_causes(error), "plugin not loaded again; what was there stays");
        }
        reloaded
    }

    /// Reloads every plugin that has changed.
    pub async fn reload_all(&self) {
        // Each reload logs its own outcome.
        join_all(self.0.entries.keys().map(|client| self.reload(client.as_str()))).await;
    }

    async fn load(&self, client: &ClientName) -> Result<Reloaded, PluginError> {
        let Some(entry) = self.0.entries.get(client) else {
            return Err(PluginError::Unknown(client.to_string()));
        };
        let _turn = entry.turn.lock().await;
        let mark = self.mark(entry).await;
        let before = {
            let mut seen = entry.seen();
            seen.mark = mark;
            seen.loaded.clone()
        };
        let Some(Loaded { plugin, definitions, digest }) =
            self.read(client, &entry.wasm, before.as_deref()).await?
        else {
            return Ok(Reloaded::Unchanged);
        };
        let dropped = self.0.catalog.publish(client, definitions, Arc::new(plugin)).await;
        report_dropped(client, &dropped);
        entry.seen().loaded = Some(digest.clone());
        info!(%client, digest, reloaded = before.is_some(), "plugin loaded");
        Ok(Reloaded::Swapped)
    }
}

impl Entry {
    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        // Both members are consistent after every statement.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
