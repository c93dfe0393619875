//! Limits on one call. There is no `Default`, so that no store can be built without explicit
//! limits.

use std::time::Duration;

use airlock_core::limit::{GuestLimit, saturating_u32, saturating_usize};

/// Bounds on one call of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Work, in fuel: one unit for each operator, one for each byte in bulk operations. Host calls
    /// are charged by size.
    pub fuel: u64,
    /// CPU time: the time in which the call was executed. Waiting for host calls does not count.
    /// Preemption by other programs, on a machine that is short of cores, does.
    pub cpu: Duration,
    /// Wall-clock time, host calls included. The call's own deadline applies where it is sooner.
    pub deadline: Duration,
    /// Linear memory, all memories together, in bytes. Growth beyond it fails inside the guest.
    pub memory_bytes: usize,
    /// Elements of all tables together.
    pub table_elements: usize,
    /// Live component resource handles.
    pub handles: usize,
    /// Bytes that the guest may pass to the host at once: to one host call, or as its result. Their
    /// total is bounded by the number of host calls, and by the fuel that each byte costs.
    pub copied_bytes: usize,
    /// Number of host calls.
    pub host_calls: u32,
    /// Bytes of the result.
    pub result_bytes: usize,
    /// Log lines. Further lines are dropped, and the last line that is written reports this.
    pub log_lines: u32,
    /// Bytes of one log line; the rest is cut.
    pub log_line_bytes: usize,
}

impl Limits {
    /// Limits on a plugin's call, unless its operator sets others.
    pub const PLUGIN: Self = Self {
        fuel: GuestLimit::Fuel.default_amount(),
        cpu: Duration::from_nanos(GuestLimit::CpuTime.default_amount()),
        // The table's default is longer, because the deadline of the caller applies too.
        deadline: Duration::from_secs(30),
        memory_bytes: saturating_usize(GuestLimit::Memory.default_amount()),
        table_elements: saturating_usize(GuestLimit::TableElements.default_amount()),
        handles: saturating_usize(GuestLimit::Handles.default_amount()),
        copied_bytes: saturating_usize(GuestLimit::Copied.default_amount()),
        host_calls: saturating_u32(GuestLimit::HostCalls.default_amount()),
        result_bytes: saturating_usize(GuestLimit::Result.default_amount()),
        log_lines: saturating_u32(GuestLimit::LogLines.default_amount()),
        log_line_bytes: saturating_usize(GuestLimit::LogLine.default_amount()),
    };

    /// Limits on a script. Starlark burns about nine units a nanosecond, so the fuel lasts for about
    /// two seconds. The settings of runs replace the CPU time.
    pub const SCRIPT: Self = Self { fuel: 20_000_000_000, ..Self::PLUGIN };
}
