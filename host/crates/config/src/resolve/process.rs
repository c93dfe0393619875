//! MCP servers that are processes: `stdio_config` and `docker_config`.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    path::Path,
};

use super::{
    file_env::FileEnv,
    resolved::{Problems, Resolved},
    same_variants::{SameVariants as _, same_variants},
};
use crate::redact::is_variable_name;
use airlock_config_file::{
    env_text::{EnvText, has_reference_of_editors, is_reference},
    file::{self, Ranged},
    key_path::KeyPath,
    refused::InvalidValue,
};
use airlock_core::secret::Secret;
use airlock_mcp_client::{
    Confinement, Docker, INHERITED_VARIABLES, Image, Mount, Network, Place, Process, ProcessLimits,
};

/// Message about a text for a process with a reference that neither it nor the gateway expands.
const NOT_EXPANDED: &str = "the gateway does not expand `${…}`, and neither does the process: write the value, or put the whole value \
     into a variable of the gateway's environment and `NAME=env.OTHER` into `envs`";

/// Address of the daemon unless another is configured.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// Command of a container that only has to keep running, for the longest time that all versions of
/// `sleep` know.
const DEFAULT_MAIN: [&str; 2] = ["sleep", "2147483647"];

pub(super) fn stdio(stdio: file::Stdio, env: FileEnv<'_>) -> Resolved<Process> {
    Resolved::new(|problems| {
        if stdio.command.trim().is_empty() {
            problems.refuse("command", "is empty");
        }
        check_references(problems, &stdio);
        // A command without `/` is searched in `PATH`.
        let command = if stdio.command.contains('/') {
            env.directory.join(&stdio.command).to_string_lossy().into_owned()
        } else {
            stdio.command
        };
        let mut variables = problems.take("envs", environment(&stdio.envs, env));
        for name in INHERITED_VARIABLES {
            if let Some(value) = env.optional(name) {
                variables.entry(name.to_owned()).or_insert_with(|| Secret::new(value));
            }
        }
        let has_written_path = stdio.envs.iter().any(|entry| writes_path(entry));
        Process {
            command,
            has_written_path,
            args: stdio.args,
            env: variables,
            directory: stdio.cwd.map(|path| problems.take("cwd", env.path(&path))),
            limits: limits(&stdio.limits),
            confinement: stdio
                .confine
                .map(|confine| problems.take("confine", confinement(&confine, env))),
            network: stdio.network.same(),
        }
    })
}

same_variants!(file::Network => Network { Host, None });

