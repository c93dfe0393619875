//! Plugins: read, settled, compiled aside, and put in place of what was there, at the start and
//! whenever one has changed.
//!
//! A call in flight keeps the plugin that it began with. One that cannot be loaded is refused and
//! the old one stays.

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
use super::report::report_dropped;
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

/// Why a plugin is not loaded.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// The component cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It does not say what it is.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// What it asks for and what it is granted do not go together.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// It is not what was accepted.
    #[error("{0}")]
    Drift(#[from] Drift),
    /// Nobody can tell what was accepted.
    #[error("what was accepted cannot be told")]
    Lock(#[from] LockError),
    /// It would be connected, and nobody could call anything of it.
    #[error("none of its tools can be offered: {0}")]
    NoTools(String),
    /// The database of its stores cannot be used.
    #[error(transparent)]
    Store(#[from] store::OpenError),
    /// Nothing can be sent.
    #[error(transparent)]
    Egress(#[from] egress::Unusable),
    /// No plugin has this name.
    #[error("no plugin is named {0:?}")]
    Unknown(String),
}

/// What came of loading a plugin again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reloaded {
    /// It is as it was.
    Unchanged,
    /// The new one is in place.
    Swapped,
}

/// The configured plugins of one gateway. Cheap to clone.
#[derive(Clone)]
pub struct Plugins(Arc<Inner>);

struct Inner {
    catalog: Arc<Catalog>,
    sandbox: Sandbox,
    /// What was accepted, where the configuration is in a file.
    lock: Option<PathBuf>,
    /// Whether it was ever there; it must not disappear then.
    had_lock: AtomicBool,
    /// Where stores are kept, opened by the first plugin that has one.
    store: PathBuf,
    database: OnceCell<Database>,
    /// The way out, made for the first plugin that may use it.
    egress: OnceCell<Egress>,
    entries: BTreeMap<ClientName, Entry>,
    /// What is compiled right now, for whoever waits at a terminal.
    progress: MultiProgress,
}

struct Entry {
    policy: Policy,
    wasm: Wasm,
    /// Loading takes turns: the last file wins, and not the last to be compiled.
    turn: tokio::sync::Mutex<()>,
    /// What was looked at last, whether it could be loaded or not.
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    mark: Option<Mark>,
    /// Digest of the component that is in place.
    loaded: Option<String>,
    /// Whether its operator was told that nothing was accepted of it.
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

    /// Loads every plugin; what cannot be loaded is marked failed, with the reason.
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

    /// Loads one plugin again, if its component has changed or was not accepted before. What was in
    /// place stays where the new one cannot be loaded. Dropping the future leaves the old one in
    /// place too, unless the new one was already complete.
    pub async fn reload(&self, client: &str) -> Result<Reloaded, PluginError> {
        let name = self.0.entries.keys().find(|name| name.as_str() == client);
        let name = name.ok_or_else(|| PluginError::Unknown(client.to_owned()))?;
        let reloaded = self.load(name).await;
        if let Err(error) = &reloaded {
            warn!(client = %name, reason = with_causes(error), "plugin not loaded again; what was there stays");
        }
        reloaded
    }

    /// Loads again whatever has changed.
    pub async fn reload_all(&self) {
        // Each says for itself what came of it.
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
        // Both members are whole after every statement.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
