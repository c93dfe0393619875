//! The time in which a server cannot be reached.

use std::time::{Duration, Instant};

/// Pause after a failed attempt to connect, in which all operations fail at once. Doubled after each
/// further failure.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Longest pause: a server that is back is used within about a second.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Attempts to connect that have failed, one after the other.
#[derive(Debug, Default)]
pub struct Outage {
    failures: u32,
    until: Option<Instant>,
    /// Reason that was logged last.
    reported: Option<String>,
}

impl Outage {
    /// Returns whether no attempt is made at this time.
    pub fn is_pausing(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Begins the next pause after a failure. Several connections that fail at once are one failure.
    pub fn fail(&mut self, now: Instant) {
        if self.is_pausing(now) {
            return;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10));
        self.until = Some(now + pause.min(LONGEST_PAUSE));
        self.failures += 1;
    }

    /// Returns whether the reason of a failure is to be logged: the log has another one, or none.
    pub fn reports(&mut self, reason: &str) -> bool {
        let is_new = self.reported.as_deref() != Some(reason);
        if is_new {
            self.reported = Some(reason.to_owned());
        }
        is_new
    }

    /// Ends the outage. Returns whether there was one.
    pub fn end(&mut self) -> bool {
        self.until = None;
        self.reported = None;
        std::mem::take(&mut self.failures) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_failures_that_follow_each_other_and_end_with_a_success() {
        let mut outage = Outage::default();
        let mut now = Instant::now();
        assert!(!outage.is_pausing(now));
        for expected in [100, 200, 400, 800, 1_000, 1_000] {
            for _ in 0..8 {
                outage.fail(now);
            }
            assert!(outage.is_pausing(now + Duration::from_millis(expected - 1)), "{expected}");
            now += Duration::from_millis(expected);
            assert!(!outage.is_pausing(now), "{expected}");
        }
        assert!(outage.end());
        assert!(!outage.end());
        outage.fail(now);
        assert!(!outage.is_pausing(now + FIRST_PAUSE));
    }

    #[test]
    fn a_reason_is_reported_once_in_an_outage() {
        let mut outage = Outage::default();
        assert!(outage.reports("refused"));
        assert!(!outage.reports("refused"));
        assert!(outage.reports("starting up"));
        outage.end();
        assert!(outage.reports("starting up"));
    }
}
