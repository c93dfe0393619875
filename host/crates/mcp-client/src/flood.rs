//! Counts the unsolicited messages of a server, and delays reading when they exceed its rate.

use std::time::Duration;

use tokio::time::Instant;

use super::limits::{BURST_TOKENS, BYTES_PER_TOKEN, FLOOD_TOLERANCE, MAX_UNANSWERED, TOKEN_TIME};

/// Time in which a whole burst of tokens is refilled.
const WINDOW: Duration = TOKEN_TIME.saturating_mul(BURST_TOKENS);

/// A token bucket. It never refuses a message: the cost of a message is known only after it was
/// read, so the next message waits.
#[derive(Debug)]
pub(super) struct TokenBucket {
    /// Time at which all spent tokens are refilled.
    refilled_at: Instant,
    /// Time since which the server has had to wait, without a moment at which all tokens were
    /// refilled.
    waiting_since: Option<Instant>,
}

/// Unsolicited messages per second that a server may send for an unlimited time.
const RATE: u128 = Duration::from_secs(1).as_nanos() / TOKEN_TIME.as_nanos();

/// Reason that a server counts as flooding the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Flood {
    /// The server was over its rate for longer than [`FLOOD_TOLERANCE`].
    #[error(
        "it floods the gateway with messages: for {FLOOD_TOLERANCE:?} it sent more than {RATE} a second that were not asked for, \
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

impl TokenBucket {
    pub(super) fn new(now: Instant) -> Self {
        Self { refilled_at: now, waiting_since: None }
    }

    /// Spends tokens, even if they are not available.
    pub(super) fn charge(&mut self, tokens: u32, now: Instant) {
        if self.refilled_at <= now {
            self.refilled_at = now;
            self.waiting_since = None;
        }
        self.refilled_at += TOKEN_TIME.saturating_mul(tokens);
    }

    /// Returns the time to wait before the next message is read. Fails once the server has had to
    /// wait for [`FLOOD_TOLERANCE`].
    pub(super) fn wait(&mut self, now: Instant) -> Result<Duration, Flood> {
        let owed = self.refilled_at.saturating_duration_since(now);
        if owed.is_zero() {
            self.waiting_since = None;
        }
        let wait = owed.saturating_sub(WINDOW);
        if wait.is_zero() {
            return Ok(wait);
        }
        let since = *self.waiting_since.get_or_insert(now);
        if now.saturating_duration_since(since) >= FLOOD_TOLERANCE {
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
        let mut bucket = TokenBucket::new(start);
        bucket.charge(BURST_TOKENS, start);
        assert_eq!(bucket.wait(start), Ok(Duration::ZERO));
        bucket.charge(TOKENS, start);
        assert_eq!(bucket.wait(start), Ok(MILLI));
        assert_eq!(bucket.wait(start + MILLI), Ok(Duration::ZERO));
    }

    #[test]
    fn a_server_always_over_its_rate_is_a_flood_after_flood_patience_and_not_before() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        let mut now = start;
        bucket.charge(BURST_TOKENS + 1, now);
        while now < start + FLOOD_TOLERANCE {
            bucket.wait(now).expect("it is patient still");
            now += MILLI;
            bucket.charge(TOKENS + 1, now);
        }
        assert_eq!(bucket.wait(now), Err(Flood::Rate));
    }

    #[test]
    fn a_full_refill_resets_the_flood_timer() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        for round in 0..10 {
            let now = start + FLOOD_TOLERANCE * round;
            bucket.charge(BURST_TOKENS * 2, now);
            assert_eq!(bucket.wait(now), Ok(WINDOW), "round {round}");
        }
    }

    #[test]
    fn a_server_at_its_allowed_rate_never_waits() {
        let start = Instant::now();
        let mut bucket = TokenBucket::new(start);
        for millis in 0..60_000 {
            let now = start + MILLI * millis;
            bucket.charge(TOKENS, now);
            assert_eq!(bucket.wait(now), Ok(Duration::ZERO));
        }
    }
}
