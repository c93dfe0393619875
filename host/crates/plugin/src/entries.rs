//! The plugin entries of the configuration, which may change while the gateway runs.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{Configured, Settings};
use airlock_core::{
    file_version::FileVersion,
    tool::{ClientName, Policy},
};
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

/// Version of the files that a plugin depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FilesVersion {
    pub(super) component: Option<FileVersion>,
    pub(super) lock: Option<FileVersion>,
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

    /// Puts other entries in the place of these.
    pub(super) fn replace(&self, entries: BTreeMap<ClientName, Arc<PluginEntry>>) {
        self.0.store(Arc::new(entries));
    }
}

impl PluginSpec {
    pub(super) fn from_configured(
        Configured { client, policy, settings }: Configured,
    ) -> (ClientName, Self) {
        (client, Self { policy, settings })
    }
}

impl PluginEntry {
    pub(super) fn new(spec: PluginSpec) -> Self {
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

    /// Sets whether the plugin is no longer configured. Returns whether it was.
    pub(super) fn set_gone(&self, is_gone: bool) -> bool {
        self.is_gone.swap(is_gone, Ordering::SeqCst)
    }

    /// Returns the entry as it is configured now.
    pub(super) fn spec(&self) -> Arc<PluginSpec> {
        self.spec.lock().clone()
    }

    pub(super) fn set_spec(&self, spec: PluginSpec) {
        *self.spec.lock() = Arc::new(spec);
    }

    pub(super) fn last_load(&self) -> MutexGuard<'_, LastLoad> {
        self.last_load.lock()
    }
}
