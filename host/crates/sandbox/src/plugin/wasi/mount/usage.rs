//! The usage of a mount: the amount that it holds, the last measurement, and the files that guests
//! have open.

use std::{
    collections::HashMap,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Quota,
    plugin::wasi::{identity::FileIdentity, measure::Amount, over_quota::OverQuota},
};

/// Age up to which a measurement is trusted, although other programs may change the directory. So
/// what they add is unknown for a minute at most.
const MAX_AGE: Duration = Duration::from_mins(1);
/// Least time from a measurement to the next one that is made to avoid a refusal. A guest at its
/// quota could otherwise have the directory walked at each attempt.
const MIN_PAUSE: Duration = Duration::from_secs(1);
/// The pause after a measurement, as a multiple of the time that it took. So at most a tenth of the
/// time is spent measuring.
const PAUSE_FACTOR: u32 = 9;

/// Amount and measurements known of a mount.
#[derive(Default)]
pub(super) struct MountUsage {
    /// Amount that the mount holds; `None` if that is unknown or exceeds the quota.
    pub(super) held: Option<Amount>,
    pub(super) measured: Option<Measurement>,
    /// Files that guests have open. A file that has lost its last name takes space until it is
    /// closed.
    open: HashMap<FileIdentity, OpenEntry>,
}

struct OpenEntry {
    file: Arc<File>,
    /// Number of values of [`OpenFile`](super::OpenFile) for the file.
    holders: usize,
    /// True if the file has no name any more; its bytes still count.
    unlinked: bool,
}

impl MountUsage {
    /// Returns the usage of a directory that was just made.
    pub(super) fn empty() -> Self {
        Self {
            held: Some(Amount::default()),
            measured: Some(Measurement::now(Duration::ZERO)),
            open: HashMap::new(),
        }
    }

    /// Counts `more`. Fails if it does not fit into the quota.
    pub(super) fn take(&mut self, more: Amount, quota: Quota) -> Result<(), OverQuota> {
        let after = self.held.ok_or(OverQuota)?.plus(more);
        if !after.is_within(quota) {
            return Err(OverQuota);
        }
        self.held = Some(after);
        Ok(())
    }

    pub(super) fn release(&mut self, less: Amount) {
        self.held = self.held.map(|held| held.minus(less));
    }

    /// Counts what is there already, without checking the quota.
    pub(super) fn count(&mut self, more: Amount) {
        self.held = self.held.map(|held| held.plus(more));
    }

    /// Counts one more holder of an open file.
    pub(super) fn open(&mut self, identity: FileIdentity, file: &Arc<File>) {
        let entry = self.open.entry(identity).or_insert_with(|| OpenEntry {
            file: file.clone(),
            holders: 0,
            unlinked: false,
        });
        entry.holders += 1;
    }

    /// Counts one holder less. The last one releases the bytes of a file that has no name.
    pub(super) fn close(&mut self, identity: FileIdentity) {
        let Some(entry) = self.open.get_mut(&identity) else { return };
        entry.holders -= 1;
        if entry.holders > 0 {
            return;
        }
        if let Some(OpenEntry { file, unlinked: true, .. }) = self.open.remove(&identity) {
            self.release(Amount::bytes(length(&file)));
        }
    }

    /// Counts the removal of a name of a file that had `names`. If an open file has no name left,
    /// its bytes stay counted.
    pub(super) fn removed(&mut self, identity: FileIdentity, was: Amount, names: u64) {
        match self.open.get_mut(&identity) {
            Some(entry) if names <= 1 => {
                entry.unlinked = true;
                self.release(Amount { bytes: 0, files: was.files });
            }
            _ => self.release(was),
        }
    }

    /// Replaces the count by a measurement. Open files without a name are added to it.
    pub(super) fn measured(&mut self, held: Option<Amount>, measured: Measurement) {
        let unlinked =
            self.open.values().filter(|entry| entry.unlinked).map(|entry| length(&entry.file));
        let unlinked =
            unlinked.fold(Amount::default(), |sum, bytes| sum.plus(Amount::bytes(bytes)));
        self.held = held.map(|held| held.plus(unlinked));
        self.measured = Some(measured);
    }
}

/// Time of a measurement.
#[derive(Clone, Copy)]
pub(super) struct Measurement {
    pub(super) at: Instant,
    /// Earliest time of the next measurement to avoid a refusal.
    pub(super) next: Instant,
}

impl Measurement {
    /// Returns the time of a measurement that took `took` and ended now.
    pub(super) fn now(took: Duration) -> Self {
        let at = Instant::now();
        Self { at, next: at + MIN_PAUSE.max(took.saturating_mul(PAUSE_FACTOR)) }
    }

    /// Returns whether the measurement is too old to be trusted.
    pub(super) fn is_outdated(self) -> bool {
        self.at.elapsed() > MAX_AGE
    }

    /// Returns whether it is too soon to measure again.
    pub(super) fn is_recent(self) -> bool {
        Instant::now() < self.next
    }
}

/// Returns the length of an open file. If the length cannot be read, the file is taken for empty,
/// so that all of it counts as added.
pub(super) fn length(file: &File) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_are_at_least_a_second_apart_and_take_at_most_a_tenth_of_the_time() {
        assert_eq!(pause(Duration::ZERO), Duration::from_secs(1));
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(18));
        assert!(pause(Duration::from_hours(24)) > Duration::from_hours(24));
    }

    fn pause(took: Duration) -> Duration {
        let measured = Measurement::now(took);
        measured.next - measured.at
    }
}