/// Refuses references that only an editor expands. Others may be for the process: a shell expands
/// `${NAME}`.
fn check_references(problems: &mut Problems, stdio: &file::Stdio) {
    let args = stdio.args.iter().enumerate();
    let args = args.map(|(index, arg)| (KeyPath::parse("args").element(index), arg.as_str()));
    let directory = stdio.cwd.as_deref().and_then(Path::to_str);
    let texts = [(KeyPath::parse("command"), stdio.command.as_str())]
        .into_iter()
        .chain(args)
        .chain(directory.map(|directory| (KeyPath::parse("cwd"), directory)));
    for (key, _) in texts.filter(|(_, text)| has_reference_of_editors(text)) {
        problems.refuse(key, NOT_EXPANDED);
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

fn confinement(confine: &file::Confine, env: FileEnv<'_>) -> Resolved<Confinement> {
    Resolved::new(|problems| {
        if confine.read.is_empty() && confine.write.is_empty() {
            problems.refuse_whole(
                "names no path; list the paths that the process needs in `read` and `write`",
            );
        }
        Confinement {
            read: problems.take("read", env.paths(&confine.read)),
            write: problems.take("write", env.paths(&confine.write)),
            required: confine.required.0,
        }
    })
}

pub(super) fn docker(docker: file::Docker, env: FileEnv<'_>) -> Resolved<Option<Docker>> {
    Resolved::new(|problems| {
        if docker.command.first().is_none_or(|program| program.trim().is_empty()) {
            problems.refuse("command", "is empty");
        }
        let variables = problems.take("envs", environment(&docker.envs, env));
        let host = problems.accept("host", host(docker.host.as_deref(), env));
        let place = match (&docker.image, &docker.container) {
            (Some(_), Some(_)) | (None, None) => {
                problems.refuse_whole("needs either `image` or `container`, and not both");
                return None;
            }
            (Some(name), None) => Place::Own(Box::new(problems.merge(image(name, &docker)))),
            (None, Some(name)) => {
                for key in keys_of_images(&docker) {
                    problems.refuse(key, "belongs to a container that is created from an `image`");
                }
                if !is_name(name, "_.-") {
                    problems.refuse("container", "is not the name or identifier of a container");
                }
                Place::Existing(name.clone())
            }
        };
        Some(Docker {
            host: host.unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            place,
            command: docker.command,
            env: variables,
            directory: docker.workdir,
            user: docker.user,
        })
    })
}

/// Returns the address of the daemon.
fn host(written: Option<&str>, env: FileEnv<'_>) -> Result<String, String> {
    let host = written.map(str::to_owned).or_else(|| env.optional("DOCKER_HOST"));
    let host = host.unwrap_or_else(|| DEFAULT_HOST.to_owned());
    let is_path = host.strip_prefix("unix://").is_some_and(|path| Path::new(path).is_absolute());
    // Whoever reaches a daemon over TCP has the rights of root, and the connection is not encrypted.
    let address = host.strip_prefix("tcp://").and_then(|host| host.parse::<SocketAddr>().ok());
    if is_path || address.is_some_and(|address| address.ip().is_loopback()) {
        return Ok(host);
    }
    let origin = if written.is_some() { "" } else { " of the variable DOCKER_HOST" };
    Err(format!(
        "the address{origin} must be `unix:///PATH`, or `tcp://ADDRESS:PORT` with a loopback address; to use the daemon of another machine, forward its socket with `ssh -L`"
    ))
}

fn image(name: &str, docker: &file::Docker) -> Resolved<Image> {
    Resolved::new(|problems| {
        if !is_name(name, "_.-/:@") || name.contains("..") {
            problems.refuse("image", "is not the name of an image");
        }
        let network = docker.network.clone().unwrap_or_else(|| "none".to_owned());
        if !is_name(&network, "_.-:") {
            problems.refuse("network", "is not a network mode or the name of a network");
        }
        let main = docker.main.clone().unwrap_or_else(|| DEFAULT_MAIN.map(str::to_owned).to_vec());
        if main.first().is_none_or(|program| program.trim().is_empty()) {
            problems.refuse("main", "is empty");
        }
        let mounts = mounts(docker.mounts.as_deref().unwrap_or_default());
        Image {
            name: name.to_owned(),
            pull: docker.pull.unwrap_or_default().0,
            main,
            network,
            memory_bytes: docker.memory.unwrap_or_default().get().0,
            nano_cpus: docker.cpus.and_then(|cpus| problems.accept("cpus", nano_cpus(cpus))),
            pids: docker.pids_limit.unwrap_or_default().get(),
            read_only: docker.read_only.unwrap_or_default().0,
            mounts: problems.take("mounts", mounts),
            keep: docker.keep.unwrap_or_default().0,
        }
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the range is checked, and the rest of a nanosecond does not count"
)]
fn nano_cpus(cpus: f64) -> Result<u64, String> {
    let range = 0.01..=1024.0;
    if !range.contains(&cpus) {
        return Err(format!("must be from {} to {}, found {cpus}", range.start(), range.end()));
    }
    Ok((cpus * 1e9) as u64)
}

fn mounts(mounts: &[file::DockerMount]) -> Resolved<Vec<Mount>> {
    Resolved::elements(mounts, |problems, mount| {
        let paths = [("source", mount.source.as_path()), ("target", Path::new(&mount.target))];
        for (key, _) in paths.into_iter().filter(|(_, path)| !path.is_absolute()) {
            problems.refuse(key, "must be an absolute path");
        }
        Some(Mount {
            source: mount.source.clone(),
            target: mount.target.clone(),
            read_only: mount.read_only.0,
        })
    })
}

/// Returns the keys of a container that the gateway would create. They would be ignored for another.
fn keys_of_images(docker: &file::Docker) -> impl Iterator<Item = &'static str> {
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
    keys.into_iter().filter_map(|(key, is_given)| is_given.then_some(key))
}

/// Returns whether a name begins with a letter or digit, and has only these and `others`.
fn is_name(name: &str, others: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Returns the configured variables of a process.
fn environment(entries: &[String], env: FileEnv<'_>) -> Resolved<BTreeMap<String, Secret>> {
    let mut seen = BTreeSet::new();
    let variables = Resolved::elements(entries, |problems, entry| {
        let (name, value) = match entry.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (entry.as_str(), None),
        };
        let value = if !is_variable_name(name) {
            // The entry is not quoted: it may be a secret without its name.
            Err("expected `NAME`, `NAME=value` or `NAME=env.OTHER`, where a name has letters, digits and `_`".into())
        } else if !seen.insert(name) {
            Err(format!("{name} is listed twice").into())
        } else {
            variable(name, value, env)
        };
        Some((name.to_owned(), problems.accept_whole(value)?))
    });
    variables.map(BTreeMap::from_iter)
}

fn variable(name: &str, value: Option<&str>, env: FileEnv<'_>) -> Result<Secret, InvalidValue> {
    let name = match value.map(EnvText::parse) {
        None => name.to_owned(),
        Some(EnvText::Variable(other)) => other,
        Some(EnvText::Vaulted(reference)) => return env.vaulted(&reference),
        Some(EnvText::Written(value) | EnvText::Literal(value)) => {
            let text = value.expose();
            if is_reference(text) || has_reference_of_editors(text) {
                return Err(NOT_EXPANDED.into());
            }
            // A variable may be set to the empty string on purpose.
            return Ok(value);
        }
    };
    env.variable(&name)
}

/// Returns whether an entry of `envs` is `PATH` with its value, and not with that of a variable.
fn writes_path(entry: &str) -> bool {
    let value = entry.strip_prefix("PATH=").map(EnvText::parse);
    matches!(value, Some(EnvText::Written(_) | EnvText::Literal(_)))
}
