//! Counts the unsolicited messages of a server, and delays reading when they exceed its rate.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{BURST_TOKENS, BYTES_PER_TOKEN, FLOOD_PATIENCE, MAX_UNANSWERED, TOKEN_TIME};

/// Time in which a whole burst of tokens is refilled.
const WINDOW: Duration = TOKEN_TIME.saturating_mul(BURST_TOKENS);

/// A token bucket. It never refuses a message: the cost of a message is known only after it was
/// read, so the next message waits.
#[derive(Debug)]
pub(super) struct Meter {
    /// Time at which all spent tokens are refilled.
    paid: Instant,
    /// Time since which the server has had to wait, without a moment at which all tokens were
    /// refilled.
    saturated: Option<Instant>,
}

/// Unsolicited messages per second that a server may send for an unlimited time.
const RATE: u128 = Duration::from_secs(1).as_nanos() / TOKEN_TIME.as_nanos();

/// Reason that a server counts as flooding the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Flood {
    /// The server was over its rate for longer than [`FLOOD_PATIENCE`].
    #[error(
        "it floods the gateway with messages: for {FLOOD_PATIENCE:?} it sent more than {RATE} a second that were not asked for, \
         where each {BYTES_PER_TOKEN} bytes count as one"
    )]
    Rate,
    /// The server does not wait for the gateway's responses: more than [`MAX_UNANSWERED`] of its
    /// requests are pending.
    #[error(
        "it floods the gateway with messages: more than {MAX_UNANSWERED} of its own requests wait for an answer"
    )]
    Unanswered,
}

impl Meter {
    pub(super) fn new(now: Instant) -> Self {
        Self { paid: now, saturated: None }
    }

    /// Spends tokens, even if they are not available.
    pub(super) fn charge(&mut self, tokens: u32, now: Instant) {
        if self.paid <= now {
            self.paid = now;
            self.saturated = None;
        }
        self.paid += TOKEN_TIME.saturating_mul(tokens);
    }

    /// Returns the time to wait before the next message is read. Fails once the server has had to
    /// wait for [`FLOOD_PATIENCE`].
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
    /// Tokens that are refilled in one [`MILLI`].
    const TOKENS: u32 = 10;

    #[test]
    fn a_burst_is_free_and_excess_waits_until_it_is_refilled() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        meter.charge(BURST_TOKENS, start);
        assert_eq!(meter.wait(start), Ok(Duration::ZERO));
        meter.charge(TOKENS, start);
        assert_eq!(meter.wait(start), Ok(MILLI));
        assert_eq!(meter.wait(start + MILLI), Ok(Duration::ZERO));
    }

    #[test]
    fn a_server_always_over_its_rate_is_a_flood_after_flood_patience_and_not_before() {
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
    fn a_full_refill_resets_the_flood_timer() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for round in 0..10 {
            let now = start + FLOOD_PATIENCE * round;
            meter.charge(BURST_TOKENS * 2, now);
            assert_eq!(meter.wait(now), Ok(WINDOW), "round {round}");
        }
    }

    #[test]
    fn a_server_at_its_allowed_rate_never_waits() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        for millis in 0..60_000 {
            let now = start + MILLI * millis;
            meter.charge(TOKENS, now);
            assert_eq!(meter.wait(now), Ok(Duration::ZERO));
        }
    }
}
