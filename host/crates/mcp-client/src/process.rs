//! Servers that are child processes: `stdio_config`.

use std::{
    any::Any,
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    os::unix::{fs::PermissionsExt as _, process::ExitStatusExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use airlock_process::{
    Child, Command, Confinement, Network, NetworkIsolation, ProcessLimits, ProcessUsage, SpawnError,
};
use futures_util::future::BoxFuture;
use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::timeout,
};

use super::{
    channel::{Channel, Owner, ProcessExit},
    connector::{Connector, OpenError, Opened, Opening, UnusableFile},
    limits::{EXIT_TIMEOUT, STDERR_DRAIN_TIMEOUT},
    stderr::StderrTail,
    stdio,
    variables::variable_secrets,
};
use airlock_core::{
    secret::{Scrubber, Secret},
    tool::Cause,
};
use airlock_mcp_oauth::Secrets;

/// Settings of a child process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Process {
    /// Program to run. Without a `/` it is looked up in the `PATH` of `env`, or in the gateway's
    /// own `PATH` if `env` has none.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment. Nothing is inherited from the gateway here; the configuration file
    /// adds a few basic variables, such as `PATH` and `HOME`.
    pub env: BTreeMap<String, Secret>,
    /// Its working directory. Default: that of the gateway.
    pub directory: Option<PathBuf>,
    /// Bounds on its resources.
    pub limits: ProcessLimits,
    /// Paths that it may use. `None` leaves it unconfined.
    pub confinement: Option<Confinement>,
    /// Network that it may use.
    pub network: Network,
    /// True if the `PATH` of `env` is written in the settings, and does not come from the environment
    /// of this process.
    pub has_written_path: bool,
}

impl Connector for Process {
    fn connection_type(&self) -> &'static str {
        "stdio"
    }

    fn is_same(&self, other: &dyn Connector) -> bool {
        (other as &dyn Any).downcast_ref() == Some(self)
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let channel = open(self, opening.inbox.scrubber()).await?;
            Ok(stdio::over(channel, opening))
        })
    }

    fn secrets(&self) -> Secrets {
        variable_secrets(&self.env)
    }

    fn program(&self) -> Option<&str> {
        Some(&self.command)
    }

    fn has_no_network(&self) -> bool {
        self.network == Network::None
    }

    /// Checks the command, which is looked up as at a start, the paths of the process, and that it can be
    /// kept from the network if it shall have none.
    fn check_files(&self) -> Vec<UnusableFile> {
        let mut found = Vec::new();
        let program = Path::new(&self.command);
        if self.command.contains('/') && !is_program(program) {
            found.push(if program.is_file() {
                unusable("command", format!("{} {NOT_EXECUTABLE}", program.display()))
            } else {
                missing("command", "file", program)
            });
        } else if let Err(error @ StartError::NotFound { .. }) = find(self) {
            let message = format!("{error}; install it, or write its whole path");
            let is_certain = self.has_written_path;
            found.push(UnusableFile { is_certain, ..unusable("command", message) });
        }
        if let Some(path) = self.directory.as_ref().filter(|path| !path.is_dir()) {
            found.push(missing("cwd", "directory", path));
        }
        if self.has_no_network() && NetworkIsolation::detect() == NetworkIsolation::Unavailable {
            found.push(unusable("network", SpawnError::NoSocketFilter.to_string()));
        }
        let confined = self.confinement.iter();
        let confined = confined.flat_map(|own| [("read", &own.read), ("write", &own.write)]);
        for (name, paths) in confined {
            for (at, path) in paths.iter().enumerate().filter(|(_, path)| !path.exists()) {
                let key = format!("confine.{name}[{at}]");
                found.push(missing(&key, "file or directory", path));
            }
        }
        found
    }

    fn advice(&self, error: &str) -> Option<&'static str> {
        let is_denied = error.contains("cannot be started: Permission denied");
        (self.confinement.is_some() && is_denied).then_some(
            "`confine` may deny the program or its interpreter; add their directories to `confine.read`",
        )
    }

    fn exit_advice(&self, exit: &ProcessExit) -> Option<String> {
        let memory_bytes = self.limits.memory_bytes?;
        let has_crashed = exit.before_signal
            && exit.status.is_some_and(|status| status.signal().is_some() || !status.success());
        has_crashed.then(|| {
            format!(
                "its `limits.memory` of {} MiB may be too small: it bounds the address space, of which many programs reserve more than they use",
                memory_bytes >> 20
            )
        })
    }
}

