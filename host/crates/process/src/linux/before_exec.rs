//! The last steps of a new process before it becomes the program.
//!
//! They run in a copy of a program with many threads, of which only one exists. Everything that
//! allocates, locks or can fail for a readable reason is therefore done before the fork. What is
//! left are system calls.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd},
};

use rustix::{
    process::{
        Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
    },
    thread::{
        CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
        set_capabilities, set_no_new_privs,
    },
};

use super::{confine, network::SocketFilter, reach::ProcessReach};
use crate::{
    command::{Command, Network, ProcessLimits},
    error::SpawnError,
};

/// Capabilities that a confined or limited child of root keeps, and one without a network. With others, it could read the
/// memory of processes outside, raise its limits, or change the system.
const KEPT_CAPABILITIES: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID);

/// Capabilities that no child keeps. With each of them, a process can read the environment of the
/// gateway; with the last two since Linux 6.14.
const TRACING: CapabilitySet =
    CapabilitySet::SYS_PTRACE.union(CapabilitySet::SYS_ADMIN).union(CapabilitySet::PERFMON);

/// The prepared steps.
struct BeforeExec {
    gateway: u32,
    cgroup: Option<OwnedFd>,
    limits: [Option<(Resource, Rlimit)>; 4],
    rules: Option<OwnedFd>,
    sockets: Option<SocketFilter>,
    drops_capabilities: bool,
}

/// Adds the steps to a command. Opens everything that they need, so that errors name the setting.
pub(crate) fn prepare(
    prepared: &mut tokio::process::Command,
    command: &Command,
    reach: &ProcessReach,
) -> Result<(), SpawnError> {
    let has_network = command.network == Network::Host;
    let rules = match &command.confinement {
        Some(confinement) => confine::rules(confinement, &command.program)?,
        None if has_network => None,
        None => confine::socket_rules()?,
    };
    let sockets = if has_network {
        None
    } else {
        Some(SocketFilter::new().ok_or(SpawnError::NoSocketFilter)?)
    };
    let steps = BeforeExec {
        gateway: std::process::id(),
        cgroup: reach.cgroup_entrance(),
        limits: resources(&command.limits),
        rules,
        sockets,
        drops_capabilities: command.confinement.is_some()
            || !has_network
            || command.limits != ProcessLimits::default(),
    };
    #[expect(
        unsafe_code,
        reason = "the hook makes system calls alone: it neither allocates nor takes locks, and it reads memory that was prepared before the fork"
    )]
    // SAFETY: as above. The errors are numbers of the system, which need no memory.
    unsafe {
        prepared.pre_exec(move || steps.take());
    }
    Ok(())
}

impl BeforeExec {
    fn take(&self) -> io::Result<()> {
        // The kernel sends the signal when the guard's thread ends, which it does not while the
        // gateway lives. The parent is checked afterwards, because it may have died before.
        set_parent_process_death_signal(Some(Signal::KILL))?;
        let parent = getppid().map_or(0, |parent| parent.as_raw_nonzero().get().unsigned_abs());
        if parent != self.gateway {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if let Some(cgroup) = &self.cgroup {
            // `0` stands for the writer. If this fails, the child is found by its mark.
            let _ = rustix::io::write(cgroup, b"0");
        }
        close_inherited();
        set_no_new_privs(true)?;
        give_up_tracing();
        if self.drops_capabilities {
            drop_capabilities();
        }
        for (resource, limit) in self.limits.iter().flatten() {
            setrlimit(*resource, *limit)?;
        }
        if let Some(rules) = &self.rules {
            restrict_self(rules)?;
        }
        match &self.sockets {
            Some(sockets) => sockets.install(),
            None => Ok(()),
        }
    }
}

/// Makes the later program inherit its three pipes alone: marks all other open files as close-on-exec. The files that
/// the gateway opens itself are marked already; those that it was started with, such as a lock file, are not, and no
/// confinement applies to an open file. Does nothing on Linux before 5.11, which does not have the flag.
fn close_inherited() {
    const FIRST: libc::c_uint = 3;
    #[expect(unsafe_code, reason = "neither libc nor rustix wraps this system call everywhere")]
    // SAFETY: it takes three numbers, and closes nothing before the program is executed.
    let _ = unsafe {
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// Takes from a later program the right to read the memory and the environment of processes that are
/// protected from it, as the gateway is. It matters for root and for ambient capabilities; other
/// programs do not have the right.
fn give_up_tracing() {
    for capability in TRACING.iter() {
        let _ = remove_capability_from_bounding_set(capability);
    }
    if let Ok(own) = capabilities(None) {
        // Lowering the inheritable ones lowers the ambient ones.
        let without = CapabilitySets {
            effective: own.effective.difference(TRACING),
            permitted: own.permitted.difference(TRACING),
            inheritable: own.inheritable.difference(TRACING),
        };
        let _ = set_capabilities(None, without);
    }
}

/// Takes from a later program of root all capabilities but [`KEPT_CAPABILITIES`]. Other users have
/// none, and may not and need not do this.
fn drop_capabilities() {
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        if !KEPT_CAPABILITIES.contains(capability) {
            let _ = remove_capability_from_bounding_set(capability);
        }
    }
}

/// Confines the calling thread, and all that it starts, to the rules.
fn restrict_self(rules: &OwnedFd) -> io::Result<()> {
    const NO_FLAGS: libc::c_uint = 0;
    #[expect(unsafe_code, reason = "neither libc nor rustix wraps this system call")]
    // SAFETY: it takes a file descriptor that is open as long as `rules` and a number, and touches
    // no memory.
    let outcome =
        unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules.as_raw_fd(), NO_FLAGS) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn resources(limits: &ProcessLimits) -> [Option<(Resource, Rlimit)>; 4] {
    let cpu_seconds =
        limits.cpu_time.map(|time| time.as_secs() + u64::from(time.subsec_nanos() > 0));
    [
        limits.memory_bytes.map(|bytes| (Resource::As, bytes, 0)),
        // The second between the two lets a program end in order.
        cpu_seconds.map(|seconds| (Resource::Cpu, seconds, 1)),
        limits.open_files.map(|files| (Resource::Nofile, files, 0)),
        limits.processes.map(|processes| (Resource::Nproc, processes, 0)),
    ]
    .map(|limit| limit.map(|(resource, soft, more)| (resource, within_own(resource, soft, more))))
}

/// Returns the limit, lowered to the hard limit of the gateway, which only root may exceed.
fn within_own(resource: Resource, soft: u64, more: u64) -> Rlimit {
    let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    Rlimit { current: Some(soft.min(own)), maximum: Some(soft.saturating_add(more).min(own)) }
}
