//! The count of one limit: the used and the remaining amount. Plain arithmetic on a row of the store.

use std::time::Duration;

use airlock_store::limits::{StoredBucket, StoredCount, StoredExtra};

use crate::{limit::Limit, window::Buckets};

/// Longest time of a lease.
const LEASE_MS: i64 = 1_000;
/// Part of the remaining amount that one lease takes.
const LEASE_PART: u64 = 16;

/// A count that is being changed.
///
/// Time never goes back for a count: if the clock steps back, its last time still holds. If it steps back by more than a
/// whole window, the earlier time was wrong, and all amounts count as used now. So a step back gives no amount a second
/// time, and does not block a limit for longer than a window.
#[derive(Debug)]
pub(crate) struct Count<'l> {
    limit: &'l Limit,
    buckets: Buckets,
    stored: StoredCount,
    now_ms: i64,
}

/// An amount that was taken, and where it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Charge {
    pub(crate) amount: u64,
    pub(crate) bucket_ms: i64,
    pub(crate) epoch_ms: i64,
}

impl<'l> Count<'l> {
    /// Opens a count at a time of the clock, in milliseconds since 1970.
    pub(crate) fn open(limit: &'l Limit, stored: StoredCount, clock_ms: i64) -> Self {
        let mut count = Self { limit, buckets: Buckets::new(limit), stored, now_ms: clock_ms };
        let is_new = count.stored == StoredCount::default();
        if is_new {
            count.stored.epoch_ms = clock_ms;
        }
        count.set_time(clock_ms);
        count.drop_ended();
        count
    }

    fn set_time(&mut self, clock_ms: i64) {
        let back_ms = self.stored.seen_ms.saturating_sub(clock_ms);
        if self.buckets.length_ms().is_some_and(|length_ms| back_ms > length_ms) {
            let used = self.used();
            let start_ms = self.buckets.start_ms(self.stored.epoch_ms, clock_ms);
            self.stored.buckets = vec![StoredBucket { start_ms, used }];
            self.stored.seen_ms = clock_ms;
        }
        self.now_ms = self.stored.seen_ms.max(clock_ms);
        self.stored.seen_ms = self.now_ms;
    }

    fn drop_ended(&mut self) {
        let buckets = self.buckets;
        let now_ms = self.now_ms;
        self.stored.buckets.retain(|bucket| {
            bucket.used > 0 && buckets.end_ms(bucket.start_ms).is_none_or(|end_ms| end_ms > now_ms)
        });
        if self.extra_until_ms().is_some_and(|until_ms| until_ms <= now_ms) {
            self.stored.extra = None;
        }
    }

    fn extra_until_ms(&self) -> Option<i64> {
        self.stored.extra.and_then(|extra| extra.until_ms)
    }

    /// The row to store.
    pub(crate) fn stored(&self) -> &StoredCount {
        &self.stored
    }

    /// Returns the amount that counts now.
    pub(crate) fn used(&self) -> u64 {
        let amounts = self.stored.buckets.iter().map(|bucket| bucket.used);
        amounts.fold(0, u64::saturating_add)
    }

    /// Returns the limit, with a temporary addition.
    pub(crate) fn most(&self) -> u64 {
        let extra = self.stored.extra.map_or(0, |extra| extra.amount);
        self.limit.most.saturating_add(extra)
    }

    /// Returns the amount that can be taken.
    pub(crate) fn left(&self) -> u64 {
        self.most().saturating_sub(self.used())
    }

    /// Takes an amount, even if it exceeds the remaining one.
    pub(crate) fn take(&mut self, amount: u64) -> Charge {
        self.take_at(self.buckets.start_ms(self.stored.epoch_ms, self.now_ms), amount)
    }

    fn take_at(&mut self, bucket_ms: i64, amount: u64) -> Charge {
        let buckets = &mut self.stored.buckets;
        match buckets.binary_search_by_key(&bucket_ms, |bucket| bucket.start_ms) {
            Ok(found) => buckets[found].used = buckets[found].used.saturating_add(amount),
            Err(_) if amount == 0 => {}
            Err(place) => {
                buckets.insert(place, StoredBucket { start_ms: bucket_ms, used: amount });
            }
        }
        Charge { amount, bucket_ms, epoch_ms: self.stored.epoch_ms }
    }

