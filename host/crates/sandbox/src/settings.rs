//! Settings of the sandbox.

use std::{path::PathBuf, time::Duration};

use airlock_compile::Compiling;

#[cfg(feature = "plugins")]
use crate::OffLimits;

/// Settings of the sandbox. All defaults are in [`Settings::new`]; there are no hidden ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Instances at each depth of call chains. One plugin, and likewise an executor, gets at most
    /// three quarters of them. One tenant gets at most three quarters of such a share, and seven
    /// eighths of all.
    pub instances_per_depth: u32,
    /// Depths that have instances of their own. Deeper calls share those of the last depth.
    pub depths: u32,
    /// Instances for guards, which wait for none: one for each thread and each task that may have a guard decide.
    pub guard_instances: u32,
    /// Calls that may wait for an instance, at each depth. One tenant's calls of one plugin fill at
    /// most three quarters of the queue. In a full queue, the newest call of the tenant with the
    /// most calls is evicted to make room for a call of another tenant.
    pub queue: usize,
    /// Time that a call may wait. While its tenant has less than its part of the instances and
    /// another tenant has more, the call waits on until its deadline.
    pub queue_wait: Duration,
    /// Memory of all guests together, in bytes: linear memory, and what the host holds for them, such as
    /// HTTP requests, and responses and directory listings that they have not read yet. One tenant gets
    /// at most seven eighths.
    pub process_memory_bytes: usize,
    /// Directory for compiled code; `None` keeps none.
    pub cache: Option<PathBuf>,
    /// Place where components are compiled.
    pub compiling: Compiling,
    /// Files and directories of the gateway itself, which are granted to no plugin.
    #[cfg(feature = "plugins")]
    pub off_limits: OffLimits,
}

impl Settings {
    /// Returns settings for a gateway on a small machine: 64 instances at each of four depths,
    /// 1,000 waiting calls for 5 s, 4 GiB of guest memory, no guards. Components are compiled in this process.
    pub fn new(cache: Option<PathBuf>) -> Self {
        Self {
            instances_per_depth: 64,
            depths: 4,
            guard_instances: 0,
            queue: 1_000,
            queue_wait: Duration::from_secs(5),
            process_memory_bytes: 4 << 30,
            cache,
            compiling: Compiling::IN_PROCESS,
            #[cfg(feature = "plugins")]
            off_limits: OffLimits::default(),
        }
    }

    /// Returns the number of instances of the pool, at all depths together.
    pub fn slots(&self) -> u32 {
        self.instances_per_depth * self.depths.max(1)
    }
}
