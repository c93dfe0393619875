//! A directory that guests may write to, and how full it is: counted as guests change it, and
//! measured where the count may be wrong.
//!
//! Whatever changes a mount takes its turn and runs on a thread that may block. So what was looked
//! at before a change still holds when it is made, as far as guests go; what others do to the
//! directory in the meantime shows at the next measuring. Two grants of one directory, to one
//! plugin or to two, are two mounts, and see of each other as much.

use std::{
    collections::HashMap,
    fs::File,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wasmtime_wasi::{
    p2::{FsError, StreamError, bindings::filesystem::types::ErrorCode},
    runtime::spawn_blocking,
};

use super::{
    measure::{Amount, measure},
    scratch::Scratch,
};
use crate::Quota;

/// How long a measurement is believed, as to what others put into the directory.
const BELIEVED: Duration = Duration::from_mins(1);
/// How soon after a measurement the next may be made for a guest that is about to be refused.
const PAUSE: Duration = Duration::from_secs(1);
/// How many times as long as a measurement took the next one has to wait: a tenth of the time at
/// most is spent measuring.
const PAUSE_FACTOR: u32 = 9;

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

/// A file as the file system tells it from others, by device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Identity(pub(super) u64, pub(super) u64);

/// One writable directory. Shared by all calls of a plugin.
pub(super) struct Mount {
    path: PathBuf,
    quota: Quota,
    /// Held for as long as a change or a measurement takes. It goes along to the thread that does
    /// it: one that cannot be stopped any more keeps its turn when nobody waits for it, and those
    /// that wait need no threads.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held for moments.
    ledger: Mutex<Ledger>,
    _scratch: Option<Scratch>,
}

/// What is known of a mount.
#[derive(Default)]
struct Ledger {
    /// What it holds; none where that is unknown, or more than the quota.
    held: Option<Amount>,
    measured: Option<Measured>,
    /// Files that guests have open: one that has lost its name takes room until it is closed.
    open: HashMap<Identity, Open>,
}

#[derive(Clone, Copy)]
struct Measured {
    at: Instant,
    /// When it may be done again to avoid a refusal.
    again: Instant,
}

struct Open {
    file: Arc<File>,
    holders: usize,
    /// It has no name any more, and is counted all the same.
    nameless: bool,
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

    /// A mount that is known to be empty, and removed with its last holder.
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

    /// Runs `change` on a thread that may block, when it is this mount's turn. Dropping the future
    /// while it waits leaves it undone; later it is done to its end.
    pub(super) async fn change<T: Send + 'static>(
        self: Arc<Self>,
        change: impl FnOnce(&Turn) -> T + Send + 'static,
    ) -> T {
        let turn = Turn { _right: self.turn.clone().lock_owned().await, mount: self };
        spawn_blocking(move || change(&turn)).await
    }

    /// Notes that a guest has a file open, until the value is dropped.
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

    /// What is counted, for tests.
    #[cfg(test)]
    pub(super) fn counted(&self) -> Option<Amount> {
        self.ledger().held
    }

    /// Lets time pass since the last measurement, or takes it back, for tests.
    #[cfg(test)]
    pub(super) fn measured_before(&self, at: Duration, again: Duration) {
        let now = Instant::now();
        self.ledger().measured = Some(Measured {
            at: now.checked_sub(at).unwrap(),
            again: now.checked_sub(at).unwrap() + again,
        });
    }
}

/// Keeps an open file counted.
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

/// The right to change a mount, which one has at a time.
pub(super) struct Turn {
    mount: Arc<Mount>,
    _right: tokio::sync::OwnedMutexGuard<()>,
}

impl Turn {
    /// Notes that a guest has a file open.
    pub(super) fn hold(&self, identity: Identity, file: &Arc<File>) -> Held {
        self.mount.hold(identity, file)
    }

    /// Adds one entry to the mount by doing what `add` does, if there is room for it.
    pub(super) fn add_entry<T, E: From<OverQuota>>(
        &self,
        add: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.take(Amount::ONE_FILE)?;
        add().inspect_err(|_| self.mount.ledger().give_back(Amount::ONE_FILE))
    }

    /// Changes the length of `file` by doing what `change` does, if there is room for what that
    /// adds: it leaves the file, as far as it gets longer, with no more than what `end` answers for
    /// its present length.
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
        // It may have written less than it wanted to, or made the file shorter.
        let after = length(file);
        let mut ledger = self.mount.ledger();
        ledger.give_back(Amount::bytes(most.saturating_add(before.saturating_sub(after))));
        ledger.count(Amount::bytes(after.saturating_sub(before)));
        changed
    }

    /// Counts that a name is gone. A file that had no other, and is open, takes its room until it
    /// is closed.
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
        // Looked at beforehand: the walk must not be made under the ledger's lock.
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

impl Ledger {
    fn take(&mut self, more: Amount, quota: Quota) -> Result<(), OverQuota> {
        let after = self.held.ok_or(OverQuota)?.plus(more);
        if !after.is_within(quota) {
            return Err(OverQuota);
        }
        self.held = Some(after);
        Ok(())
    }

    fn give_back(&mut self, less: Amount) {
        self.held = self.held.map(|held| held.minus(less));
    }

    /// Adds without asking, what is there already.
    fn count(&mut self, more: Amount) {
        self.held = self.held.map(|held| held.plus(more));
    }

    /// Takes over what was found in the directory. What has no name there is added.
    fn measured(&mut self, held: Option<Amount>, measured: Measured) {
        let nameless =
            self.open.values().filter(|open| open.nameless).map(|open| length(&open.file));
        let nameless =
            nameless.fold(Amount::default(), |sum, bytes| sum.plus(Amount::bytes(bytes)));
        self.held = held.map(|held| held.plus(nameless));
        self.measured = Some(measured);
    }
}

impl Measured {
    fn now(took: Duration) -> Self {
        let at = Instant::now();
        Self { at, again: at + PAUSE.max(took.saturating_mul(PAUSE_FACTOR)) }
    }
}

/// The length of an open file. One that does not say is taken for empty, so that all of it counts
/// as added.
fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_is_made_once_a_second_and_for_a_tenth_of_the_time_at_most() {
        let pause = |took| {
            let measured = Measured::now(took);
            measured.again - measured.at
        };
        assert_eq!(pause(Duration::ZERO), Duration::from_secs(1));
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(18));
        assert!(pause(Duration::from_hours(24)) > Duration::from_hours(24));
    }
}
