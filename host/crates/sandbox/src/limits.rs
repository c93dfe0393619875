//! What one call may spend. There is no `Default`: a store cannot be built without someone having
//! said how much.

use std::time::Duration;

/// Bounds on one call of a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Work, in fuel: one unit an operator, one a byte in bulk operations; host calls are charged
    /// by size.
    pub fuel: u64,
    /// CPU time: how long the call was being worked on. Waiting for host calls is free; being
    /// interrupted by other programs, on a machine that is short of cores, is not.
    pub cpu: Duration,
    /// Wall-clock time, host calls included. The call's own deadline applies where it is sooner.
    pub deadline: Duration,
    /// Linear memory, all memories together, in bytes. Growth beyond it fails inside the guest.
    pub memory_bytes: usize,
    /// Elements of all tables together.
    pub table_elements: usize,
    /// Live component resource handles.
    pub handles: usize,
    /// Bytes that the guest may hand to the host at once: to one host call, or as its result. How
    /// much all of them are is bounded by the number of host calls, and by the fuel that each byte
    /// costs.
    pub copied_bytes: usize,
    /// Host calls.
    pub host_calls: u32,
    /// Bytes of the result.
    pub result_bytes: usize,
    /// Log lines; what is written beyond them is dropped, and the last line says so.
    pub log_lines: u32,
    /// Bytes of a log line; the rest is cut.
    pub log_line_bytes: usize,
}

impl Limits {
    /// What a plugin's call gets where its operator says nothing else.
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

    /// What a script gets. Starlark burns about nine units a nanosecond, so this is the same two
    /// seconds.
    pub const SCRIPT: Self = Self { fuel: 20_000_000_000, ..Self::PLUGIN };
}
