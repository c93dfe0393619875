//! The durations of the last calls, for exact quantiles.

use std::{
    sync::atomic::{AtomicU32, AtomicUsize, Ordering},
    time::Duration,
};

/// Calls that are remembered.
const CALLS: usize = 512;

/// The durations of the last calls.
pub(super) struct Window {
    next: AtomicUsize,
    /// Durations in microseconds; 0 for none.
    micros: [AtomicU32; CALLS],
}

impl Default for Window {
    fn default() -> Self {
        Self { next: AtomicUsize::new(0), micros: [const { AtomicU32::new(0) }; CALLS] }
    }
}

impl Window {
    pub(super) fn record(&self, time: Duration) {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        let at = self.next.fetch_add(1, Ordering::Relaxed) % CALLS;
        self.micros[at].store(micros, Ordering::Relaxed);
    }

    /// Returns the quantiles 0.5, 0.9 and 0.99; `None` before the first call.
    pub(super) fn quantiles(&self) -> Option<[Duration; 3]> {
        let loaded = self.micros.iter().map(|micros| micros.load(Ordering::Relaxed));
        let mut known: Vec<u32> = loaded.filter(|micros| *micros > 0).collect();
        known.sort_unstable();
        Some([quantile(&known, 50)?, quantile(&known, 90)?, quantile(&known, 99)?])
    }
}

/// Returns the smallest of sorted times that is not exceeded by so many of a hundred times; `None` if
/// there are none.
fn quantile(sorted: &[u32], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    let micros = sorted.get(rank - 1)?;
    Some(Duration::from_micros(u64::from(*micros)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_last_calls() {
        let window = Window::default();
        assert_eq!(window.quantiles(), None);
        window.record(Duration::ZERO);
        assert_eq!(window.quantiles(), Some([Duration::from_micros(1); 3]));
        // These are forgotten.
        for _ in 0..CALLS {
            window.record(Duration::MAX);
        }
        for millis in 1..=512 {
            window.record(Duration::from_millis(millis));
        }
        assert_eq!(window.quantiles(), Some([256, 461, 507].map(Duration::from_millis)));
    }
}
