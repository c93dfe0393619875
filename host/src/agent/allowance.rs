//! What the calls of one request may spend together: bytes of the conversation, and time.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::Instant;

use super::Settings;

/// With fewer bytes left than this no tool is run: its result would hardly fit, and what it changes could not be told.
const MIN_LEFT_BYTES: usize = 1 << 10;

/// What is left to one request.
pub(super) struct Allowance {
    /// When the request must have ended.
    pub(super) deadline: Instant,
    /// Bytes that calls and results may add to the conversation.
    limit_bytes: usize,
    left_bytes: AtomicUsize,
}

/// What was asked for does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exceeded {
    /// Bytes with what was asked for.
    pub(super) found: usize,
    /// Bytes there may be.
    pub(super) limit: usize,
}

impl Allowance {
    /// The allowance of a request that begins now.
    pub(super) fn new(settings: &Settings) -> Self {
        let limit_bytes = settings.max_tool_bytes;
        Self { deadline: Instant::now() + settings.timeout, limit_bytes, left_bytes: AtomicUsize::new(limit_bytes) }
    }

    /// Takes bytes. What does not fit is not taken, so that something smaller may fit later.
    pub(super) fn take(&self, bytes: usize) -> Result<(), Exceeded> {
        let take = |left: usize| left.checked_sub(bytes);
        let taken = self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(drop).map_err(|left| self.exceeded(left, bytes))
    }

    /// Fails if there is no room for another result.
    pub(super) fn check(&self) -> Result<(), Exceeded> {
        match self.left_bytes.load(Ordering::Relaxed) {
            MIN_LEFT_BYTES.. => Ok(()),
            left => Err(self.exceeded(left, MIN_LEFT_BYTES)),
        }
    }

    /// Whether the time is up.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn exceeded(&self, left: usize, bytes: usize) -> Exceeded {
        Exceeded { found: (self.limit_bytes - left).saturating_add(bytes), limit: self.limit_bytes }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::agent::tests::SETTINGS;

    #[tokio::test]
    async fn bytes_are_taken_to_the_last_and_what_does_not_fit_takes_none() {
        let allowance = Allowance::new(&Settings { max_tool_bytes: 2_000, ..SETTINGS });
        assert_eq!(allowance.take(900), Ok(()));
        assert_eq!(allowance.take(1_101), Err(Exceeded { found: 2_001, limit: 2_000 }));
        assert_eq!(allowance.check(), Ok(()));
        assert_eq!(allowance.take(1_100), Ok(()));
        assert_eq!(allowance.take(1), Err(Exceeded { found: 2_001, limit: 2_000 }));
        assert_eq!(allowance.check(), Err(Exceeded { found: 3_024, limit: 2_000 }));
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_is_up_at_the_deadline() {
        let allowance = Allowance::new(&Settings { timeout: Duration::from_secs(2), ..SETTINGS });
        tokio::time::advance(Duration::from_millis(1_999)).await;
        assert!(!allowance.is_over());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(allowance.is_over());
    }
}
