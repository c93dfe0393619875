//! Circuit breakers of one plugin. Calls that keep failing fail fast until the cool-down ends, so
//! that their callers get an error at once and no time or memory is spent on another failure.
//!
//! A failure that arguments can cause counts against the tenant that sent them. A limit that was
//! overrun counts against that tenant's calls of that tool; a crash counts against all its calls of
//! the plugin. Only crashes of several tenants stop the plugin for all, so no tenant can stop a
//! plugin for another.
//!
//! This crate sees how calls ended, and knows nothing of what runs them.

mod breaker;
mod breakers;
mod widespread;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use airlock_core::{
    tenant::Tenant,
    tool::{CallError, ClientName, ErrorKind, HostCode, ReachedLimit, ToolName},
};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tracing::{info, warn};

use self::breakers::{BreakerChange, Breakers, CallEnding, Trials};

/// The breakers of one plugin, with its limits.
pub struct Circuit {
    plugin: ClientName,
    /// Wall-clock limit of a call of the plugin, unless its caller has shortened it.
    deadline: Duration,
    /// Fuel limit of a call, unless its chain has less left.
    fuel: u64,
    /// True while the breakers [are quiet](Breakers::is_quiet). Calls then need no lock, which all threads would share.
    is_quiet: AtomicBool,
    breakers: Mutex<Breakers>,
}

/// A permitted call. [`Permit::end`] records its outcome. If a trial call is dropped without an
/// outcome, the next call is the trial.
#[must_use = "a call that passed must record its outcome"]
pub struct Permit<'c> {
    circuit: &'c Circuit,
    tenant: &'c Tenant,
    tool: &'c ToolName,
    trials: Trials,
}

impl Circuit {
    /// Makes the breakers of a plugin, all of them closed. `deadline` and `fuel` are the limits on its calls:
    /// a call that was stopped before it reached them is no evidence against the plugin.
    pub fn new(plugin: ClientName, deadline: Duration, fuel: u64) -> Self {
        let is_quiet = AtomicBool::new(true);
        Self { plugin, deadline, fuel, is_quiet, breakers: Mutex::default() }
    }

    /// Permits a tenant's call. Fails while a breaker that applies to it is open.
    pub fn permit<'c>(
        &'c self,
        tenant: &'c Tenant,
        tool: &'c ToolName,
    ) -> Result<Permit<'c>, CallError> {
        let passed = if self.is_quiet() {
            Ok(Trials::default())
        } else {
            self.change(|breakers| breakers.permit(Instant::now(), tenant, tool))
        };
        match passed {
            Ok(trials) => Ok(Permit { circuit: self, tenant, tool, trials }),
            Err(wait) => Err(circuit_open(tool.clone(), wait)),
        }
    }

    /// Describes the breaker whose cool-down ends last, or else the one with the most failures.
    pub fn describe(&self) -> Map<String, Value> {
        self.breakers.lock().describe(Instant::now())
    }

    /// Returns whether some calls at least fail fast.
    pub fn is_open(&self) -> bool {
        self.breakers.lock().is_open(Instant::now())
    }

    /// Returns whether no breaker has to be asked. What another thread records at the same time is as if it came later.
    fn is_quiet(&self) -> bool {
        self.is_quiet.load(Ordering::Acquire)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Breakers) -> T) -> T {
        let mut breakers = self.breakers.lock();
        let changed = change(&mut breakers);
        // Inside the lock, so that the last change counts.
        self.is_quiet.store(breakers.is_quiet(), Ordering::Release);
        changed
    }

    fn record(&self, pass: &mut Permit<'_>, outcome: CallEnding) {
        let trials = std::mem::take(&mut pass.trials);
        if self.is_quiet() && !outcome.is_failure() {
            return;
        }
        let changes = self.change(|breakers| {
            breakers.record(Instant::now(), pass.tenant, pass.tool, trials, outcome)
        });
        for change in changes {
            let plugin = &self.plugin;
            match change {
                BreakerChange::Opened { scope, open } => {
                    let failures = open.failures;
                    let wait = open.wait;
                    warn!(%plugin, %scope, failures, ?wait, "the plugin keeps failing; its calls fail fast until the cool-down ends");
                }
                BreakerChange::Closed { scope } => {
                    info!(%plugin, %scope, "the plugin works again; its calls are permitted");
                }
            }
        }
    }

    fn outcome<T>(&self, result: &Result<T, CallError>) -> CallEnding {
        let Err(error) = result else { return CallEnding::Worked };
        match (error.code(), error.limit()) {
            (
                HostCode::ToolError
                | HostCode::ResultTooLarge
                | HostCode::BadResult
                | HostCode::InvalidResult,
                _,
            ) => CallEnding::Worked,
            // A deadline that the caller shortened, or fuel that the rest of the chain has burnt,
            // is not the plugin's fault.
            (HostCode::Deadline, Some(ReachedLimit::Time(limit))) if limit < self.deadline => {
                CallEnding::Unknown
            }
            (HostCode::OutOfFuel, Some(ReachedLimit::Amount(limit))) if limit < self.fuel => {
                CallEnding::Unknown
            }
            (
                HostCode::Deadline
                | HostCode::CpuTime
                | HostCode::OutOfFuel
                | HostCode::Memory
                | HostCode::StackOverflow,
                _,
            ) => CallEnding::Overran,
            (HostCode::Trap, _) => CallEnding::Crashed,
            _ => CallEnding::Unknown,
        }
    }
}

fn circuit_open(tool: ToolName, retry_after: Duration) -> CallError {
    let seconds = retry_after.as_millis().div_ceil(1_000);
    let after =
        format!(" failed repeatedly; its calls fail until the cool-down ends, in {seconds} s");
    let kind = ErrorKind::Unavailable;
    CallError::about(tool, kind, HostCode::CircuitOpen, ("tool ", after))
        .with_retry_after(retry_after)
        .not_begun()
}

impl Permit<'_> {
    /// Records how the call ended.
    pub fn end<T>(mut self, result: &Result<T, CallError>) {
        let circuit = self.circuit;
        circuit.record(&mut self, circuit.outcome(result));
    }
}

impl Drop for Permit<'_> {
    /// Ends a trial call that was dropped without an outcome; the next call is then the trial.
    fn drop(&mut self) {
        if self.trials.any() {
            let circuit = self.circuit;
            circuit.record(self, CallEnding::Unknown);
        }
    }
}

#[cfg(test)]
mod tests;
