//! Settings of a child.

use std::{ffi::OsString, fmt, path::PathBuf, time::Duration};

/// Settings of a child.
#[derive(Default)]
pub struct Command {
    /// The program's file.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment, except for [`VARIABLE`](crate::VARIABLE), which is added.
    pub env: Vec<(OsString, OsString)>,
    /// Its working directory. Default: that of the gateway.
    pub directory: Option<PathBuf>,
    /// Bounds on its resources.
    pub limits: ProcessLimits,
    /// Paths that it may use. `None` leaves it unconfined.
    pub confinement: Option<Confinement>,
    /// Network that it may use.
    pub network: Network,
}

impl fmt::Debug for Command {
    /// Omits arguments and environment, which may hold credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("program", &self.program).finish_non_exhaustive()
    }
}

/// Network of a child.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Network {
    /// That of the machine.
    #[default]
    Host,
    /// None: the child and all that it starts can only create Unix sockets. A child for which the system
    /// cannot enforce this is not started. See [`NetworkIsolation`] for the coverage.
    None,
}

/// Coverage of [`Network::None`] on this machine.
///
/// Sockets of every family but Unix sockets are refused when they are created (seccomp), and so is
/// `io_uring`, which could create them past the filter. Unix sockets in the abstract namespace are refused
/// when they are connected to, if the kernel can (Landlock, Linux 6.12). Unix sockets with a path stay
/// reachable, as their permissions say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetworkIsolation {
    /// The kernel refuses sockets of all other families, and connections to abstract Unix sockets of
    /// other processes.
    Full,
    /// The kernel refuses sockets of all other families. Abstract Unix sockets stay reachable.
    WithoutAbstractSockets,
    /// The kernel cannot refuse sockets: no child with [`Network::None`] starts.
    Unavailable,
}

/// Bounds on the resources of a child (`setrlimit`). Each process that the child starts inherits
/// them. A bound above the gateway's own hard limit is lowered to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Address space of one process, in bytes. Allocations beyond it fail.
    pub memory_bytes: Option<u64>,
    /// CPU time of one process, in whole seconds, rounded up. The kernel sends SIGXCPU at the bound
    /// and SIGKILL a second later.
    pub cpu_time: Option<Duration>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Processes and threads of the whole user, not only of the child. The kernel does not apply it
    /// to root.
    pub processes: Option<u64>,
}

/// Paths that a child may use. All others are refused by the kernel, except for programs and
/// libraries of the system, some files in `/etc`, `/proc`, and devices such as `/dev/null`. A
/// confined child can neither signal nor trace processes outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Confinement {
    /// Paths to read and execute, with everything below them.
    pub read: Vec<PathBuf>,
    /// Paths to read, execute, write, create and remove, with everything below them.
    pub write: Vec<PathBuf>,
    /// True if the child must not start on a system that cannot confine it.
    pub required: bool,
}