    /// Takes a share that is counted elsewhere for the returned time: at most `wanted`, and a part of what
    /// remains. `None` if that is less than `least`.
    pub(crate) fn lease(&mut self, wanted: u64, least: u64) -> Option<(Charge, Duration)> {
        let share = wanted.min(self.left() / LEASE_PART);
        let (time_ms, bucket_ms) =
            self.buckets.lease_ms(self.stored.epoch_ms, self.now_ms, LEASE_MS);
        let time = Duration::from_millis(u64::try_from(time_ms).unwrap_or_default());
        (share > 0 && share >= least && !time.is_zero())
            .then(|| (self.take_at(bucket_ms, share), time))
    }

    /// Corrects a charge to the amount that was really used. The unused part is returned to the bucket
    /// that has it; an additional amount is taken now, even if it exceeds the remaining one. A charge from before a
    /// reset is not corrected. Returns whether the count has changed.
    pub(crate) fn settle(&mut self, charge: Charge, actual: u64) -> bool {
        if charge.epoch_ms != self.stored.epoch_ms {
            return false;
        }
        let further = actual.saturating_sub(charge.amount);
        self.take(further);
        let unused = charge.amount.saturating_sub(actual);
        let buckets = self.stored.buckets.iter_mut();
        let mut is_changed = further > 0;
        for bucket in buckets.filter(|bucket| bucket.start_ms == charge.bucket_ms) {
            bucket.used = bucket.used.saturating_sub(unused);
            is_changed = true;
        }
        self.drop_ended();
        is_changed
    }

    /// Returns the time after which an amount is available if no other one is taken; `None` for never.
    pub(crate) fn wait(&self, amount: u64) -> Option<Duration> {
        if amount > self.most() {
            return None;
        }
        let mut lacking = amount.saturating_sub(self.left());
        let mut end_ms = self.now_ms;
        for bucket in &self.stored.buckets {
            if lacking == 0 {
                break;
            }
            end_ms = self.buckets.end_ms(bucket.start_ms)?;
            lacking = lacking.saturating_sub(bucket.used);
        }
        if lacking > 0 {
            return None;
        }
        let wait_ms = end_ms.saturating_sub(self.now_ms);
        Some(Duration::from_millis(u64::try_from(wait_ms).unwrap_or_default()))
    }

    /// Returns the start of the window; `None` for a window without an end.
    pub(crate) fn window_start_ms(&self) -> Option<i64> {
        self.buckets.window_start_ms(self.stored.epoch_ms, self.now_ms)
    }

    /// Returns the time at which a used amount counts no more; `None` for never, or if none is used in a
    /// window that slides.
    pub(crate) fn window_end_ms(&self) -> Option<i64> {
        match self.buckets {
            Buckets::Sliding { .. } => self.buckets.end_ms(self.stored.buckets.first()?.start_ms),
            _ => self.buckets.end_ms(self.buckets.start_ms(self.stored.epoch_ms, self.now_ms)),
        }
    }

    /// Forgets what was taken, and begins a new window.
    pub(crate) fn reset(&mut self) {
        self.stored.buckets.clear();
        self.stored.epoch_ms = self.now_ms.max(self.stored.epoch_ms.saturating_add(1));
    }

    /// Sets the addition to the limit for this number of windows, the present one included; without a
    /// number, until it is removed.
    pub(crate) fn set_extra(&mut self, amount: u64, windows: Option<u32>) {
        let until_ms = windows.and_then(|windows| {
            self.buckets.end_of_windows_ms(self.stored.epoch_ms, self.now_ms, windows)
        });
        self.stored.extra = Some(StoredExtra { amount, until_ms });
    }

    /// Removes the addition to the limit.
    pub(crate) fn clear_extra(&mut self) {
        self.stored.extra = None;
    }
}

#[cfg(test)]
mod tests;
