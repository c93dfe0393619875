//! MCP servers that are processes, on this machine or in a container.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ranged::{Bytes, Count, DAY, Flag, GIB, MIB, SECOND, Time};

/// The most processes that a Linux system can have.
const MOST_PROCESSES: u64 = 1 << 22;
/// More memory than any machine has.
const MOST_MEMORY: u64 = GIB << 20;

/// A process that speaks MCP on stdin and stdout.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stdio {
    /// Command to run. Without a `/` it is looked up in the `PATH` of `envs`, or else in the
    /// gateway's; otherwise it is a path.
    pub command: String,
    /// Its arguments, passed as they are.
    #[serde(default)]
    pub args: Vec<String>,
    /// Its environment. `NAME` passes on a variable of the gateway; `NAME=value` and
    /// `NAME=env.OTHER` set one. Besides these, it inherits only `PATH`, `HOME`, `USER`, `LOGNAME`,
    /// `LANG`, `LANGUAGE`, the `LC_` variables, `TZ` and `TMPDIR`.
    #[serde(default)]
    pub envs: Vec<String>,
    /// Its working directory. Default: that of the gateway.
    pub cwd: Option<PathBuf>,
    /// Bounds on its resources (Linux). Default: those of the gateway.
    #[serde(default)]
    pub limits: ProcessLimits,
    /// Paths that it may use (Linux, Landlock). Default: all that the gateway's user may use.
    pub confine: Option<Confine>,
    /// `none` to keep it from the network (Linux, seccomp): it and all that it starts can create no sockets but
    /// Unix sockets. A system that cannot enforce this does not start it.
    #[serde(default)]
    pub network: Network,
    /// Time after which it is replaced: another process is started, and takes the calls once it has listed its
    /// tools. Calls that run end on the old one. Default: no limit.
    pub max_age: Option<Time<SECOND, { 365 * DAY }>>,
    /// Memory beyond which it is replaced in the same way (Linux): the resident memory of the process and of
    /// all that it has started, looked at every 5s. Default: no limit.
    pub max_memory: Option<Bytes<MIB, MOST_MEMORY>>,
    /// Processes that run at the same time, all with the same tools. Each call goes to the one with the least
    /// calls among those that are connected and have the accepted tools.
    #[serde(default)]
    pub instances: Instances,
}

/// Number of processes of one server.
pub(crate) type Instances = Count<1, 16, 1>;

/// Network of a process.
#[derive(Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// That of the machine.
    #[default]
    Host,
    /// None.
    None,
}

/// Bounds on the resources of a process. Every process that it starts gets the same.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessLimits {
    /// Address space of one process, which is more than the memory that it uses: Node.js needs
    /// several GiB.
    pub memory: Option<Bytes<{ 16 * MIB }, MOST_MEMORY>>,
    /// CPU time of one process, in all, in whole seconds.
    pub cpu_time: Option<Time<SECOND, { 3_650 * DAY }>>,
    /// Open files of one process.
    pub open_files: Option<Count<16, { 1 << 20 }>>,
    /// Processes and threads of the gateway's user, all together. Not applied to root.
    pub processes: Option<Count<1, MOST_PROCESSES>>,
}

/// Paths that a process may use, with everything below them. Programs and libraries of the system
/// are readable in any case.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Confine {
    /// Paths to read and execute.
    #[serde(default)]
    pub read: Vec<PathBuf>,
    /// Paths to read, execute, write, create and remove.
    #[serde(default)]
    pub write: Vec<PathBuf>,
    /// False to start the process unconfined on a system without Landlock.
    #[serde(default)]
    pub required: Flag<true>,
}

/// A process in a container that speaks MCP on stdin and stdout. Needs either `image` or
/// `container`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Docker {
    /// Address of the Docker daemon: `unix:///PATH`, or `tcp://ADDRESS:PORT` with a loopback
    /// address. Default: the variable `DOCKER_HOST` of the gateway, else
    /// `unix:///var/run/docker.sock`.
    pub host: Option<String>,
    /// Image of a container that the gateway creates, and removes when it disconnects.
    pub image: Option<String>,
    /// Running container, by name or identifier.
    pub container: Option<String>,
    /// Program of the server in the container, with its arguments.
    pub command: Vec<String>,
    /// Variables of the server, besides those of the image: `NAME` passes on a variable of the
    /// gateway; `NAME=value` and `NAME=env.OTHER` set one.
    #[serde(default)]
    pub envs: Vec<String>,
    /// Working directory in the container. Default: that of the image.
    pub workdir: Option<String>,
    /// Processes of the server that run in the container at the same time, all with the same tools. Each call
    /// goes to the one with the least calls among those that are connected and have the accepted tools.
    #[serde(default)]
    pub instances: Instances,
    /// User in the container: `USER`, `UID` or `UID:GID`. Default: that of the image.
    pub user: Option<String>,
    /// For `image`: network mode, or the name of a network. Default: `none`.
    pub network: Option<String>,
    /// For `image`: memory of all processes together.
    pub memory: Option<Bytes<{ 6 * MIB }, MOST_MEMORY, { 512 * MIB }>>,
    /// For `image`: CPUs, such as 0.5, from 0.01 to 1024. Default: no limit.
    pub cpus: Option<f64>,
    /// For `image`: processes and threads.
    pub pids_limit: Option<Count<1, MOST_PROCESSES, 256>>,
    /// For `image`: false to make its file system writable. Otherwise only `/tmp` is, with 64 MiB
    /// in memory.
    pub read_only: Option<Flag<true>>,
    /// For `image`: directories and files of the host.
    pub mounts: Option<Vec<DockerMount>>,
    /// For `image`: true to pull it if the daemon does not have it.
    pub pull: Option<Flag<false>>,
    /// For `image`: true to keep the container when the gateway disconnects.
    pub keep: Option<Flag<false>>,
    /// For `image`: command of the container itself, which has to keep running. Default: `sleep`.
    pub main: Option<Vec<String>>,
}

/// A directory or file of the host in a container.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DockerMount {
    /// Its absolute path on the host of the daemon.
    pub source: PathBuf,
    /// Its absolute path in the container.
    pub target: String,
    /// False to let the container write it.
    #[serde(default)]
    pub read_only: Flag<true>,
}
