//! A histogram of times, with fixed bounds.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

/// Upper bounds of the buckets, in milliseconds. One more bucket has no bound.
const BOUNDS_MILLIS: [u64; 17] = [
    1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000,
    300_000,
];

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Upper bound of each bucket, and the number of times up to that bound. The last bucket, whose
    /// number is `count`, has no bound and is left out.
    pub buckets: Vec<(Duration, u64)>,
    /// Number of times.
    pub count: u64,
    /// Sum of the times.
    pub sum: Duration,
}

/// Counts times in buckets.
#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; BOUNDS_MILLIS.len() + 1],
    sum_micros: AtomicU64,
}

impl Histogram {
    pub(super) fn record(&self, time: Duration) {
        let bucket = BOUNDS_MILLIS.partition_point(|bound| time > Duration::from_millis(*bound));
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the present numbers. They are those of one moment as far as the buckets are
    /// concerned; the sum may have a time more or less.
    pub(super) fn read(&self) -> Distribution {
        let mut count = 0;
        let mut cumulative = self.buckets.iter().map(|bucket| {
            count += bucket.load(Ordering::Relaxed);
            count
        });
        let bounds = BOUNDS_MILLIS.into_iter().map(Duration::from_millis);
        let buckets = bounds.zip(cumulative.by_ref()).collect();
        // The bucket without a bound.
        cumulative.for_each(drop);
        let sum = Duration::from_micros(self.sum_micros.load(Ordering::Relaxed));
        Distribution { buckets, count, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_of_its_bound_and_beyond_it_in_the_next() {
        let histogram = Histogram::default();
        let bound = Duration::from_millis(100);
        for time in [bound, bound + Duration::from_nanos(1), Duration::from_secs(1_000)] {
            histogram.record(time);
        }
        let read = histogram.read();
        for (millis, count) in [(50, 0), (100, 1), (250, 2), (300_000, 2)] {
            let bound = Duration::from_millis(millis);
            let found = read.buckets.iter().find(|(at, _)| *at == bound);
            assert_eq!(found, Some(&(bound, count)));
        }
        assert_eq!(read.count, 3);
        assert_eq!(read.sum, Duration::from_millis(1_000_200));
        assert!(BOUNDS_MILLIS.is_sorted() && read.buckets.len() == BOUNDS_MILLIS.len());
    }
}
