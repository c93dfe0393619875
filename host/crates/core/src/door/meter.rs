//! Counts the fuel and the host calls that the guest of one call takes from the budget of its
//! chain.

use super::{budget::ChainBudget, report::Report};
use crate::tool::CallError;

/// Meter of the fuel and the host calls of one call.
pub struct Meter<'c> {
    shared: &'c ChainBudget,
    depth: u32,
    report: &'c Report,
}

impl<'c> Meter<'c> {
    pub(super) fn new(shared: &'c ChainBudget, depth: u32, report: &'c Report) -> Self {
        Self { shared, depth, report }
    }

    /// Returns the fuel that a guest may burn: `limit` for the first guest, and for a nested guest
    /// at most the fuel that the chain has left. `host_calls` of the first guest is the limit of
    /// the whole chain. Fails if the chain has no fuel left.
    pub fn share_fuel(&self, limit: u64, host_calls: u32) -> Result<u64, CallError> {
        self.shared.share_fuel(self.depth, limit, host_calls)
    }

    /// Subtracts burnt fuel from the fuel that the chain has left, and records it.
    pub fn spend_fuel(&self, fuel: u64) {
        self.report.set_fuel(fuel);
        self.shared.spend_fuel(self.depth, fuel);
    }

    /// Records the memory that the guest had at its end.
    pub fn record_memory(&self, bytes: u64) {
        self.report.set_memory_bytes(bytes);
    }

    /// Takes one of the host calls that all guests of the chain share; false if none is left.
    pub fn take_host_call(&self) -> bool {
        self.shared.take_host_call()
    }
}
