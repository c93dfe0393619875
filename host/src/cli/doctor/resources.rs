//! Room on the disks, memory, and open files, against what the configuration may use.

use std::{collections::BTreeSet, env, fs, path::Path, sync::Arc};

use rustix::{
    fs::statvfs,
    process::{Resource, getrlimit},
};

use super::{
    checkup::Check,
    finding::{DoctorFinding, Status},
    modes::{directory_of, nearest_existing},
};
use airlock_config::{Config, Source};
use airlock_process::own_cgroup;

const DISK: &str = "disk";
const MEMORY: &str = "memory";
const OPEN_FILES: &str = "open_files";
const MIB: u64 = 1 << 20;
/// Room below which the gateway soon fails, in bytes.
const LEAST_BYTES: u64 = 64 * MIB;
/// Room below which an operator should act, in bytes.
const LOW_BYTES: u64 = 1_024 * MIB;
/// Inodes below which the gateway soon fails.
const LEAST_INODES: u64 = 100;
/// Inodes below which an operator should act.
const LOW_INODES: u64 = 10_000;
/// Open files of a gateway without connections: its store, logs, components, pipes and timers.
const BASE_FILES: u64 = 256;
/// Open files for each source of tools: pipes or connections, with those of a restart.
const FILES_PER_SOURCE: u64 = 16;

/// Returns the checks of resources.
pub(super) fn checks(config: &Arc<Config>) -> Vec<Check> {
    let [disk, memory, files] = [config.clone(), config.clone(), config.clone()];
    vec![
        Check::blocking(DISK, "file systems", move || disks(&disk)),
        Check::blocking(MEMORY, "memory", move || vec![self::memory(&memory)]),
        Check::blocking(OPEN_FILES, "open files", move || vec![open_files(&files)]),
    ]
}

/// Checks the file systems on which the gateway writes.
fn disks(config: &Config) -> Vec<DoctorFinding> {
    let store = config.store.path().and_then(directory_of);
    let audit = config.records.audit.as_ref().map(|audit| audit.directory.clone());
    let places = store.into_iter().chain(audit).chain(config.sandbox.cache.clone());
    let places: BTreeSet<_> =
        places.chain([env::temp_dir()]).map(|place| nearest_existing(&place)).collect();
    places.iter().map(|place| disk(place)).collect()
}

fn disk(place: &Path) -> DoctorFinding {
    let shown = place.display().to_string();
    let system = match statvfs(place) {
        Ok(system) => system,
        Err(error) => {
            return DoctorFinding::warning(
                DISK,
                shown,
                format!("its free room cannot be read: {error}"),
            );
        }
    };
    let free_bytes = system.f_bavail.saturating_mul(system.f_frsize);
    // Some file systems count no inodes.
    let free_inodes = (system.f_files > 0).then_some(system.f_favail);
    let status = room(free_bytes, free_inodes);
    let inodes = free_inodes.map(|count| format!(" and {count} inodes")).unwrap_or_default();
    let found = format!("{} MiB{inodes} are free", free_bytes / MIB);
    let finding = DoctorFinding::new(status, DISK, shown, found);
    if status == Status::Ok {
        return finding;
    }
    finding
        .valid(format!("at least {} MiB and {LOW_INODES} inodes", LOW_BYTES / MIB))
        .fix("free room, or move `store`, `records.audit.dir` or AIRLOCK_CACHE_DIR")
}

fn room(free_bytes: u64, free_inodes: Option<u64>) -> Status {
    let inodes = free_inodes.unwrap_or(u64::MAX);
    if free_bytes < LEAST_BYTES || inodes < LEAST_INODES {
        Status::Error
    } else if free_bytes < LOW_BYTES || inodes < LOW_INODES {
        Status::Warning
    } else {
        Status::Ok
    }
}

/// Checks that the machine has the memory that requests and guests may take.
fn memory(config: &Config) -> DoctorFinding {
    let Some(limit) = memory_limit() else {
        return DoctorFinding::ok(MEMORY, "memory", "this system does not tell its size");
    };
    let requests = config.server.max_request_memory_bytes as u64;
    let runs_guests = config
        .clients
        .iter()
        .any(|client| matches!(client.source, Source::Plugin(_)) || client.policy.code_mode);
    let guests = if runs_guests { config.sandbox.process_memory_bytes as u64 } else { 0 };
    let needed = requests.saturating_add(guests);
    let found = format!(
        "the gateway may use {} MiB; requests may take {} MiB of it, and guests {} MiB",
        limit / MIB,
        requests / MIB,
        guests / MIB
    );
    if needed <= limit {
        return DoctorFinding::ok(MEMORY, "memory", found);
    }
    DoctorFinding::warning(MEMORY, "memory", found)
        .valid(format!("at least {} MiB", needed / MIB))
        .fix("more memory for the machine or the cgroup (MemoryMax), or a smaller `server.max_request_memory`")
}

/// Returns the memory that this process may have, in bytes: that of the machine, or of its cgroup.
fn memory_limit() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().as_deref().and_then(total_memory);
    let own = own_cgroup();
    let groups = own.iter().flat_map(|own| own.ancestors());
    let groups = groups.take_while(|group| group.join("cgroup.procs").exists());
    let limits = groups.filter_map(|group| fs::read_to_string(group.join("memory.max")).ok());
    // Without a limit, the text is `max`.
    limits.filter_map(|text| text.trim().parse().ok()).chain(machine).min()
}

/// Returns the memory of a machine from the text of `/proc/meminfo`, in bytes.
fn total_memory(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1_024)
}

/// Checks that the process may open as many files as its connections need.
fn open_files(config: &Config) -> DoctorFinding {
    // `airlock` raises the soft limit to the hard one.
    let limit = getrlimit(Resource::Nofile).maximum;
    let sources = config.clients.len() as u64;
    let needed = BASE_FILES
        .saturating_add(config.server.max_connections as u64)
        .saturating_add(sources.saturating_mul(FILES_PER_SOURCE));
    let shown = limit.map_or("any number of".to_owned(), |limit| limit.to_string());
    let found = format!("this user may open {shown} files; the configuration needs {needed}");
    if limit.is_none_or(|limit| limit >= needed) {
        return DoctorFinding::ok(OPEN_FILES, "open files", found);
    }
    DoctorFinding::warning(OPEN_FILES, "open files", found)
        .valid(format!("at least {needed}"))
        .fix("LimitNOFILE in the unit, `ulimit -n`, or a smaller `server.max_connections`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_room_is_a_warning_and_hardly_any_an_error() {
        for (bytes, inodes, expected) in [
            (LOW_BYTES, None, Status::Ok),
            (LOW_BYTES, Some(LOW_INODES), Status::Ok),
            (LOW_BYTES - 1, None, Status::Warning),
            (LOW_BYTES, Some(LOW_INODES - 1), Status::Warning),
            (LEAST_BYTES - 1, Some(LOW_INODES), Status::Error),
            (LOW_BYTES, Some(LEAST_INODES - 1), Status::Error),
        ] {
            assert_eq!(room(bytes, inodes), expected, "{bytes} {inodes:?}");
        }
    }

    #[test]
    fn the_memory_of_a_machine_is_read_from_its_text() {
        let text = "MemFree:  1 kB\nMemTotal:       16315344 kB\n";
        assert_eq!(total_memory(text), Some(16_315_344 << 10));
        assert_eq!(total_memory("MemTotal: many kB"), None);
    }
}