/// Reason that a file is no program, with the remedy.
const NOT_EXECUTABLE: &str =
    "is not executable; run `chmod +x` on it, or name an interpreter as the command";

/// Reason that a process was not started.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("the command is empty")]
    NoCommand,
    #[error("command {command:?} is not found in {place}")]
    NotFound { command: String, place: &'static str },
    #[error("command {command:?} exists but {NOT_EXECUTABLE}")]
    NotExecutable { command: String },
    #[error("command {command:?} cannot be started")]
    Spawn {
        command: String,
        #[source]
        cause: SpawnError,
    },
}

impl From<StartError> for OpenError {
    fn from(error: StartError) -> Self {
        match error {
            StartError::NoCommand => Self::Invalid(error.to_string()),
            StartError::NotFound { .. } => Self::Missing(Cause::from(error)),
            StartError::NotExecutable { .. } => Self::Unusable(Cause::from(error)),
            StartError::Spawn { .. } => Self::Failed(Cause::from(error)),
        }
    }
}

/// A running child with all processes that it has started. Dropping it kills them.
struct RunningProcess {
    child: Child,
    tail: Arc<StderrTail>,
    reader: JoinHandle<()>,
}

/// Starts a server. Must be called within a tokio runtime.
async fn open(settings: &Process, scrubber: Arc<Scrubber>) -> Result<Channel, StartError> {
    let command = Command {
        program: find(settings)?,
        args: settings.args.iter().map(OsString::from).collect(),
        env: settings
            .env
            .iter()
            .map(|(name, value)| (name.into(), value.expose().into()))
            .collect(),
        directory: settings.directory.clone(),
        limits: settings.limits.clone(),
        confinement: settings.confinement.clone(),
        network: settings.network,
    };
    let (child, pipes) = command
        .spawn()
        .await
        .map_err(|cause| StartError::Spawn { command: settings.command.clone(), cause })?;
    let tail = StderrTail::new(scrubber);
    let reader = tokio::spawn({
        let tail = tail.clone();
        async move { tail.read(pipes.stderr).await }
    });
    Ok(Channel {
        read: Box::new(pipes.stdout),
        write: Box::new(pipes.stdin),
        owner: Box::new(RunningProcess { child, tail, reader }),
    })
}

impl Owner for RunningProcess {
    fn stop(mut self: Box<Self>) -> BoxFuture<'static, ProcessExit> {
        Box::pin(async move {
            let exit = self.child.stop(EXIT_TIMEOUT).await;
            if timeout(STDERR_DRAIN_TIMEOUT, &mut self.reader).await.is_err() {
                self.reader.abort();
            }
            ProcessExit {
                status: exit.status,
                before_signal: exit.before_signal,
                stderr: self.tail.last_lines(),
            }
        })
    }

    fn stderr(&self) -> Arc<StderrTail> {
        self.tail.clone()
    }

    fn process_id(&self) -> Option<u32> {
        Some(self.child.id())
    }
}

/// Returns the resident memory of a server's process and of all that it has started, in bytes; `None` if it
/// has ended or the system does not tell. Memory that they share counts for each of them. Must be polled
/// within a tokio runtime.
pub async fn resident_memory(process: u32) -> Option<u64> {
    spawn_blocking(move || Child::memory_bytes(process)).await.ok().flatten()
}

/// Returns what servers' processes use with all that they have started, in their order; `None` for one that has ended,
/// or if the system does not tell. Reads all of `/proc` once, so it may block.
pub fn process_usage(processes: &[u32]) -> Vec<Option<ProcessUsage>> {
    Child::usage(processes)
}

/// Finds the program. The search is done before the child starts, so that a missing program is
/// distinguished from one that fails to start.
fn find(settings: &Process) -> Result<PathBuf, StartError> {
    let command = &settings.command;
    if command.is_empty() {
        return Err(StartError::NoCommand);
    }
    if command.contains('/') {
        let path = PathBuf::from(command);
        return match &path {
            path if is_program(path) => Ok(path.clone()),
            path if path.is_file() => {
                Err(StartError::NotExecutable { command: command.to_owned() })
            }
            _ => Err(not_found(command, "the file system")),
        };
    }
    let (path, place) = match settings.env.get("PATH") {
        Some(path) => (OsString::from(path.expose()), "its PATH"),
        None => (env::var_os("PATH").unwrap_or_default(), "the gateway's PATH"),
    };
    find_in(&path, command).ok_or_else(|| not_found(command, place))
}

