//! MCP servers that are processes, on this machine or in a container.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::units::{Size, Span};

/// A process that speaks MCP on stdin and stdout.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Stdio {
    /// Command to run. Without a `/` it is looked up in the `PATH` of `envs`, or else in the
    /// gateway's; otherwise it is a path.
    pub(in crate::config) command: String,
    /// Its arguments, passed as they are.
    #[serde(default)]
    pub(in crate::config) args: Vec<String>,
    /// Its environment. `NAME` passes on a variable of the gateway; `NAME=value` and
    /// `NAME=env.OTHER` set one. Besides these, it inherits only `PATH`, `HOME`, `USER`, `LOGNAME`,
    /// `LANG`, `LANGUAGE`, the `LC_` variables, `TZ` and `TMPDIR`.
    #[serde(default)]
    pub(in crate::config) envs: Vec<String>,
    /// Its working directory. Default: that of the gateway.
    pub(in crate::config) cwd: Option<PathBuf>,
    /// Bounds on its resources (Linux). Default: those of the gateway.
    #[serde(default)]
    pub(in crate::config) limits: ProcessLimits,
    /// Paths that it may use (Linux, Landlock). Default: all that the gateway's user may use.
    pub(in crate::config) confine: Option<Confine>,
}

/// Bounds on the resources of a process. Every process that it starts gets the same.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct ProcessLimits {
    /// Address space of one process, which is more than the memory that it uses: Node.js needs
    /// several GiB. From 16MiB.
    pub(in crate::config) memory: Option<Size>,
    /// CPU time of one process, in all. From 1s, in whole seconds.
    pub(in crate::config) cpu_time: Option<Span>,
    /// Open files of one process. From 16 to 1048576.
    pub(in crate::config) open_files: Option<u64>,
    /// Processes and threads of the gateway's user, all together. Not applied to root. From 1 to
    /// 4194304.
    pub(in crate::config) processes: Option<u64>,
}

/// Paths that a process may use, with everything below them. Programs and libraries of the system
/// are readable in any case.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Confine {
    /// Paths to read and execute.
    #[serde(default)]
    pub(in crate::config) read: Vec<PathBuf>,
    /// Paths to read, execute, write, create and remove.
    #[serde(default)]
    pub(in crate::config) write: Vec<PathBuf>,
    /// False to start the process unconfined on a system without Landlock. Default: true.
    pub(in crate::config) required: Option<bool>,
}

/// A process in a container that speaks MCP on stdin and stdout. Needs either `image` or
/// `container`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Docker {
    /// Address of the Docker daemon: `unix:///PATH`, or `tcp://ADDRESS:PORT` with a loopback
    /// address. Default: the variable `DOCKER_HOST` of the gateway, else
    /// `unix:///var/run/docker.sock`.
    pub(in crate::config) host: Option<String>,
    /// Image of a container that the gateway creates, and removes when it disconnects.
    pub(in crate::config) image: Option<String>,
    /// Running container, by name or identifier.
    pub(in crate::config) container: Option<String>,
    /// Program of the server in the container, with its arguments.
    pub(in crate::config) command: Vec<String>,
    /// Variables of the server, besides those of the image: `NAME` passes on a variable of the
    /// gateway; `NAME=value` and `NAME=env.OTHER` set one.
    #[serde(default)]
    pub(in crate::config) envs: Vec<String>,
    /// Working directory in the container. Default: that of the image.
    pub(in crate::config) workdir: Option<String>,
    /// User in the container: `USER`, `UID` or `UID:GID`. Default: that of the image.
    pub(in crate::config) user: Option<String>,
    /// For `image`: network mode, or the name of a network. Default: `none`.
    pub(in crate::config) network: Option<String>,
    /// For `image`: memory of all processes together, at least 6MiB. Default: 512MiB.
    pub(in crate::config) memory: Option<Size>,
    /// For `image`: CPUs, such as 0.5, from 0.01 to 1024. Default: no limit.
    pub(in crate::config) cpus: Option<f64>,
    /// For `image`: processes and threads, from 1 to 4194304. Default: 256.
    pub(in crate::config) pids_limit: Option<u64>,
    /// For `image`: false to make its file system writable. Otherwise only `/tmp` is, with 64 MiB
    /// in memory. Default: true.
    pub(in crate::config) read_only: Option<bool>,
    /// For `image`: directories and files of the host.
    pub(in crate::config) mounts: Option<Vec<DockerMount>>,
    /// For `image`: true to pull it if the daemon does not have it. Default: false.
    pub(in crate::config) pull: Option<bool>,
    /// For `image`: true to keep the container when the gateway disconnects. Default: false.
    pub(in crate::config) keep: Option<bool>,
    /// For `image`: command of the container itself, which has to keep running. Default: `sleep`.
    pub(in crate::config) main: Option<Vec<String>>,
}

/// A directory or file of the host in a container.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct DockerMount {
    /// Its absolute path on the host of the daemon.
    pub(in crate::config) source: PathBuf,
    /// Its absolute path in the container.
    pub(in crate::config) target: String,
    /// False to let the container write it. Default: true.
    pub(in crate::config) read_only: Option<bool>,
}
