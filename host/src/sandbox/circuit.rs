//! The circuit breaker of one plugin: one that keeps crashing is left alone for a while, so that it costs its callers an
//! answer and not the time and memory of another crash.
//!
//! Five failures within a minute open it. While it is open calls are answered at once. After the wait one call goes through
//! to try; if it works the circuit closes, otherwise the wait doubles.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tracing::{info, warn};

use super::Limits;
use crate::catalog::{CallError, ClientName, ToolName};

/// So many failures open the circuit, if all of them are within [`WINDOW`].
const FAILURES: usize = 5;
const WINDOW: Duration = Duration::from_mins(1);
/// The first wait, doubled with each try that fails.
const FIRST_WAIT: Duration = Duration::from_secs(30);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// What callers are told to wait for while another call tries: nobody knows how long that takes.
const WHILE_TRYING: Duration = Duration::from_secs(1);

/// The breaker.
pub(super) struct Circuit {
    plugin: ClientName,
    /// What a call of the plugin gets of wall-clock time when nobody has shortened it.
    deadline: Duration,
    /// And of fuel, when its chain has as much left.
    fuel: u64,
    state: Mutex<State>,
}

#[derive(Debug, PartialEq)]
enum State {
    /// The times of the last failures, oldest first.
    Closed(VecDeque<Instant>),
    Open(Open),
    /// One call is trying.
    Trying(Open),
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Open {
    until: Instant,
    wait: Duration,
    failures: usize,
}

/// A call on its way. What came of it is told with [`Pass::end`]; a try that is dropped without leaves the next call to try.
#[must_use = "a call that passed has to tell how it ended"]
pub(super) struct Pass<'c> {
    circuit: &'c Circuit,
    is_try: bool,
}

/// What a result says of the plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// It ran to its end, with whatever result.
    Works,
    /// It crashed, or had to be stopped.
    Fails,
    /// Nothing: it was not reached, or ended for a reason of someone else.
    None,
}

impl Circuit {
    pub(super) fn new(plugin: ClientName, limits: &Limits) -> Self {
        Self { plugin, deadline: limits.deadline, fuel: limits.fuel, state: Mutex::new(State::Closed(VecDeque::new())) }
    }

    /// Lets a call pass, or says that the plugin is left alone.
    pub(super) fn enter(&self, tool: &ToolName) -> Result<Pass<'_>, CallError> {
        let passed = self.lock().enter(Instant::now());
        match passed {
            Ok(is_try) => Ok(Pass { circuit: self, is_try }),
            Err(retry_after) => Err(CallError::CircuitOpen { tool: tool.clone(), retry_after }),
        }
    }

    /// How it is, for the operator.
    pub(super) fn describe(&self) -> Map<String, Value> {
        let Value::Object(described) = self.lock().describe(Instant::now()) else { return Map::new() };
        described
    }

    fn settle(&self, is_try: bool, verdict: Verdict) {
        let changed = self.lock().settle(Instant::now(), is_try, verdict);
        match changed {
            Some(Change::Opened(Open { wait, failures, .. })) => {
                warn!(plugin = %self.plugin, failures, ?wait, "the plugin keeps failing; its calls are refused for a while");
            }
            Some(Change::Closed) => info!(plugin = %self.plugin, "the plugin works again; its calls are let through"),
            None => {}
        }
    }

    fn verdict<T>(&self, result: &Result<T, CallError>) -> Verdict {
        match result {
            Ok(_)
            | Err(
                CallError::Tool(_)
                | CallError::ResultTooLarge { .. }
                | CallError::BadResult { .. }
                | CallError::InvalidResult { .. },
            ) => Verdict::Works,
            // A caller in a hurry, or one that has burnt what the chain had, is not the plugin's fault.
            Err(CallError::Deadline { limit, .. }) if *limit < self.deadline => Verdict::None,
            Err(CallError::Fuel { limit, .. }) if *limit < self.fuel => Verdict::None,
            Err(
                CallError::Deadline { .. }
                | CallError::Cpu { .. }
                | CallError::Fuel { .. }
                | CallError::Memory { .. }
                | CallError::Stack { .. }
                | CallError::Trap { .. },
            ) => Verdict::Fails,
            Err(_) => Verdict::None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is whole after every statement.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pass<'_> {
    /// Tells how the call ended.
    pub(super) fn end<T>(mut self, result: &Result<T, CallError>) {
        let is_try = std::mem::take(&mut self.is_try);
        self.circuit.settle(is_try, self.circuit.verdict(result));
    }
}

impl Drop for Pass<'_> {
    /// A call that was cancelled.
    fn drop(&mut self) {
        if self.is_try {
            self.circuit.settle(true, Verdict::None);
        }
    }
}

/// What the log hears of.
#[derive(Debug, PartialEq)]
enum Change {
    Opened(Open),
    Closed,
}

impl State {
    /// Whether the call that may pass is a try; or how long to wait.
    fn enter(&mut self, now: Instant) -> Result<bool, Duration> {
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

    fn settle(&mut self, now: Instant, is_try: bool, verdict: Verdict) -> Option<Change> {
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
                    *self = Self::Closed(VecDeque::new());
                    Some(Change::Closed)
                }
                Verdict::Fails => Some(self.open(now, (open.wait * 2).min(LONGEST_WAIT), open.failures + 1)),
                Verdict::None => {
                    *self = Self::Open(open);
                    None
                }
            },
        }
    }

    fn open(&mut self, now: Instant, wait: Duration, failures: usize) -> Change {
        let open = Open { until: now + wait, wait, failures };
        *self = Self::Open(open);
        Change::Opened(open)
    }

    fn describe(&self, now: Instant) -> Value {
        let milliseconds = |open: &Open| u64::try_from(open.until.saturating_duration_since(now).as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Closed(times) => {
                let recent = times.iter().filter(|time| now.saturating_duration_since(**time) <= WINDOW).count();
                json!({"state": "closed", "failures": recent, "retry_after_ms": null})
            }
            Self::Open(open) if now < open.until => {
                json!({"state": "open", "failures": open.failures, "retry_after_ms": milliseconds(open)})
            }
            Self::Open(open) | Self::Trying(open) => {
                json!({"state": "half_open", "failures": open.failures, "retry_after_ms": 0})
            }
        }
    }
}

#[cfg(test)]
mod tests;
