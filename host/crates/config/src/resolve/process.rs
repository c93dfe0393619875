//! MCP servers that are processes: `stdio_config` and `docker_config`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};

use super::{
    super::{
        file::{self, Ranged},
        values::{EnvText, has_reference_of_editors, is_reference},
    },
    Field, NOT_EXPANDED_FOR_PROCESS,
};
use airlock_core::secret::Secret;
use airlock_mcp_client::{Confinement, Docker, Image, Mount, Place, Process, ProcessLimits};

/// Variables that every process inherits from the gateway: places, languages and names, which most
/// programs need and which grant no access.
const INHERITED: [&str; 15] = [
    "HOME",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "TMPDIR",
    "TZ",
    "USER",
];
/// Address of the daemon unless another is configured.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Command of a container that only has to keep running, for the longest time that all versions of
/// `sleep` know.
const DEFAULT_MAIN: [&str; 2] = ["sleep", "2147483647"];

pub(super) fn stdio(field: &Field<'_>, stdio: file::Stdio) -> Process {
    let command = field.member("command");
    if stdio.command.trim().is_empty() {
        command.refuse("is empty");
    }
    // Other references may be for the process: a shell expands `${NAME}`.
    command.refuse_reference_of_editors(&stdio.command);
    let args = field.member("args");
    for (index, arg) in stdio.args.iter().enumerate() {
        args.element(index).refuse_reference_of_editors(arg);
    }
    if let Some(directory) = stdio.cwd.as_deref().and_then(Path::to_str) {
        field.member("cwd").refuse_reference_of_editors(directory);
    }
    // A command without `/` is searched in `PATH`.
    let is_path = stdio.command.contains('/');
    let command = if is_path {
        command.base.join(&stdio.command).to_string_lossy().into_owned()
    } else {
        stdio.command
    };
    let mut env = environment(&field.member("envs"), &stdio.envs);
    for name in INHERITED {
        if let Some(value) = (field.env)(name).filter(|value| !value.is_empty()) {
            env.entry(name.to_owned()).or_insert_with(|| Secret::new(value));
        }
    }
    Process {
        command,
        args: stdio.args,
        env,
        directory: stdio.cwd.map(|path| field.member("cwd").path(&path)),
        limits: limits(&stdio.limits),
        confinement: stdio.confine.map(|confine| confinement(&field.member("confine"), &confine)),
    }
}

fn limits(limits: &file::ProcessLimits) -> ProcessLimits {
    ProcessLimits {
        memory_bytes: limits.memory.map(|size| size.get().0),
        cpu_time: limits.cpu_time.map(|time| time.get().0),
        open_files: limits.open_files.map(Ranged::get),
        processes: limits.processes.map(Ranged::get),
    }
}

fn confinement(field: &Field<'_>, confine: &file::Confine) -> Confinement {
    if confine.read.is_empty() && confine.write.is_empty() {
        field.refuse("names no path; list the paths that the process needs in `read` and `write`");
    }
    Confinement {
        read: paths(&field.member("read"), &confine.read),
        write: paths(&field.member("write"), &confine.write),
        required: confine.required.0,
    }
}

fn paths(field: &Field<'_>, paths: &[std::path::PathBuf]) -> Vec<std::path::PathBuf> {
    paths.iter().enumerate().map(|(at, path)| field.element(at).path(path)).collect()
}

pub(super) fn docker(field: &Field<'_>, docker: file::Docker) -> Option<Docker> {
    if docker.command.first().is_none_or(|program| program.trim().is_empty()) {
        field.member("command").refuse("is empty");
    }
    let env = environment(&field.member("envs"), &docker.envs);
    let host = host(&field.member("host"), docker.host.as_deref());
    let place = match (&docker.image, &docker.container) {
        (Some(_), Some(_)) | (None, None) => {
            field.refuse("needs either `image` or `container`, and not both");
            return None;
        }
        (Some(name), None) => Place::Own(Box::new(image(field, name, &docker))),
        (None, Some(name)) => {
            refuse_keys_of_images(field, &docker);
            if !is_name(name, "_.-") {
                field.member("container").refuse("is not the name or identifier of a container");
            }
            Place::Existing(name.clone())
        }
    };
    Some(Docker {
        host,
        place,
        command: docker.command,
        env,
        directory: docker.workdir,
        user: docker.user,
    })
}

/// Returns the address of the daemon.
fn host(field: &Field<'_>, written: Option<&str>) -> String {
    let host = match written {
        Some(host) => Some(host.to_owned()),
        None => (field.env)("DOCKER_HOST").filter(|host| !host.is_empty()),
    };
    let host = host.unwrap_or_else(|| DEFAULT_HOST.to_owned());
    let is_path = host.strip_prefix("unix://").is_some_and(|path| Path::new(path).is_absolute());
    // Whoever reaches a daemon over TCP has the rights of root, and the connection is not encrypted.
    let address = host.strip_prefix("tcp://").and_then(|host| host.parse::<SocketAddr>().ok());
    if !is_path && !address.is_some_and(|address| address.ip().is_loopback()) {
        let origin = if written.is_some() { "" } else { " of the variable DOCKER_HOST" };
        field.refuse(format_args!(
            "the address{origin} must be `unix:///PATH`, or `tcp://ADDRESS:PORT` with a loopback address; to use the daemon of another machine, forward its socket with `ssh -L`"
        ));
    }
    host
}

