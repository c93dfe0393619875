//! Settings of a server in a container.

use std::{collections::BTreeMap, path::PathBuf};

use airlock_core::secret::Secret;

/// Settings of a server in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Docker {
    /// Address of the daemon: `unix:///PATH`, or `tcp://HOST:PORT` with a loopback address.
    pub host: String,
    /// Container in which the server runs.
    pub place: Place,
    /// Program of the server in the container, with its arguments. Not empty.
    pub command: Vec<String>,
    /// Variables of the server, besides those of the image.
    pub env: BTreeMap<String, Secret>,
    /// Working directory in the container. Default: that of the image.
    pub directory: Option<String>,
    /// User in the container, as `USER`, `UID` or `UID:GID`. Default: that of the image.
    pub user: Option<String>,
}

/// Container in which a server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A running container of the operator, by name or identifier.
    Existing(String),
    /// A container of the gateway.
    Own(Box<Image>),
}

/// Settings of a container of the gateway. It has no capabilities and gains no privileges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The image, as `NAME`, `NAME:TAG` or `NAME@DIGEST`.
    pub name: String,
    /// True to pull the image if the daemon does not have it.
    pub pull: bool,
    /// Command of the container itself, which has to keep running. Not empty.
    pub main: Vec<String>,
    /// Network mode: `none`, or the name of a network.
    pub network: String,
    /// Memory of all processes together, in bytes. Swap is not used.
    pub memory_bytes: u64,
    /// CPU time in a second of time, in nanoseconds. `None` for no limit.
    pub nano_cpus: Option<u64>,
    /// Processes and threads.
    pub pids: u64,
    /// True if the file system of the image cannot be written; `/tmp` then is in memory.
    pub read_only: bool,
    /// Directories of the host.
    pub mounts: Vec<Mount>,
    /// True to keep the container running after the last session with the server.
    pub keep: bool,
}

/// A directory or file of the host in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its path on the host of the daemon.
    pub source: PathBuf,
    /// Its path in the container.
    pub target: String,
    /// True if the container cannot write it.
    pub read_only: bool,
}
