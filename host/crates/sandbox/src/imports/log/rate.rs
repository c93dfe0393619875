//! How fast a plugin's calls may write to the operator's log, each tenant's for themselves: a
//! bucket of bytes that fills up again with time. What one call may write is bounded elsewhere;
//! this bounds many calls.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use airlock_core::tenant::Tenant;

/// Bytes that a tenant's calls may write at once: all lines of one call at the default limits.
pub(super) const BURST_BYTES: u64 = 4 << 20;
/// Bytes a second that they may write in the long run.
pub(super) const BYTES_PER_SECOND: u64 = 64 << 10;

/// The buckets of one plugin.
#[derive(Debug, Default)]
pub(crate) struct LogRate {
    /// Those that are not full.
    buckets: Mutex<HashMap<Tenant, Bucket>>,
}

#[derive(Debug)]
struct Bucket {
    left: u64,
    /// When `left` was true.
    at: Instant,
    /// Whether something was dropped since the last line that was written.
    drops: bool,
}

/// Decision about one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Write,
    /// It is dropped, and the first one after others that were not.
    DropAndSay,
    Drop,
}

impl LogRate {
    /// Takes a line of so many bytes.
    pub(crate) fn take(&self, tenant: &Tenant, bytes: usize) -> Verdict {
        self.take_at(Instant::now(), tenant, bytes as u64)
    }

    fn take_at(&self, now: Instant, tenant: &Tenant, bytes: u64) -> Verdict {
        // Buckets are whole after every statement.
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if !buckets.contains_key(tenant) {
            // A full bucket is like none. So there are no more of them than tenants that wrote in
            // the last minute.
            buckets.retain(|_, bucket| bucket.fill(now) < BURST_BYTES);
        }
        let bucket = buckets.entry(tenant.clone()).or_insert(Bucket {
            left: BURST_BYTES,
            at: now,
            drops: false,
        });
        let Some(left) = bucket.fill(now).checked_sub(bytes) else {
            return if std::mem::replace(&mut bucket.drops, true) {
                Verdict::Drop
            } else {
                Verdict::DropAndSay
            };
        };
        *bucket = Bucket { left, at: now, drops: false };
        Verdict::Write
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
    fn a_burst_is_written_and_then_so_many_bytes_a_second() {
        let (rate, now) = (LogRate::default(), Instant::now());
        let take = |seconds, bytes| {
            rate.take_at(now + Duration::from_secs(seconds), &Tenant::ANONYMOUS, bytes)
        };
        assert_eq!(take(0, BURST_BYTES), Verdict::Write);
        assert_eq!([take(0, 1), take(0, 1)], [Verdict::DropAndSay, Verdict::Drop]);
        assert_eq!(take(1, BYTES_PER_SECOND + 1), Verdict::Drop);
        assert_eq!(take(1, BYTES_PER_SECOND), Verdict::Write);
        assert_eq!(
            take(1, 1),
            Verdict::DropAndSay,
            "it is said again after a line that was written"
        );
        assert_eq!(
            [take(10_000, BURST_BYTES + 1), take(10_000, BURST_BYTES)],
            [Verdict::Drop, Verdict::Write]
        );
    }

    #[test]
    fn what_one_tenant_writes_is_not_taken_from_another_and_full_buckets_are_forgotten() {
        let (rate, now) = (LogRate::default(), Instant::now());
        for number in 0..100 {
            let tenant = Tenant::of_key([number; 32], "");
            assert_eq!(rate.take_at(now, &tenant, BURST_BYTES), Verdict::Write);
        }
        assert_eq!(rate.buckets.lock().expect("no panic").len(), 100);
        rate.take_at(now + Duration::from_secs(65), &Tenant::ANONYMOUS, 1);
        assert_eq!(rate.buckets.lock().expect("no panic").len(), 1);
    }
}
