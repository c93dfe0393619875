//! Counts what the guest of one call spends of what its chain may spend.

use super::{budget::Shared, report::Report};
use crate::tool::CallError;

/// The fuel and the host calls of one call.
pub struct Meter<'c> {
    shared: &'c Shared,
    depth: u32,
    report: &'c Report,
}

impl<'c> Meter<'c> {
    pub(super) fn new(shared: &'c Shared, depth: u32, report: &'c Report) -> Self {
        Self { shared, depth, report }
    }

    /// Returns the fuel that a guest may burn, of the `limit` that it would have alone: below the
    /// first guest, it is a share of what the chain has left. The first guest's `host_calls` are
    /// the whole chain's. Fails if the chain has no fuel left.
    pub fn share_fuel(&self, limit: u64, host_calls: u32) -> Result<u64, CallError> {
        self.shared.share_fuel(self.depth, limit, host_calls)
    }

    /// Takes burnt fuel off what the chain has left, and records it.
    pub fn spend_fuel(&self, fuel: u64) {
        self.report.set_fuel(fuel);
        self.shared.spend_fuel(self.depth, fuel);
    }

    /// Takes one of the host calls that the chain's guests may make together; false if none is
    /// left.
    pub fn take_host_call(&self) -> bool {
        self.shared.take_host_call()
    }
}
