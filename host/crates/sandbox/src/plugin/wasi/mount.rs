//! A directory that guests may write to, and how full it is. Changes by guests are counted; the
//! directory is measured when the count may be wrong.
//!
//! Changes of a mount run one at a time, on a thread that may block. So a check made before a
//! change still holds during the change, as far as guests are concerned. Changes by other programs
//! are seen at the next measurement. Two grants of one directory, to one plugin or to two, are two
//! mounts; each sees the other's changes only at its next measurement too.

mod usage;

use std::{fs::File, path::PathBuf, sync::Arc, time::Instant};

use parking_lot::{Mutex, MutexGuard};
use wasmtime_wasi::runtime::spawn_blocking;

use self::usage::{Measurement, MountUsage, length};
use super::{
    identity::FileIdentity,
    measure::{Amount, measure},
    over_quota::OverQuota,
    scratch::ScratchDirectory,
};
use crate::Quota;

/// One writable directory, shared by all calls of a plugin.
pub(super) struct Mount {
    path: PathBuf,
    quota: Quota,
    /// Reservation while a change or a measurement runs. The guard moves to the thread that does the work:
    /// work that can no longer be stopped keeps the lock after its caller is gone, and callers that
    /// wait occupy no threads.
    lock: Arc<tokio::sync::Mutex<()>>,
    /// Locked for moments only, never during a walk.
    usage: Mutex<MountUsage>,
    scratch: Option<ScratchDirectory>,
}

impl Mount {
    pub(super) fn new(path: PathBuf, quota: Quota) -> Arc<Self> {
        Arc::new(Self { path, quota, lock: Arc::default(), usage: Mutex::default(), scratch: None })
    }

    /// Creates a mount of a scratch directory, which is empty at first and removed with the mount.
    pub(super) fn of_scratch(scratch: ScratchDirectory, quota: Quota) -> Arc<Self> {
        Arc::new(Self {
            path: scratch.path().to_owned(),
            quota,
            lock: Arc::default(),
            usage: Mutex::new(MountUsage::empty()),
            scratch: Some(scratch),
        })
    }

    /// Returns whether the directory is removed with the call that has it.
    pub(super) fn is_scratch(&self) -> bool {
        self.scratch.is_some()
    }

    /// Runs `change` under the mount's lock, on a thread that may block. If the future is dropped
    /// before `change` has started, `change` does not run. Once started, `change` runs to its end.
    pub(super) async fn change<T: Send + 'static>(
        self: Arc<Self>,
        change: impl FnOnce(&MountGuard) -> T + Send + 'static,
    ) -> T {
        let guard = MountGuard { _lock: self.lock.clone().lock_owned().await, mount: self };
        spawn_blocking(move || change(&guard)).await
    }

    fn usage(&self) -> MutexGuard<'_, MountUsage> {
        self.usage.lock()
    }

    /// Returns the counted amount, for tests.
    #[cfg(test)]
    pub(super) fn counted(&self) -> Option<Amount> {
        self.usage().held
    }

    /// Sets the age of the last measurement, and the pause after it, for tests.
    #[cfg(test)]
    pub(super) fn measured_before(&self, age: std::time::Duration, pause: std::time::Duration) {
        let at = Instant::now().checked_sub(age).expect("the machine has run for longer");
        self.usage().measured = Some(Measurement { at, next: at + pause });
    }
}

/// Counts a file as open until dropped.
pub(super) struct OpenFile {
    mount: Arc<Mount>,
    identity: FileIdentity,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.mount.usage().close(self.identity);
    }
}

/// The lock of a mount while it is held. Every change of the mount requires it.
pub(super) struct MountGuard {
    mount: Arc<Mount>,
    _lock: tokio::sync::OwnedMutexGuard<()>,
}

impl MountGuard {
    /// Counts a file as open until the returned value is dropped.
    pub(super) fn open_file(&self, identity: FileIdentity, file: &Arc<File>) -> OpenFile {
        self.mount.usage().open(identity, file);
        OpenFile { mount: self.mount.clone(), identity }
    }

    /// Adds one entry to the mount by calling `add`. Fails with [`OverQuota`] if there is no room.
    pub(super) fn add_entry<T, E: From<OverQuota>>(
        &self,
        add: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.take(Amount::ONE_FILE)?;
        add().inspect_err(|_| self.mount.usage().release(Amount::ONE_FILE))
    }

    /// Changes the length of `file` by calling `change`. `end` maps the present length of the file
    /// to the greatest length that `change` may extend it to. Fails with [`OverQuota`] if there is
    /// no room for the growth.
    pub(super) fn resize<T, E: From<OverQuota>>(
        &self,
        file: &File,
        end: impl FnOnce(u64) -> u64,
        change: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let before = length(file);
        let most = end(before).saturating_sub(before);
        self.take(Amount::bytes(most))?;
        let changed = change();
        // `change` may have written less than requested, or shortened the file.
        let after = length(file);
        let mut usage = self.mount.usage();
        usage.release(Amount::bytes(most.saturating_add(before.saturating_sub(after))));
        usage.count(Amount::bytes(after.saturating_sub(before)));
        changed
    }

    /// Counts the removal of a name. If it was the last name of a file that is open, the bytes stay
    /// counted until the file is closed.
    pub(super) fn removed(&self, identity: FileIdentity, was: Amount, names: u64) {
        self.mount.usage().removed(identity, was, names);
    }

    /// Counts `more` if the quota has room for it. Measures first if the last measurement is too
    /// old, and also before a refusal unless the last measurement is recent.
    fn take(&self, more: Amount) -> Result<(), OverQuota> {
        if more == Amount::default() {
            return Ok(());
        }
        // Read beforehand, because the walk must not run while the usage is locked.
        let known = self.mount.usage().measured;
        if known.is_none_or(Measurement::is_outdated) {
            self.measure();
            return self.take_now(more);
        }
        self.take_now(more).or_else(|over| {
            if known.is_some_and(Measurement::is_recent) {
                return Err(over);
            }
            self.measure();
            self.take_now(more)
        })
    }

    fn take_now(&self, more: Amount) -> Result<(), OverQuota> {
        self.mount.usage().take(more, self.mount.quota)
    }

    fn measure(&self) {
        let began = Instant::now();
        let held = measure(&self.mount.path, self.mount.quota);
        self.mount.usage().measured(held, Measurement::now(began.elapsed()));
    }
}
