//! CPU time and memory of a process or thread, from `/proc`.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use rustix::{
    process::Pid,
    time::{ClockId, clock_gettime},
};

/// Time of a tick in `/proc`: Linux counts 100 a second there on every machine.
const TICK: Duration = Duration::from_millis(10);

/// A process, or one of its threads.
#[derive(Debug, Clone)]
pub struct Process {
    directory: PathBuf,
}

impl Process {
    /// Returns the process with this identifier.
    pub fn new(pid: Pid) -> Self {
        Self { directory: format!("/proc/{}", pid.as_raw_nonzero()).into() }
    }

    /// Returns the benchmark's own process: client and model server.
    pub fn own() -> Self {
        Self { directory: "/proc/self".into() }
    }

    /// Returns the thread that calls this.
    pub fn thread() -> Self {
        let thread = fs::read_link("/proc/thread-self").expect("Linux names each thread");
        Self { directory: Path::new("/proc").join(thread) }
    }

    /// Returns its CPU time so far, in user mode and in the kernel.
    pub fn cpu(&self) -> Duration {
        let stat = self.read("stat");
        // The name of the program, in parentheses, may contain blanks.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2);
        let ticks = ticks.map(|ticks| ticks.parse::<u32>().expect("a number of ticks"));
        TICK * ticks.sum()
    }

    /// Returns its resident memory, in bytes.
    pub fn resident(&self) -> u64 {
        let status = self.read("status");
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.expect("a running process has memory") << 10
    }

    fn read(&self, file: &str) -> String {
        let path = self.directory.join(file);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// Returns the CPU time of the benchmark's own process so far, to the nanosecond.
pub fn own_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

/// Returns the CPU time of the calling thread so far, to the nanosecond.
pub fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    Duration::try_from(clock_gettime(clock)).expect("CPU time is not negative")
}

/// Returns the memory of each of `count` things, in KiB, from the resident memory with and without
/// them.
pub fn kib_each(with_bytes: u64, without_bytes: u64, count: u32) -> f64 {
    let kib = with_bytes.saturating_sub(without_bytes) >> 10;
    f64::from(u32::try_from(kib).unwrap_or(u32::MAX)) / f64::from(count)
}
