//! Arithmetic of load tests: times at which requests are due, percentiles, medians.

use std::time::Duration;

use super::micros;

/// Latencies, sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Latencies(Vec<Duration>);

impl Latencies {
    /// Sorts latencies.
    pub fn new(mut latencies: Vec<Duration>) -> Self {
        latencies.sort_unstable();
        Self(latencies)
    }

    /// Returns the number of latencies.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest latency that at least `percent` of all do not exceed; zero if there are
    /// none.
    pub fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.0.len() * percent).div_ceil(100).max(1);
        self.0.get(rank - 1).copied().unwrap_or_default()
    }

    /// Returns the same percentile in microseconds.
    pub fn micros(&self, percent: usize) -> f64 {
        micros(self.percentile(percent))
    }
}

/// Requests at a constant rate, whether earlier ones were answered or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    per_second: u32,
    count: u32,
}

impl Schedule {
    /// Creates the schedule of `per_second` requests a second over a time, at least one request.
    pub fn new(per_second: u32, over: Duration) -> Self {
        let count = over.as_micros() * u128::from(per_second) / 1_000_000;
        Self { per_second, count: u32::try_from(count).unwrap_or(u32::MAX).max(1) }
    }

    /// Returns the number of requests.
    pub fn count(self) -> u32 {
        self.count
    }

    /// Returns the time from the start at which a request is due.
    pub fn due(self, index: u32) -> Duration {
        Duration::from_secs(1) * index / self.per_second.max(1)
    }
}

/// Returns the median; the mean of the middle two if there is an even number of values. Zero if
/// there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.get(middle) {
        Some(&upper) if values.len().is_multiple_of(2) => f64::midpoint(values[middle - 1], upper),
        Some(&middle) => middle,
        None => 0.0,
    }
}

/// Returns the median of times, in microseconds.
pub fn median_micros(times: &[Duration]) -> f64 {
    median(times.iter().copied().map(micros))
}

/// Returns the median of what times are beyond those of `base` in the same round, in microseconds. Rounds that
/// one of the two lacks do not count.
pub fn median_added(times: &[Duration], base: &[Duration]) -> f64 {
    median(times.iter().zip(base).map(|(own, base)| micros(*own) - micros(*base)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(latencies: impl IntoIterator<Item = u64>) -> Latencies {
        Latencies::new(latencies.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn a_percentile_is_the_latency_that_this_part_does_not_exceed() {
        let hundred = millis((1..=100).rev());
        let at = |percent| hundred.percentile(percent).as_millis();
        assert_eq!((at(0), at(50), at(99), at(100)), (1, 50, 99, 100));
        assert_eq!(millis([7, 5, 6]).percentile(50), Duration::from_millis(6));
        assert_eq!(millis([1, 9]).percentile(99), Duration::from_millis(9));
        assert_eq!(millis([]).percentile(99), Duration::ZERO);
    }

    #[test]
    fn requests_are_due_evenly_and_none_is_lost_to_rounding() {
        let schedule = Schedule::new(3_000, Duration::from_secs(2));
        assert_eq!(schedule.count(), 6_000);
        assert_eq!(schedule.due(0), Duration::ZERO);
        assert_eq!(schedule.due(1), Duration::from_nanos(333_333));
        assert_eq!(schedule.due(3_000), Duration::from_secs(1));
        assert_eq!(Schedule::new(10, Duration::ZERO).count(), 1);
    }

    #[test]
    fn the_median_is_the_middle_or_the_mean_of_the_middle_two() {
        for (values, expected) in
            [(&[][..], 0.0), (&[3.0], 3.0), (&[3.0, 1.0], 2.0), (&[9.0, -1.0, 4.0], 4.0)]
        {
            assert!((median(values.iter().copied()) - expected).abs() < 1e-9, "{values:?}");
        }
    }

    #[test]
    fn what_times_are_beyond_others_is_the_median_of_the_rounds() {
        let base = [100, 900, 300].map(Duration::from_micros);
        let times = [110, 905, 400].map(Duration::from_micros);
        assert!((median_micros(&times) - 400.0).abs() < 1e-9);
        // The difference of the medians would be 100.
        assert!((median_added(&times, &base) - 10.0).abs() < 1e-9);
        assert!((median_added(&base, &times[..1]) + 10.0).abs() < 1e-9);
    }
}
