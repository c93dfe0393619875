//! Metrics of the process of the gateway, with the names that Prometheus' own clients use.

use std::{
    fmt, fs,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::DescriptorEncoder,
    metrics::{counter::ConstCounter, gauge::ConstGauge},
};

use airlock_upstream::encode_family;

/// Labels of a metric without any.
pub(super) const NO_LABELS: [(&str, &str); 0] = [];

/// Most file descriptors that are counted. Each is an entry of a directory that every request for metrics lists, and
/// an operator may permit the process a million.
const MAX_DESCRIPTORS: usize = 100_000;

/// Metrics of the process.
#[derive(Debug)]
pub(super) struct ProcessCollector {
    /// Time at which the gateway was made, in seconds since 1970.
    started: f64,
}

impl ProcessCollector {
    pub(super) fn new() -> Self {
        let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { started: started.as_secs_f64() }
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let version = [("version", env!("CARGO_PKG_VERSION"))];
        encode_family(
            encoder,
            "airlock_build_info",
            "1, with the version of the gateway.",
            [(version, ConstGauge::new(1_i64))],
        )?;
        encode_family(
            encoder,
            "process_start_time_seconds",
            "Time at which the gateway was started, in seconds since 1970.",
            [(NO_LABELS, ConstGauge::new(self.started))],
        )?;
        let usage = airlock_process::own_usage();
        encode_family(
            encoder,
            "process_resident_memory_bytes",
            "Resident memory of the gateway, without that of servers.",
            usage.map(|usage| (NO_LABELS, ConstGauge::new(whole(usage.memory_bytes)))),
        )?;
        encode_family(
            encoder,
            "process_cpu_seconds",
            "CPU time of the gateway, with that of its children that have ended.",
            usage.map(|usage| (NO_LABELS, ConstCounter::new(usage.cpu.as_secs_f64()))),
        )?;
        encode_family(
            encoder,
            "process_open_fds",
            "Open file descriptors of the gateway.",
            open_descriptors().map(|open| (NO_LABELS, ConstGauge::new(whole(open)))),
        )?;
        encode_family(
            encoder,
            "process_max_fds",
            "Maximum number of open file descriptors.",
            max_descriptors().map(|most| (NO_LABELS, ConstGauge::new(whole(most)))),
        )
    }
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the number of open file descriptors; `None` if the system does not tell.
fn open_descriptors() -> Option<u64> {
    let entries = fs::read_dir("/proc/self/fd").ok()?;
    // One of them is that of the directory.
    u64::try_from(entries.take(MAX_DESCRIPTORS).count()).ok()?.checked_sub(1)
}

/// Returns the limit on open file descriptors; `None` if there is none, or if the system does not tell.
fn max_descriptors() -> Option<u64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    soft.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn an_open_file_counts() {
        // Other tests of the process open and close files.
        let _files: Vec<_> =
            (0..64).map(|_| fs::File::open("/proc/self/stat").expect("a file")).collect();
        let open = open_descriptors().expect("it is known");
        assert!(open >= 64, "{open}");
        assert!(max_descriptors().is_none_or(|most| most >= open));
    }
}
