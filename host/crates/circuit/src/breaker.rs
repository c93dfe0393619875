//! One breaker. Five failures within a minute open it; while it is open, calls fail fast. After the
//! cool-down, one trial call goes through: if it works, the breaker closes; if it fails, the
//! cool-down doubles.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Failures that open a breaker, if all of them are within [`WINDOW`].
pub(super) const FAILURES: usize = 5;
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// First cool-down, doubled with each trial call that fails.
pub(super) const FIRST_COOL_DOWN: Duration = Duration::from_secs(30);
pub(super) const LONGEST_COOL_DOWN: Duration = Duration::from_mins(5);
/// Retry time that callers get while a trial call runs, because the duration of the trial is
/// unknown.
pub(super) const WHILE_HALF_OPEN: Duration = Duration::from_secs(1);

/// State of one breaker.
#[derive(Debug, PartialEq)]
pub(super) enum Breaker {
    /// Closed. Holds the times of the last failures, oldest first.
    Closed(VecDeque<Instant>),
    Open(Open),
    /// Half-open: a trial call is running.
    HalfOpen(Open),
}

/// State of an open breaker.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Open {
    pub(super) until: Instant,
    pub(super) wait: Duration,
    pub(super) failures: usize,
}

/// Evidence from the end of a call about the guarded tool or plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Works,
    Fails,
    /// No evidence: the guest was not reached, or ended for another reason.
    None,
}

/// A state change, which is reported in the operator's log.
#[derive(Debug, PartialEq)]
pub(super) enum Transition {
    Opened(Open),
    Closed,
}

impl Breaker {
    pub(super) fn closed() -> Self {
        Self::Closed(VecDeque::new())
    }

    /// Permits a call, and returns whether it is a trial call. Fails with the time left to wait.
    pub(super) fn permit(&mut self, now: Instant) -> Result<bool, Duration> {
        match *self {
            Self::Closed(_) => Ok(false),
            Self::Open(open) if now >= open.until => {
                *self = Self::HalfOpen(open);
                Ok(true)
            }
            Self::Open(open) => Err(open.until.saturating_duration_since(now)),
            Self::HalfOpen(_) => Err(WHILE_HALF_OPEN),
        }
    }

    /// Records how a call ended. Returns the state change, if there is one.
    pub(super) fn record(
        &mut self,
        now: Instant,
        is_trial: bool,
        verdict: Verdict,
    ) -> Option<Transition> {
        match self {
            Self::Closed(times) if verdict == Verdict::Fails => {
                times.push_back(now);
                times.retain(|time| now.saturating_duration_since(*time) <= WINDOW);
                (times.len() >= FAILURES).then(|| self.open(now, FIRST_COOL_DOWN, FAILURES))
            }
            // While closed, only failures count. While open, the end of a call that began earlier
            // is no new evidence.
            Self::Closed(_) | Self::Open(_) => None,
            Self::HalfOpen(_) if !is_trial => None,
            &mut Self::HalfOpen(open) => match verdict {
                Verdict::Works => {
                    *self = Self::closed();
                    Some(Transition::Closed)
                }
                Verdict::Fails => {
                    Some(self.open(now, (open.wait * 2).min(LONGEST_COOL_DOWN), open.failures + 1))
                }
                Verdict::None => {
                    *self = Self::Open(open);
                    None
                }
            },
        }
    }

    /// Returns the number of failures: while closed, those within [`WINDOW`]; otherwise, those that
    /// opened the breaker and the failed trial calls since.
    pub(super) fn failures(&self, now: Instant) -> usize {
        match self {
            Self::Closed(times) => {
                times.iter().filter(|time| now.saturating_duration_since(**time) <= WINDOW).count()
            }
            Self::Open(open) | Self::HalfOpen(open) => open.failures,
        }
    }

    /// Returns the end of the cool-down; `None` if the breaker is closed.
    pub(super) fn open_until(&self) -> Option<Instant> {
        match self {
            Self::Closed(_) => None,
            Self::Open(open) | Self::HalfOpen(open) => Some(open.until),
        }
    }

    /// Returns whether dropping the breaker changes nothing that matters: its failures are old, or
    /// its cool-down ended so long ago that the next one may begin with the first again.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        match self {
            Self::Closed(_) => self.failures(now) == 0,
            Self::Open(open) => now.saturating_duration_since(open.until) > LONGEST_COOL_DOWN,
            Self::HalfOpen(_) => false,
        }
    }

    fn open(&mut self, now: Instant, wait: Duration, failures: usize) -> Transition {
        let open = Open { until: now + wait, wait, failures };
        *self = Self::Open(open);
        Transition::Opened(open)
    }
}

#[cfg(test)]
mod tests;
