//! Reasons that a child does not start.

use std::{io, path::PathBuf};

/// Reason that a child does not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The working directory cannot be used.
    #[error("its working directory {path:?} cannot be used; create it, or correct `cwd`")]
    Directory {
        /// The directory as configured.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// A path of the confinement cannot be opened.
    #[error(
        "{path:?} of `confine.{key}` cannot be opened; create it, or remove it from the configuration"
    )]
    ConfinedPath {
        /// `read` or `write`.
        key: &'static str,
        /// The path as configured.
        path: PathBuf,
        /// The system's reason.
        #[source]
        cause: io::Error,
    },
    /// The system cannot confine processes, and the confinement is required.
    #[error(
        "it cannot be confined: this system has no Landlock (Linux 5.13 or later, enabled at boot); to start it unconfined, set `confine.required` to false"
    )]
    NoLandlock,
    /// The system cannot keep a process from the network, and the process shall have none.
    #[error(
        "it cannot be kept from the network: this needs Linux with seccomp filters, on x86-64, ARM64 or RISC-V; to start it with the network of the machine, set `network` to \"host\""
    )]
    NoSocketFilter,
    /// The kernel refuses the rules of the confinement.
    #[error("it cannot be confined")]
    Confine(#[source] io::Error),
    /// The program cannot be started.
    #[error(transparent)]
    Start(io::Error),
}
