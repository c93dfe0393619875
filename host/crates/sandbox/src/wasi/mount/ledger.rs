//! The count of a mount: the amount that it holds, the last measurement, and the files that guests
//! have open.

use std::{
    collections::HashMap,
    fs::File,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{Amount, Identity, OverQuota};
use crate::Quota;

/// Time for which a measurement is trusted, although other programs may change the directory.
pub(super) const BELIEVED: Duration = Duration::from_mins(1);
/// Least time from a measurement to the next one that is made to avoid a refusal.
const PAUSE: Duration = Duration::from_secs(1);
/// The pause after a measurement, as a multiple of the time that it took. So at most a tenth of the
/// time is spent measuring.
const PAUSE_FACTOR: u32 = 9;

/// Amount and measurements known of a mount.
#[derive(Default)]
pub(super) struct Ledger {
    /// Amount that the mount holds; `None` if that is unknown or exceeds the quota.
    pub(super) held: Option<Amount>,
    pub(super) measured: Option<Measured>,
    /// Files that guests have open. A file that has lost its last name takes space until it is
    /// closed.
    pub(super) open: HashMap<Identity, Open>,
}

#[derive(Clone, Copy)]
pub(super) struct Measured {
    pub(super) at: Instant,
    /// Earliest time of the next measurement to avoid a refusal.
    pub(super) again: Instant,
}

pub(super) struct Open {
    pub(super) file: Arc<File>,
    pub(super) holders: usize,
    /// True if the file has no name any more; its bytes still count.
    pub(super) nameless: bool,
}

impl Ledger {
    pub(super) fn take(&mut self, more: Amount, quota: Quota) -> Result<(), OverQuota> {
        let after = self.held.ok_or(OverQuota)?.plus(more);
        if !after.is_within(quota) {
            return Err(OverQuota);
        }
        self.held = Some(after);
        Ok(())
    }

    pub(super) fn give_back(&mut self, less: Amount) {
        self.held = self.held.map(|held| held.minus(less));
    }

    /// Counts what is there already, without checking the quota.
    pub(super) fn count(&mut self, more: Amount) {
        self.held = self.held.map(|held| held.plus(more));
    }

    /// Replaces the count by a measurement. Open files without a name are added to it.
    pub(super) fn measured(&mut self, held: Option<Amount>, measured: Measured) {
        let nameless =
            self.open.values().filter(|open| open.nameless).map(|open| length(&open.file));
        let nameless =
            nameless.fold(Amount::default(), |sum, bytes| sum.plus(Amount::bytes(bytes)));
        self.held = held.map(|held| held.plus(nameless));
        self.measured = Some(measured);
    }
}

impl Measured {
    pub(super) fn now(took: Duration) -> Self {
        let at = Instant::now();
        Self { at, again: at + PAUSE.max(took.saturating_mul(PAUSE_FACTOR)) }
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
        let pause = |took| {
            let measured = Measured::now(took);
            measured.again - measured.at
        };
        assert_eq!(pause(Duration::ZERO), Duration::from_secs(1));
        assert_eq!(pause(Duration::from_secs(2)), Duration::from_secs(18));
        assert!(pause(Duration::from_hours(24)) > Duration::from_hours(24));
    }
}
