//! How long to wait before the next attempt to connect, and before a list that keeps changing is
//! read again.

use std::time::Duration;

use uuid::Uuid;

use super::limits::{FIRST_RETRY, LAST_RETRY, STABLE};

/// Counts attempts that came to nothing, or lists that did not last.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// What to wait after an attempt that ended `lived` after it began. The first retry comes at
    /// once: most servers that crash come back.
    pub(super) fn after(&mut self, lived: Duration) -> Duration {
        if lived >= STABLE {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        match self.failures {
            1 => Duration::ZERO,
            n => jittered(FIRST_RETRY.saturating_mul(1 << (n - 2).min(16)).min(LAST_RETRY)),
        }
    }
}

/// Between half of `delay` and all of it, so that servers that went down together do not come back
/// together.
fn jittered(delay: Duration) -> Duration {
    let [byte, ..] = *Uuid::new_v4().as_bytes();
    delay.mul_f64(0.5 + f64::from(byte) / 510.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_minute_and_start_over_after_a_stable_one() {
        let mut backoff = Backoff::default();
        assert_eq!(backoff.after(Duration::ZERO), Duration::ZERO);
        for most in [1, 2, 4, 8, 16, 32, 60, 60] {
            let most = Duration::from_secs(most);
            let delay = backoff.after(Duration::ZERO);
            assert!(delay >= most / 2 && delay <= most, "{delay:?} of at most {most:?}");
        }
        assert_eq!(backoff.after(STABLE), Duration::ZERO);
        assert!(backoff.after(STABLE / 2) > Duration::ZERO);
    }
}
