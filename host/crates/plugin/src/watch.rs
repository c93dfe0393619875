//! Detects replaced components by polling. Files are checked once a second. This detects renames,
//! mounts and changes on network filesystems, and costs one system call per file. A plugin for
//! which the store could not be used is tried again here too.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{Plugins, Settings, entries::FilesVersion};
use airlock_core::tool::ClientName;
use airlock_lock::{WATCH_PERIOD, file_version};

impl Plugins {
    /// Reloads changed plugins. Never completes; dropping the future stops it, also while a plugin is
    /// loaded.
    pub async fn watch(&self) {
        let mut ticks = tokio::time::interval(WATCH_PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = BTreeMap::new();
        loop {
            ticks.tick().await;
            before = self.look(&before).await;
        }
    }

    /// Reloads plugins whose files have changed since the last load and are the same as `before`.
    /// Returns the current versions.
    async fn look(
        &self,
        before: &BTreeMap<ClientName, FilesVersion>,
    ) -> BTreeMap<ClientName, FilesVersion> {
        let mut now = BTreeMap::new();
        for (client, entry) in &*self.0.entries.all() {
            let version = self.files_version(&entry.spec().settings).await;
            let is_settled = before.get(client) == Some(&version);
            let is_new = entry.last_load().files.as_ref() != Some(&version);
            let is_due = entry.last_load().retry_at.is_some_and(|time| time <= Instant::now());
            now.insert(client.clone(), version);
            if (is_settled && is_new) || is_due {
                // The load logs its own outcome.
                let _ = self.load(client, entry).await;
            }
        }
        now
    }

    /// Returns the current version of the files. The lock file is part of it, because a component may
    /// have been refused until it was accepted.
    pub(super) async fn files_version(&self, settings: &Settings) -> FilesVersion {
        // A component in the store is the accepted one, and never changes.
        let Some(path) = settings.component.file() else {
            return FilesVersion { component: None, lock: None };
        };
        let component = file_version(path).await;
        let lock = match self.0.lock.path() {
            Some(path) => file_version(path).await,
            None => None,
        };
        FilesVersion { component, lock }
    }
}
