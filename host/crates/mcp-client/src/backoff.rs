//! Backoff between attempts to connect, and between readings of a list that keeps changing.

use std::time::Duration;

use uuid::Uuid;

use super::settings::Restart;

/// Counts consecutive failed attempts, or consecutive lists that soon changed again.
#[derive(Debug)]
pub struct Backoff {
    restart: Restart,
    failures: u32,
    /// Immediate retries besides the first one.
    free: u32,
}

impl Backoff {
    /// Creates a backoff with `free` immediate retries besides the first one.
    pub fn new(restart: Restart, free: u32) -> Self {
        Self { restart, failures: 0, free }
    }

    /// Returns the delay after an attempt that ended `lived` after it began. The first retry is
    /// immediate, because most servers that crash recover. An attempt that lived as long as a stable
    /// connection resets the count.
    pub fn after(&mut self, lived: Duration) -> Duration {
        if lived >= self.restart.stable_after {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        match self.failures.saturating_sub(self.free) {
            0 | 1 => Duration::ZERO,
            n => {
                let delay = self.restart.backoff.saturating_mul(1 << (n - 2).min(16));
                jittered(delay.min(self.restart.max_backoff))
            }
        }
    }

    /// Returns the consecutive failures.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns whether no further attempt is made without the operator.
    pub fn is_exhausted(&self) -> bool {
        self.restart.max_attempts.is_some_and(|max| self.failures >= max)
    }

    /// Forgets all failures.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

/// Returns a random delay between half of `delay` and all of it, so that servers that failed
/// together do not reconnect together.
pub(super) fn jittered(delay: Duration) -> Duration {
    let [byte, ..] = *Uuid::new_v4().as_bytes();
    delay.mul_f64(0.5 + f64::from(byte) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::STABLE_AFTER;

    fn backoff(free: u32) -> Backoff {
        Backoff::new(Restart::default(), free)
    }

    #[test]
    fn delays_double_up_to_a_minute_and_reset_after_a_stable_attempt() {
        let mut backoff = backoff(0);
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
        let mut backoff = backoff(2);
        let delays: Vec<bool> = (0..4).map(|_| backoff.after(Duration::ZERO).is_zero()).collect();
        assert_eq!(delays, [true, true, true, false]);
    }

    #[test]
    fn attempts_are_exhausted_at_their_number_and_reset_by_the_operator() {
        let restart = Restart { max_attempts: Some(2), ..Restart::default() };
        let mut backoff = Backoff::new(restart, 0);
        backoff.after(Duration::ZERO);
        assert!(!backoff.is_exhausted());
        backoff.after(Duration::ZERO);
        assert!(backoff.is_exhausted());
        backoff.reset();
        assert!(!backoff.is_exhausted());
    }
}
