//! Handshakes that fail. Each is logged at the level `debug`; of those that an operator can mend, one line
//! of the level `warn` is logged each minute, so that scans of the port do not fill the log.

use std::{
    io, mem,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tracing::{debug, warn};

/// Interval between two warnings.
const WARNING_PERIOD: Duration = Duration::from_mins(1);

/// Counter of handshakes that fail.
#[derive(Debug, Default)]
pub(crate) struct FailedHandshakes(Mutex<FailureCounter>);

#[derive(Debug, Default)]
struct FailureCounter {
    warned: Option<Instant>,
    /// Number since the last warning.
    failed: u64,
}

impl FailedHandshakes {
    /// Counts and logs a handshake that fails.
    pub(crate) fn report(&self, error: &io::Error) {
        debug!(%error, "no handshake of TLS");
        // Load balancers and scanners open connections and close them.
        if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput) {
            return;
        }
        if let Some(failed) = self.0.lock().count(Instant::now()) {
            warn!(failed, last_reason = %error, "handshakes of TLS have failed");
        }
    }
}

impl FailureCounter {
    /// Counts a handshake. Returns the number since the last warning if the next one is due.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.failed += 1;
        let is_due = self.warned.is_none_or(|warned| now.duration_since(warned) >= WARNING_PERIOD);
        is_due.then(|| {
            self.warned = Some(now);
            mem::take(&mut self.failed)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_a_minute_has_the_number_since_the_last_one() {
        let mut counter = FailureCounter::default();
        let begin = Instant::now();
        assert_eq!(counter.count(begin), Some(1));
        assert_eq!(counter.count(begin), None);
        let second = Duration::from_secs(1);
        assert_eq!(counter.count(begin + 59 * second), None);
        assert_eq!(counter.count(begin + WARNING_PERIOD), Some(3));
        assert_eq!(counter.count(begin + WARNING_PERIOD), None);
    }
}
