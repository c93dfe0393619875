//! Counts what a server sends without being asked, and tells when to read on.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{BURST_TOKENS, BYTES_PER_TOKEN, FLOOD_PATIENCE, MAX_UNANSWERED, TOKEN_TIME};

/// Time in which a whole burst comes back.
const WINDOW: Duration = TOKEN_TIME.saturating_mul(BURST_TOKENS);

/// A token bucket. It never refuses a message: the cost of one is known once it is read, so it is
/// the next one that waits.
#[derive(Debug)]
pub(super) struct Meter {
    /// When all tokens that were spent have come back.
    paid: Instant,
    /// Since when the server has had to wait, with no moment in between at which all tokens were
    /// there.
    saturated: Option<Instant>,
}

/// Messages a second that a server may send unasked for as long as it likes.
const RATE: u128 = Duration::from_secs(1).as_nanos() / TOKEN_TIME.as_nanos();

/// How a server sends more than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flood {
    /// It has been over its rate for longer than [`FLOOD_PATIENCE`].
    #[error(
        "it floods the gateway with messages: for {FLOOD_PATIENCE:?} it sent more than {RATE} a second that were not asked for, \
         where each {BYTES_PER_TOKEN} bytes count as one"
    )]
    Rate,
    /// It does not wait for the gateway's answers.
    #[error(
        "it floods the gateway with messages: more than {MAX_UNANSWERED} of its own requests wait for an answer"
    )]
    Unanswered,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid: now, saturated: None }
    }

    /// Spends tokens, whether they are there or not.
    pub(super) fn charge(&mut self, tokens: u32, now: Instant) {
        if self.paid <= now {
            self.paid = now;
            self.saturated = None;
        }
        self.paid += TOKEN_TIME.saturating_mul(tokens);
    }

    /// Time to wait before the next message is read. Fails once the server has had to wait for
    /// [`FLOOD_PATIENCE`].
    pub(super) fn wait(&mut self, now: Instant) -> Result<Duration, Flood> {
        let owed = self.paid.saturating_duration_since(now);
        if owed.is_zero() {
            self.saturated = None;
        }
        let wait = owed.saturating_sub(WINDOW);
        if wait.is_zero() {
            return Ok(wait);
        }
        let since = *self.saturated.get_or_insert(now);
        if now.saturating_duration_since(since) >= FLOOD_PATIENCE {
            Err(Flood::Rate)
        } else {
            Ok(wait)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);
    /// Tokens that come back in it.
    const TOKENS: u32 = 10;

    #[test]
    fn a_burst_is_free_and_more_waits_for_as_long_as_it_takes_to_come_back() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        meter.charge(BURST_TOKENS, start);
        assert_eq!(meter.wait(start), Ok(Duration::ZERO));
        meter.charge(TOKENS, start);
        assert_eq!(meter.wait(start), Ok(MILLI));
        assert_eq!(meter.wait(start + MILLI), Ok(Duration::ZERO));
    }

    #[test]
    fn a_server_that_is_always_over_its_rate_floods_at_the_end_of_patience_and_not_before() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let mut now = start;
        meter.charge(BURST_TOKENS + 1, now);
        while now < start + FLOOD_PATIENCE {
            meter.wait(now).expect("it is patient still");
            now += MILLI;
            meter.charge(TOKENS + 1, now);
        }
        assert_eq!(meter.wait(now), Err(Flood::Rate));
    }

    #[test]
    fn a_moment_without_debt_starts_patience_anew() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for round in 0..10 {
            let now = start + FLOOD_PATIENCE * round;
            meter.charge(BURST_TOKENS * 2, now);
            assert_eq!(meter.wait(now), Ok(WINDOW), "round {round}");
        }
    }

    #[test]
    fn a_rate_that_is_allowed_is_allowed_for_ever() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for millis in 0..60_000 {
            let now = start + MILLI * millis;
            meter.charge(TOKENS, now);
            assert_eq!(meter.wait(now), Ok(Duration::ZERO));
        }
    }
}
