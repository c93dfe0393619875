//! Backoff between attempts to connect, and between readings of a list that keeps changing.

use std::time::Duration;

use uuid::Uuid;

use super::limits::{FIRST_RETRY, LAST_RETRY, STABLE_AFTER};

/// Counts consecutive failed attempts, or consecutive lists that soon changed again.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
    /// Immediate retries besides the first one.
    free: u32,
}

impl Backoff {
    /// Creates a backoff with `free` immediate retries besides the first one.
    pub(super) fn with_free(free: u32) -> Self {
        Self { failures: 0, free }
    }

    /// Returns the delay after an attempt that ended `lived` after it began. The first retry is
    /// immediate, because most servers that crash recover. An attempt that lived
    /// [`STABLE_AFTER`] or longer resets the count.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE_AFTER {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        match self.failures.saturating_sub(self.free) {
            0 | 1 => Duration::ZERO,
            n => jittered(FIRST_RETRY.saturating_mul(1 << (n - 2).min(16)).min(LAST_RETRY)),
        }
    }
}

/// Returns a random delay between half of `delay` and all of it, so that servers that failed
/// together do not reconnect together.
fn jittered(delay: Duration) -> Duration {
    let [byte, ..] = *Uuid::new_v4().as_bytes();
    delay.mul_f64(0.5 + f64::from(byte) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_a_minute_and_reset_after_a_stable_attempt() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.after(Duration::ZERO), Duration::ZERO);
        for most in [1, 2, 4, 8, 16, 32, 60, 60] {
            let most = Duration::from_secs(most);
            let delay = backoff.after(Duration::ZERO);
            assert!(delay >= most / 2 && delay <= most, "{delay:?} of at most {most:?}");
        }
        assert_eq!(backoff.after(STABLE_AFTER), Duration::ZERO);
        assert!(backoff.after(STABLE_AFTER / 2) > Duration::ZERO);
    }

    #[test]
    fn free_retries_are_immediate() {
        let mut backoff = Backoff::with_free(2);
        let delays: Vec<bool> = (0..4).map(|_| backoff.after(Duration::ZERO).is_zero()).collect();
        assert_eq!(delays, [true, true, true, false]);
    }
}
