//! A directory that guests may write to, and how full it is. Changes by guests are counted; the
//! directory is measured when the count may be wrong.
//!
//! Changes of a mount run one at a time, on a thread that may block. So a check made before a
//! change still holds during the change, as far as guests are concerned. Changes by other programs
//! are seen at the next measurement. Two grants of one directory, to one plugin or to two, are two
//! mounts; each sees the other's changes only at its next measurement too.

mod ledger;

use std::{
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wasmtime_wasi::{
    p2::{FsError, StreamError, bindings::filesystem::types::ErrorCode},
    runtime::spawn_blocking,
};

use self::ledger::{BELIEVED, Ledger, Measured, Open, length};
use super::{
    measure::{Amount, measure},
    scratch::Scratch,
};
use crate::Quota;

/// There is no room for what a guest wants to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the directory's quota is used up")]
pub(super) struct OverQuota;

impl From<OverQuota> for FsError {
    fn from(_: OverQuota) -> Self {
        ErrorCode::Quota.into()
    }
}

impl From<OverQuota> for StreamError {
    fn from(over: OverQuota) -> Self {
        Self::LastOperationFailed(over.into())
    }
}

/// Identity of a file: the two halves of wasmtime-wasi's metadata hash, which is made from the
/// file's device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(pub(super) u64, pub(super) u64);

/// One writable directory, shared by all calls of a plugin.
pub(super) struct Mount {
    path: PathBuf,
    quota: Quota,
    /// Held while a change or a measurement runs. The guard moves to the thread that does the work:
    /// work that can no longer be stopped keeps the turn after its caller is gone, and callers that
    /// wait occupy no threads.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held for moments only, never during a walk.
    ledger: Mutex<Ledger>,
    _scratch: Option<Scratch>,
}

impl Mount {
    pub(super) fn new(path: PathBuf, quota: Quota) -> Arc<Self> {
        Arc::new(Self {
            path,
            quota,
            turn: Arc::default(),
            ledger: Mutex::default(),
            _scratch: None,
        })
    }

    /// Creates a mount of a scratch directory, which is empty at first and removed with the mount.
    pub(super) fn of_scratch(scratch: Scratch, quota: Quota) -> Arc<Self> {
        let ledger = Ledger {
            held: Some(Amount::default()),
            measured: Some(Measured::now(Duration::ZERO)),
            ..Ledger::default()
        };
        Arc::new(Self {
            path: scratch.path().to_owned(),
            quota,
            turn: Arc::default(),
            ledger: Mutex::new(ledger),
            _scratch: Some(scratch),
        })
    }

    /// Runs `change` on a thread that may block, when it is this mount's turn. If the future is
    /// dropped before `change` has started, `change` does not run. Once started, `change` runs to
    /// its end.
    pub(super) async fn change<T: Send + 'static>(
        self: Arc<Self>,
        change: impl FnOnce(&Turn) -> T + Send + 'static,
    ) -> T {
        let turn = Turn { _right: self.turn.clone().lock_owned().await, mount: self };
        spawn_blocking(move || change(&turn)).await
    }

    /// Records that a guest has a file open, until the returned value is dropped.
    pub(super) fn hold(self: &Arc<Self>, identity: Identity, file: &Arc<File>) -> Held {
        let mut ledger = self.ledger();
        let open = ledger.open.entry(identity);
        open.or_insert_with(|| Open { file: file.clone(), holders: 0, nameless: false }).holders +=
            1;
        Held { mount: self.clone(), identity }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the counted amount, for tests.
    #[cfg(test)]
    pub(super) fn counted(&self) -> Option<Amount> {
        self.ledger().held
    }

    /// Sets the age of the last measurement, and the pause after it, for tests.
    #[cfg(test)]
    pub(super) fn measured_before(&self, at: Duration, again: Duration) {
        let now = Instant::now();
        self.ledger().measured = Some(Measured {
            at: now.checked_sub(at).unwrap(),
            again: now.checked_sub(at).unwrap() + again,
        });
    }
}

/// Keeps an open file in the ledger until dropped.
pub(super) struct Held {
    mount: Arc<Mount>,
    identity: Identity,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ledger = self.mount.ledger();
        let Some(open) = ledger.open.get_mut(&self.identity) else { return };
        open.holders -= 1;
        if open.holders > 0 {
            return;
        }
        if let Some(Open { file, nameless: true, .. }) = ledger.open.remove(&self.identity) {
            ledger.give_back(Amount::bytes(length(&file)));
        }
    }
}

/// The right to change a mount. One holder has it at a time.
pub(super) struct Turn {
    mount: Arc<Mount>,
    _right: tokio::sync::OwnedMutexGuard<()>,
}

impl Turn {
    /// Records that a guest has a file open.
    pub(super) fn hold(&self, identity: Identity, file: &Arc<File>) -> Held {
        self.mount.hold(identity, file)
    }

    /// Adds one entry to the mount by calling `add`. Fails with [`OverQuota`] if there is no room.
    pub(super) fn add_entry<T, E: From<OverQuota>>(
        &self,
        add: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.take(Amount::ONE_FILE)?;
        add().inspect_err(|_| self.mount.ledger().give_back(Amount::ONE_FILE))
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
        let mut ledger = self.mount.ledger();
        ledger.give_back(Amount::bytes(most.saturating_add(before.saturating_sub(after))));
        ledger.count(Amount::bytes(after.saturating_sub(before)));
        changed
    }

    /// Counts the removal of a name. If it was the last name of a file that is open, the bytes stay
    /// counted until the file is closed.
    pub(super) fn removed(&self, identity: Identity, was: Amount, names: u64) {
        let mut ledger = self.mount.ledger();
        match ledger.open.get_mut(&identity) {
            Some(open) if names <= 1 => {
                open.nameless = true;
                ledger.give_back(Amount { bytes: 0, files: was.files });
            }
            _ => ledger.give_back(was),
        }
    }

    fn take(&self, more: Amount) -> Result<(), OverQuota> {
        if more == Amount::default() {
            return Ok(());
        }
        let Mount { path, quota, .. } = &*self.mount;
        let take = || self.mount.ledger().take(more, *quota);
        let measure = || {
            let began = Instant::now();
            let held = measure(path, *quota);
            self.mount.ledger().measured(held, Measured::now(began.elapsed()));
        };
        // Read beforehand, because the walk must not run under the ledger's lock.
        let known = self.mount.ledger().measured;
        if known.is_none_or(|measured| measured.at.elapsed() > BELIEVED) {
            measure();
            return take();
        }
        take().or_else(|over| {
            if known.is_some_and(|measured| Instant::now() < measured.again) {
                return Err(over);
            }
            measure();
            take()
        })
    }
}