fn image(field: &Field<'_>, name: &str, docker: &file::Docker) -> Image {
    if !is_name(name, "_.-/:@") || name.contains("..") {
        field.member("image").refuse("is not the name of an image");
    }
    let network = docker.network.clone().unwrap_or_else(|| "none".to_owned());
    if !is_name(&network, "_.-:") {
        field.member("network").refuse("is not a network mode or the name of a network");
    }
    let main = docker.main.clone().unwrap_or_else(|| DEFAULT_MAIN.map(str::to_owned).to_vec());
    if main.first().is_none_or(|program| program.trim().is_empty()) {
        field.member("main").refuse("is empty");
    }
    Image {
        name: name.to_owned(),
        pull: docker.pull.unwrap_or_default().0,
        main,
        network,
        memory_bytes: docker.memory.unwrap_or_default().get().0,
        nano_cpus: docker.cpus.map(|cpus| nano_cpus(&field.member("cpus"), cpus)),
        pids: docker.pids_limit.unwrap_or_default().get(),
        read_only: docker.read_only.unwrap_or_default().0,
        mounts: mounts(&field.member("mounts"), docker.mounts.as_deref().unwrap_or_default()),
        keep: docker.keep.unwrap_or_default().0,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked, and the rest of a nanosecond does not count"
)]
fn nano_cpus(field: &Field<'_>, cpus: f64) -> u64 {
    let range = 0.01..=1024.0;
    if !range.contains(&cpus) {
        field.refuse(format_args!(
            "must be from {} to {}, found {cpus}",
            range.start(),
            range.end()
        ));
    }
    (cpus * 1e9) as u64
}

fn mounts(field: &Field<'_>, mounts: &[file::DockerMount]) -> Vec<Mount> {
    let mounts = mounts.iter().enumerate().map(|(at, mount)| {
        let field = field.element(at);
        for (name, path) in
            [("source", mount.source.as_path()), ("target", Path::new(&mount.target))]
        {
            if !path.is_absolute() {
                field.member(name).refuse("must be an absolute path");
            }
        }
        Mount {
            source: mount.source.clone(),
            target: mount.target.clone(),
            read_only: mount.read_only.0,
        }
    });
    mounts.collect()
}

/// Refuses settings of a container that the gateway would create, because they would be ignored.
fn refuse_keys_of_images(field: &Field<'_>, docker: &file::Docker) {
    let keys = [
        ("network", docker.network.is_some()),
        ("memory", docker.memory.is_some()),
        ("cpus", docker.cpus.is_some()),
        ("pids_limit", docker.pids_limit.is_some()),
        ("read_only", docker.read_only.is_some()),
        ("mounts", docker.mounts.is_some()),
        ("pull", docker.pull.is_some()),
        ("keep", docker.keep.is_some()),
        ("main", docker.main.is_some()),
    ];
    for (key, _) in keys.into_iter().filter(|(_, is_given)| *is_given) {
        field.member(key).refuse("belongs to a container that is created from an `image`");
    }
}

/// Returns whether a name begins with a letter or digit, and has only these and `others`.
fn is_name(name: &str, others: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Returns the configured variables of a process.
fn environment(field: &Field<'_>, entries: &[String]) -> BTreeMap<String, Secret> {
    let mut variables = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (index, entry) in entries.iter().enumerate() {
        let field = field.element(index);
        let (name, value) = entry
            .split_once('=')
            .map_or((entry.as_str(), None), |(name, value)| (name, Some(value)));
        if !is_variable_name(name) {
            // The entry is not quoted: it may be a secret without its name.
            field.refuse("expected `NAME`, `NAME=value` or `NAME=env.OTHER`, where a name has letters, digits and `_`");
        } else if !seen.insert(name) {
            field.refuse(format_args!("{name} is listed twice"));
        } else if let Some(value) = variable(&field, name, value) {
            variables.insert(name.to_owned(), value);
        }
    }
    variables
}

fn variable(field: &Field<'_>, name: &str, value: Option<&str>) -> Option<Secret> {
    match value.map(EnvText::parse) {
        None => field.variable(name),
        Some(EnvText::Variable(other)) => field.variable(&other),
        Some(EnvText::Written(value) | EnvText::Literal(value)) => {
            let value_text = value.expose();
            if is_reference(value_text) || has_reference_of_editors(value_text) {
                field.refuse(NOT_EXPANDED_FOR_PROCESS);
            }
            // A variable may be set to the empty string on purpose.
            Some(value)
        }
    }
}

fn is_variable_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}
