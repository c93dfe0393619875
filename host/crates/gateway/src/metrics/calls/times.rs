//! Times of calls, for a histogram. Each thread counts in a part of its own: the histogram of the client library has a lock,
//! which all calls of a tool would take.

use std::{
    fmt,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use prometheus_client::{
    encoding::{EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, TypedMetric},
};

use airlock_core::thread_number::thread_number;

/// Upper bounds of the buckets in seconds, as the conventions for MCP have them. One more bucket has no bound.
const BOUNDS_SECONDS: [f64; 14] =
    [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0];
/// Number of buckets.
const BUCKETS: usize = BOUNDS_SECONDS.len() + 1;
/// Parts in which threads count. Each takes 128 bytes once a thread uses it.
const PARTS: usize = 8;

/// Times that were observed.
#[derive(Default)]
pub(super) struct Times([OnceLock<Box<TimesPart>>; PARTS]);

/// The times that some threads have observed. Two parts have no line of a cache in common.
#[derive(Default)]
#[repr(align(128))]
struct TimesPart {
    /// Number of the times in each bucket.
    buckets: [AtomicU64; BUCKETS],
    nanoseconds: AtomicU64,
}

impl Times {
    /// Counts a time.
    pub(super) fn observe(&self, time: Duration) {
        let part = self.0[thread_number() % PARTS].get_or_init(Box::default);
        let seconds = time.as_secs_f64();
        let bucket = BOUNDS_SECONDS.partition_point(|bound| *bound < seconds);
        part.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        part.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    /// Returns all times that were observed so far.
    pub(super) fn observed(&self) -> ObservedTimes {
        let mut buckets = [0; BUCKETS];
        let mut sum = Duration::ZERO;
        for part in self.0.iter().filter_map(OnceLock::get) {
            for (all, own) in buckets.iter_mut().zip(&part.buckets) {
                *all += own.load(Ordering::Relaxed);
            }
            sum += Duration::from_nanos(part.nanoseconds.load(Ordering::Relaxed));
        }
        ObservedTimes { buckets, sum }
    }
}

/// Times that were observed until now.
pub(super) struct ObservedTimes {
    buckets: [u64; BUCKETS],
    sum: Duration,
}

impl EncodeMetric for ObservedTimes {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        let bounds = BOUNDS_SECONDS.into_iter().chain([f64::INFINITY]);
        let buckets: Vec<_> = bounds.zip(self.buckets).collect();
        let count = self.buckets.iter().sum();
        encoder.encode_histogram::<NoLabelSet>(self.sum.as_secs_f64(), count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}

impl TypedMetric for ObservedTimes {
    const TYPE: MetricType = MetricType::Histogram;
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_of_its_bound_and_all_threads_are_added_up() {
        let times = Times::default();
        thread::scope(|scope| {
            for milliseconds in [0, 10, 11, 300_000, 300_001] {
                let times = &times;
                scope.spawn(move || times.observe(Duration::from_millis(milliseconds)));
            }
        });
        let ObservedTimes { buckets, sum } = times.observed();
        let mut expected = [0; BUCKETS];
        expected[0] = 2;
        expected[1] = 1;
        expected[BUCKETS - 2] = 1;
        expected[BUCKETS - 1] = 1;
        assert_eq!((buckets, sum), (expected, Duration::from_millis(600_022)));
    }
}