fn not_found(command: &str, place: &'static str) -> StartError {
    StartError::NotFound { command: command.to_owned(), place }
}

fn find_in(path: &OsStr, command: &str) -> Option<PathBuf> {
    // An empty entry means the working directory, from which no program may be taken.
    env::split_paths(path)
        .filter(|place| place.is_absolute())
        .map(|place| place.join(command))
        .find(|file| is_program(file))
}

/// Returns the report of a value that cannot be used. `key` is below `stdio_config`.
fn unusable(key: &str, message: String) -> UnusableFile {
    UnusableFile { key: format!("stdio_config.{key}"), message, is_certain: true }
}

fn missing(key: &str, what: &str, path: &Path) -> UnusableFile {
    unusable(key, format!("there is no {what} {}", path.display()))
}

/// Returns whether a path is that of a file that can be executed.
fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use airlock_core::secret::Secret;

    #[test]
    fn a_command_is_looked_up_in_the_configured_path() {
        assert_eq!(with("sh", Some("/nowhere:/bin")).expect("a shell"), Path::new("/bin/sh"));
        assert_eq!(with("/bin/sh", Some("/nowhere")).expect("a shell"), Path::new("/bin/sh"));
        assert!(with("sh", None).is_ok_and(|path| path.is_absolute()));
        let missing = with("sh", Some("/nowhere::.")).expect_err("no shell there");
        insta::assert_snapshot!(missing, @r#"command "sh" is not found in its PATH"#);
        let missing = with("/nowhere/sh", None).expect_err("no file");
        insta::assert_snapshot!(missing, @r#"command "/nowhere/sh" is not found in the file system"#);
        let missing = with("/bin", None).expect_err("a directory");
        insta::assert_snapshot!(missing, @r#"command "/bin" is not found in the file system"#);
        let plain = with("/etc/passwd", None).expect_err("no program");
        insta::assert_snapshot!(plain, @r#"command "/etc/passwd" exists but is not executable; run `chmod +x` on it, or name an interpreter as the command"#);
    }

    #[test]
    fn a_missing_command_is_certain_only_if_the_path_is_written_in_the_settings() {
        let of_this_process = env::var("PATH").expect("a path");
        for (command, path, has_written_path, expected) in [
            ("sh", Some("/bin"), true, None),
            ("/bin/sh", None, false, None),
            ("no-such-command", None, false, Some(false)),
            ("no-such-command", Some(&*of_this_process), true, Some(true)),
            ("sh", Some("/nowhere"), false, Some(false)),
            ("sh", Some("/nowhere"), true, Some(true)),
            ("/nowhere/sh", None, false, Some(true)),
        ] {
            let process = Process { has_written_path, ..process(command, path) };
            let found = process.check_files();
            let found: Vec<_> =
                found.iter().map(|file| (file.key.as_str(), file.is_certain)).collect();
            let expected: Vec<_> =
                expected.iter().map(|is_certain| ("stdio_config.command", *is_certain)).collect();
            assert_eq!(found, expected, "{command} {path:?} {has_written_path}");
        }
    }

    /// Finds a command of settings with this path.
    fn with(command: &str, path: Option<&str>) -> Result<PathBuf, StartError> {
        find(&process(command, path))
    }

    fn process(command: &str, path: Option<&str>) -> Process {
        let env = path.map(|path| BTreeMap::from([("PATH".to_owned(), Secret::new(path))]));
        Process { command: command.into(), env: env.unwrap_or_default(), ..Process::default() }
    }

    #[test]
    fn a_confined_program_without_permission_names_the_confinement() {
        let error = "command \"x\" cannot be started: Permission denied (os error 13)";
        let confinement = Some(Confinement { read: Vec::new(), write: Vec::new(), required: true });
        let confined = Process { confinement, ..Process::default() };
        assert!(confined.advice(error).is_some_and(|advice| advice.contains("`confine.read`")));
        assert_eq!(Process::default().advice(error), None);
    }
}
