//! Limits the rate at which a plugin's calls write to the operator's log: a token bucket of bytes
//! for each tenant. The lines of one call are bounded elsewhere; this bounds the sum of many calls.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::tenant::Tenant;

/// Bytes that a tenant's calls may write in a burst: all lines of one call at the default limits.
const BURST_BYTES: u64 = 4 << 20;
/// Bytes a second that a tenant's calls may write in the long run.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// Buckets of one plugin, by tenant.
#[derive(Debug, Default)]
pub struct LogRate {
    /// Buckets that are not full.
    buckets: Mutex<HashMap<Tenant, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: u64,
    /// The time at which `left` was computed.
    at: Instant,
    /// True if a line was dropped since the last one that was written.
    drops: bool,
}

/// Decision about one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineVerdict {
    /// The line is written.
    Write,
    /// The line is dropped, and it is the first one since a line was written: a warning is due.
    DropAndSay,
    /// The line is dropped.
    Drop,
}

impl LogRate {
    /// Decides about a line of `bytes` bytes.
    pub fn take(&self, tenant: &Tenant, bytes: usize) -> LineVerdict {
        self.take_at(Instant::now(), tenant, bytes as u64)
    }

    fn take_at(&self, now: Instant, tenant: &Tenant, bytes: u64) -> LineVerdict {
        // Every statement leaves the buckets consistent, so a poisoned lock is usable.
        let mut buckets = self.buckets.lock();
        if !buckets.contains_key(tenant) {
            // A full bucket is the same as none and is removed. So there are at most as many
            // buckets as tenants that wrote in about the last minute.
            buckets.retain(|_, bucket| bucket.fill(now) < BURST_BYTES);
        }
        let bucket = buckets.entry(tenant.clone()).or_insert(Bucket {
            left: BURST_BYTES,
            at: now,
            drops: false,
        });
        let Some(left) = bucket.fill(now).checked_sub(bytes) else {
            return if std::mem::replace(&mut bucket.drops, true) {
                LineVerdict::Drop
            } else {
                LineVerdict::DropAndSay
            };
        };
        *bucket = Bucket { left, at: now, drops: false };
        LineVerdict::Write
    }
}

impl Bucket {
    fn fill(&self, now: Instant) -> u64 {
        let passed: Duration = now.saturating_duration_since(self.at);
        let filled =
            u64::try_from(passed.as_millis()).unwrap_or(u64::MAX).saturating_mul(BYTES_PER_SECOND)
                / 1_000;
        self.left.saturating_add(filled).min(BURST_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_burst_only_the_long_run_rate_is_written() {
        let rate = LogRate::default();
        let now = Instant::now();
        assert_eq!(take(&rate, now, 0, BURST_BYTES), LineVerdict::Write);
        assert_eq!(
            [take(&rate, now, 0, 1), take(&rate, now, 0, 1)],
            [LineVerdict::DropAndSay, LineVerdict::Drop]
        );
        assert_eq!(take(&rate, now, 1, BYTES_PER_SECOND + 1), LineVerdict::Drop);
        assert_eq!(take(&rate, now, 1, BYTES_PER_SECOND), LineVerdict::Write);
        assert_eq!(
            take(&rate, now, 1, 1),
            LineVerdict::DropAndSay,
            "it is said again after a line that was written"
        );
        assert_eq!(
            [take(&rate, now, 10_000, BURST_BYTES + 1), take(&rate, now, 10_000, BURST_BYTES)],
            [LineVerdict::Drop, LineVerdict::Write]
        );
    }

    fn take(rate: &LogRate, now: Instant, seconds: u64, bytes: u64) -> LineVerdict {
        rate.take_at(now + Duration::from_secs(seconds), &Tenant::ANONYMOUS, bytes)
    }

    #[test]
    fn every_tenant_has_its_own_bucket_and_full_buckets_are_removed() {
        let rate = LogRate::default();
        let now = Instant::now();
        for number in 0..100 {
            let tenant = Tenant::of_key([number; 32], "");
            assert_eq!(rate.take_at(now, &tenant, BURST_BYTES), LineVerdict::Write);
        }
        assert_eq!(rate.buckets.lock().len(), 100);
        rate.take_at(now + Duration::from_secs(65), &Tenant::ANONYMOUS, 1);
        assert_eq!(rate.buckets.lock().len(), 1);
    }
}
