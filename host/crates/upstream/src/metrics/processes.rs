//! Memory and CPU time of servers' processes, read when they are shown, and at most once a second: `/proc` has an
//! entry for each process of the machine.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use airlock_mcp_client::{ProcessUsage, process_usage};

/// Time for which a reading is used.
const FRESH: Duration = Duration::from_secs(1);

/// Usage by the number of the process.
pub(super) type UsageByProcess = BTreeMap<u32, ProcessUsage>;

/// The last reading.
#[derive(Debug, Default)]
pub(super) struct Processes(Mutex<Option<(Instant, UsageByProcess)>>);

impl Processes {
    /// Returns the usage of processes. One that has started or ended a moment ago may be missing.
    pub(super) fn usage(&self, processes: &[u32]) -> UsageByProcess {
        let mut last = self.0.lock();
        if let Some((_, usage)) = last.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return usage.clone();
        }
        let read = if processes.is_empty() { Vec::new() } else { process_usage(processes) };
        let found = processes.iter().copied().zip(read);
        let usage: UsageByProcess =
            found.filter_map(|(process, usage)| Some((process, usage?))).collect();
        *last = Some((Instant::now(), usage.clone()));
        usage
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_used_for_a_moment() {
        let processes = Processes::default();
        assert!(processes.usage(&[u32::MAX]).is_empty(), "there is no such process");
        let parent = std::os::unix::process::parent_id();
        assert!(processes.usage(&[parent]).is_empty(), "the reading is fresh");
        *processes.0.lock() = None;
        assert!(processes.usage(&[parent])[&parent].memory_bytes > 0);
    }
}
