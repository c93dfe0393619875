//! Notices that a component was replaced. Files are looked at once a second, which sees a rename, a
//! mount and a network filesystem alike, and costs one system call a plugin.

use std::{
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, SystemTime},
};

use tokio_util::sync::CancellationToken;

use super::{Entry, Plugins};

/// How often files are looked at. A file must look the same twice before it is read, so that none
/// is read half-written.
pub(super) const PERIOD: Duration = Duration::from_secs(1);

/// What tells one state of the files that a plugin depends on from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    component: Option<FileMark>,
    lock: Option<FileMark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct FileMark {
    inode: u64,
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Plugins {
    /// Loads again what has changed, until told to stop.
    pub(in crate::gateway) async fn watch(&self, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(PERIOD);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut before = Vec::new();
        loop {
            let look = async {
                ticks.tick().await;
                before = self.look(&before).await;
            };
            // A plugin that takes long to load delays no stop.
            tokio::select! {
                () = stop.cancelled() => return,
                () = look => {}
            }
        }
    }

    /// Loads again what has changed since it was loaded and looks as it did `before`. Answers how
    /// everything looks now.
    async fn look(&self, before: &[Option<Mark>]) -> Vec<Option<Mark>> {
        let mut now = Vec::new();
        for (client, entry) in &self.0.entries {
            now.push(self.mark(entry).await);
            let is_settled = before.get(now.len() - 1) == now.last();
            let is_new = entry.seen().mark != *now.last().expect("it was pushed three lines above");
            if is_settled && is_new {
                // It says itself what came of it.
                let _ = self.reload(client.as_str()).await;
            }
        }
        now
    }

    /// How the files are right now. What was accepted counts too: a component may have been refused
    /// until it was.
    pub(super) async fn mark(&self, entry: &Entry) -> Option<Mark> {
        let component = file_mark(&entry.wasm.component).await;
        let lock = match &self.0.lock {
            Some(path) => file_mark(path).await,
            None => None,
        };
        Some(Mark { component, lock })
    }
}

async fn file_mark(path: &Path) -> Option<FileMark> {
    let metadata = tokio::fs::metadata(path).await.ok()?;
    Some(FileMark {
        inode: metadata.ino(),
        bytes: metadata.len(),
        modified: metadata.modified().ok(),
    })
}
