//! Child processes that are confined, limited, and stopped together with all that they started.
//!
//! | module | purpose |
//! |---|---|
//! | `command` | settings of a child: program, environment, directory, limits, confinement |
//! | `child` | a running child: its pipes, its exit, how it is stopped |
//! | `machine` | the means of this machine to confine a child |
//! | `usage` | resources that a process uses |
//! | `guard` | the thread that forks a child and outlives it |
//! | `tag` | an environment variable by which the processes of a child are found again |
//! | `linux` | everything that only Linux offers: Landlock, seccomp, cgroups, pidfds, `/proc` |
//! | `portable` | the same interface on other systems, where process groups are all there is |
//!
//! This crate does not know MCP. A child gets its own process group. On Linux it dies with the
//! gateway, gains no privileges, and cannot leave processes behind unless they hide: see
//! [`Child::stop`].

mod child;
mod command;
mod error;
mod guard;
#[cfg(target_os = "linux")]
mod linux;
mod machine;
#[cfg(not(target_os = "linux"))]
mod portable;
mod tag;
#[cfg(test)]
mod tests;
mod usage;

#[cfg(target_os = "linux")]
use self::linux as platform;
#[cfg(not(target_os = "linux"))]
use self::portable as platform;
/// Protects this process from other processes of its user: on Linux, they can neither read its
/// memory and its environment in `/proc`, where credentials are, nor trace it, unless they have one
/// of the capabilities `SYS_PTRACE`, `SYS_ADMIN` and `PERFMON`. A child that this crate starts has
/// none of them. The kernel writes no core
/// dump of the process. Call it before the first thread and the first child are started.
pub fn protect_self() {
    platform::protect_self();
}

/// Returns what this process uses, without its children; `None` if the system does not tell.
pub fn own_usage() -> Option<ProcessUsage> {
    platform::own_usage()
}

pub use self::{
    child::{Child, Exit, Pipes},
    command::{Command, Confinement, Network, NetworkIsolation, ProcessLimits},
    error::SpawnError,
    machine::{can_confine_paths, own_cgroup},
    tag::VARIABLE,
    usage::ProcessUsage,
};
