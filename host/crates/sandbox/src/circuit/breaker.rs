//! One breaker. Five failures within a minute open it; while it is open, calls fail fast. After the
//! wait one call goes through to try: if it works the breaker closes, otherwise the wait doubles.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// So many failures open a breaker, if all of them are within [`WINDOW`].
pub(super) const FAILURES: usize = 5;
pub(super) const WINDOW: Duration = Duration::from_mins(1);
/// The first wait, doubled with each try that fails.
pub(super) const FIRST_WAIT: Duration = Duration::from_secs(30);
pub(super) const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// The wait that callers are told of while another call tries: how long that takes is unknown.
pub(super) const WHILE_TRYING: Duration = Duration::from_secs(1);

/// The state of one breaker.
#[derive(Debug, PartialEq)]
pub(super) enum Breaker {
    /// The times of the last failures, oldest first.
    Closed(VecDeque<Instant>),
    Open(Open),
    /// One call is trying.
    Trying(Open),
}

/// A breaker that is open.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Open {
    pub(super) until: Instant,
    pub(super) wait: Duration,
    pub(super) failures: usize,
}

/// Evidence that the end of a call gives about the guarded tool or plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Works,
    Fails,
    /// Nothing: it was not reached, or ended for another reason.
    None,
}

/// A change that the operator's log tells of.
#[derive(Debug, PartialEq)]
pub(super) enum Turned {
    Opened(Open),
    Closed,
}

impl Breaker {
    pub(super) fn closed() -> Self {
        Self::Closed(VecDeque::new())
    }

    /// Lets a call pass, and returns whether it is a try; or how long to wait.
    pub(super) fn permit(&mut self, now: Instant) -> Result<bool, Duration> {
        match *self {
            Self::Closed(_) => Ok(false),
            Self::Open(open) if now >= open.until => {
                *self = Self::Trying(open);
                Ok(true)
            }
            Self::Open(open) => Err(open.until.saturating_duration_since(now)),
            Self::Trying(_) => Err(WHILE_TRYING),
        }
    }

    /// Takes in how a call ended.
    pub(super) fn settle(
        &mut self,
        now: Instant,
        is_try: bool,
        verdict: Verdict,
    ) -> Option<Turned> {
        match self {
            Self::Closed(times) if verdict == Verdict::Fails => {
                times.push_back(now);
                times.retain(|time| now.saturating_duration_since(*time) <= WINDOW);
                (times.len() >= FAILURES).then(|| self.open(now, FIRST_WAIT, FAILURES))
            }
            // A call from before it opened says nothing new.
            Self::Closed(_) | Self::Open(_) => None,
            Self::Trying(_) if !is_try => None,
            &mut Self::Trying(open) => match verdict {
                Verdict::Works => {
                    *self = Self::closed();
                    Some(Turned::Closed)
                }
                Verdict::Fails => {
                    Some(self.open(now, (open.wait * 2).min(LONGEST_WAIT), open.failures + 1))
                }
                Verdict::None => {
                    *self = Self::Open(open);
                    None
                }
            },
        }
    }

    /// Failures that it remembers.
    pub(super) fn failures(&self, now: Instant) -> usize {
        match self {
            Self::Closed(times) => {
                times.iter().filter(|time| now.saturating_duration_since(**time) <= WINDOW).count()
            }
            Self::Open(open) | Self::Trying(open) => open.failures,
        }
    }

    /// Until when it is open; `None` if it is closed.
    pub(super) fn open_until(&self) -> Option<Instant> {
        match self {
            Self::Closed(_) => None,
            Self::Open(open) | Self::Trying(open) => Some(open.until),
        }
    }

    /// Whether forgetting it changes nothing that matters: its failures are old, or it has been
    /// open for a try for so long that its wait may begin anew.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        match self {
            Self::Closed(_) => self.failures(now) == 0,
            Self::Open(open) => now.saturating_duration_since(open.until) > LONGEST_WAIT,
            Self::Trying(_) => false,
        }
    }

    fn open(&mut self, now: Instant, wait: Duration, failures: usize) -> Turned {
        let open = Open { until: now + wait, wait, failures };
        *self = Self::Open(open);
        Turned::Opened(open)
    }
}

#[cfg(test)]
mod tests;
