//! Limits on one call. There is no `Default`, so that no store can be built without explicit
//! limits.

use std::time::Duration;

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
        fuel: 1_000_000_000,
        cpu: Duration::from_secs(2),
        deadline: Duration::from_secs(30),
        memory_bytes: 64 << 20,
        table_elements: 20_000,
        handles: 1_024,
        copied_bytes: 8 << 20,
        host_calls: 1_000,
        result_bytes: 1 << 20,
        log_lines: 1_000,
        log_line_bytes: 4 << 10,
    };

    /// Limits on a script. Starlark burns about nine units a nanosecond, so the fuel lasts for the
    /// same two seconds.
    pub const SCRIPT: Self = Self { fuel: 20_000_000_000, ..Self::PLUGIN };
}
