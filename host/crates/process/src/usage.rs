//! Resources that a process uses.

use std::time::Duration;

/// Resources that a process uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    /// Resident memory, in bytes. What processes share counts for each of them.
    pub memory_bytes: u64,
    /// CPU time since its start, with that of its children that have ended.
    pub cpu: Duration,
}
