//! Bounds the calls of one request together, in rounds, bytes of the conversation, memory and time.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::time::{Instant, timeout_at};

use super::{Failure, Settings};
use airlock_core::{
    memory::{Charge, MemoryBudget},
    tool::{CallError, ErrorKind, HostCode, ReachedLimit},
};

/// Bytes that must be left for a tool to be run. With fewer, its result would seldom fit, and the
/// model would not learn of its effects.
const MIN_LEFT_BYTES: usize = 1 << 10;
/// Number of copies of a call and its result in memory: one in the conversation, one in the record
/// for the `airlock` object. The client of the provider charges the text that it sends.
pub(super) const RESULT_COPIES: usize = 2;

/// Remaining budget of one request.
pub(super) struct Allowance {
    /// Deadline of the request.
    pub(super) deadline: Instant,
    timeout: Duration,
    /// Rounds of calls so far.
    pub(super) rounds: u32,
    max_rounds: u32,
    /// Bytes that calls and results may add to the conversation.
    limit_bytes: usize,
    left_bytes: AtomicUsize,
    /// Memory of the request: for calls and results, and for the model's responses.
    pub(super) held: Charge,
}

/// Refusal of bytes that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AllowanceExceeded {
    /// They do not fit into the conversation.
    Bytes {
        /// Total bytes, including the refused ones.
        found: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// They do not fit into the memory of the request.
    Memory,
}

impl Allowance {
    /// Creates the allowance of a request that begins now.
    pub(super) fn new(settings: &Settings, budget: &MemoryBudget) -> Self {
        let limit_bytes = settings.max_tool_bytes;
        let left_bytes = AtomicUsize::new(limit_bytes);
        Self {
            deadline: Instant::now() + settings.timeout,
            timeout: settings.timeout,
            rounds: 0,
            max_rounds: settings.max_depth,
            limit_bytes,
            left_bytes,
            held: budget.charge(),
        }
    }

    /// Takes `bytes` from the conversation and the memory. Fails and takes nothing if they do not
    /// fit; fewer bytes may fit later.
    pub(super) fn take(&self, bytes: usize) -> Result<(), AllowanceExceeded> {
        let taken = self
            .left_bytes
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        taken.map_err(|left| self.exceeded(left, bytes))?;
        if self.held.grow(bytes.saturating_mul(RESULT_COPIES)) {
            Ok(())
        } else {
            self.left_bytes.fetch_add(bytes, Ordering::Relaxed);
            Err(AllowanceExceeded::Memory)
        }
    }

    /// Fails if [`MIN_LEFT_BYTES`] do not fit.
    pub(super) fn check(&self) -> Result<(), AllowanceExceeded> {
        match self.left_bytes.load(Ordering::Relaxed) {
            MIN_LEFT_BYTES.. if self.held.has_room(MIN_LEFT_BYTES * RESULT_COPIES) => Ok(()),
            MIN_LEFT_BYTES.. => Err(AllowanceExceeded::Memory),
            left => Err(self.exceeded(left, MIN_LEFT_BYTES)),
        }
    }

    /// Runs a future. Fails and drops it at the deadline.
    pub(super) async fn within<T>(&self, work: impl Future<Output = T>) -> Result<T, Failure> {
        timeout_at(self.deadline, work).await.map_err(|_| self.timeout())
    }

    /// Returns the failure of a request that is past its deadline.
    pub(super) fn timeout(&self) -> Failure {
        Failure::timeout(self.timeout, self.rounds)
    }

    /// Returns whether no further round is permitted.
    pub(super) fn is_last_round(&self) -> bool {
        self.rounds >= self.max_rounds
    }

    /// Returns whether the deadline has passed.
    pub(super) fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    fn exceeded(&self, left: usize, bytes: usize) -> AllowanceExceeded {
        AllowanceExceeded::Bytes {
            found: (self.limit_bytes - left).saturating_add(bytes),
            limit: self.limit_bytes,
        }
    }
}

impl AllowanceExceeded {
    /// Converts the refusal into the error of a call. `was_made` is true if the tool may have run.
    pub(super) fn into_call_error(self, was_made: bool) -> CallError {
        let rest = if was_made {
            "the call was made, but its result is left out; ask for less"
        } else {
            "this call was not made; answer with what you have"
        };
        match self {
            Self::Bytes { found, limit } => {
                let message = format!(
                    "the tool calls of this request and their results would take {found} bytes; the limit is {limit}; {rest}"
                );
                CallError::new(ErrorKind::TooLarge, HostCode::ResultsTooLarge, message)
                    .with_limit(ReachedLimit::Amount(limit as u64))
            }
            Self::Memory => {
                let message = format!(
                    "the gateway has no memory left for the results of this request; {rest}"
                );
                CallError::new(ErrorKind::Unavailable, HostCode::RequestMemory, message)
                    .with_limit(ReachedLimit::Unnumbered)
            }
        }
    }
}

impl From<AllowanceExceeded> for Failure {
    fn from(exceeded: AllowanceExceeded) -> Self {
        match exceeded {
            AllowanceExceeded::Bytes { found, limit } => Self::TooLarge { found, limit },
            AllowanceExceeded::Memory => Self::NoMemory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::SETTINGS;
    use airlock_core::memory::Limited;

    #[tokio::test]
    async fn bytes_that_do_not_fit_are_refused_and_not_taken() {
        let allowance = Allowance::new(
            &Settings { max_tool_bytes: 2_000, ..SETTINGS },
            &MemoryBudget::unlimited(),
        );
        assert_eq!(allowance.take(900), Ok(()));
        assert_eq!(
            allowance.take(1_101),
            Err(AllowanceExceeded::Bytes { found: 2_001, limit: 2_000 })
        );
        assert_eq!(allowance.check(), Ok(()));
        assert_eq!(allowance.take(1_100), Ok(()));
        assert_eq!(allowance.take(1), Err(AllowanceExceeded::Bytes { found: 2_001, limit: 2_000 }));
        assert_eq!(allowance.check(), Err(AllowanceExceeded::Bytes { found: 3_024, limit: 2_000 }));
    }

    #[tokio::test]
    async fn memory_that_does_not_fit_is_not_taken_and_all_is_released() {
        let memory = Limited::new(10_000);
        let allowance = Allowance::new(
            &Settings { max_tool_bytes: 8_000, ..SETTINGS },
            &MemoryBudget::new(memory.clone()),
        );
        assert_eq!(allowance.take(3_000), Ok(()));
        assert_eq!(memory.taken(), 3_000 * RESULT_COPIES);
        assert_eq!(allowance.take(2_001), Err(AllowanceExceeded::Memory));
        assert_eq!(allowance.check(), Ok(()));
        assert_eq!(memory.taken(), 3_000 * RESULT_COPIES, "a check takes nothing");
        assert_eq!(allowance.take(2_000), Ok(()));
        assert_eq!(allowance.check(), Err(AllowanceExceeded::Memory));
        assert_eq!(
            allowance.take(3_001),
            Err(AllowanceExceeded::Bytes { found: 8_001, limit: 8_000 }),
            "5,000 bytes were taken"
        );
        drop(allowance);
        assert_eq!(memory.taken(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_allowance_is_over_at_its_deadline() {
        let allowance = Allowance::new(
            &Settings { timeout: Duration::from_secs(2), ..SETTINGS },
            &MemoryBudget::unlimited(),
        );
        tokio::time::advance(Duration::from_millis(1_999)).await;
        assert!(!allowance.is_over());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(allowance.is_over());
    }
}
