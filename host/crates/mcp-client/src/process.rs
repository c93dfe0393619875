//! Runs servers that are child processes.

use std::{
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use airlock_process::{Child, Command};
use futures_util::future::BoxFuture;
use tokio::{task::JoinHandle, time::timeout};

use super::{
    Process,
    channel::{Channel, Owner},
    error::{ConnectionError, ProcessExit},
    limits::{EXIT_TIMEOUT, STDERR_DRAIN_TIMEOUT},
    stderr::StderrTail,
};
use airlock_core::secret::Scrubber;

/// A running child with all processes that it has started. Dropping it kills them.
struct Running {
    child: Child,
    tail: Arc<StderrTail>,
    reader: JoinHandle<()>,
}

/// Starts a server. Must be called within a tokio runtime.
pub(super) async fn open(
    settings: &Process,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, ConnectionError> {
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
    };
    let (child, pipes) = command
        .spawn()
        .await
        .map_err(|cause| ConnectionError::Spawn { command: settings.command.clone(), cause })?;
    let tail = StderrTail::new(scrubber);
    let reader = tokio::spawn({
        let tail = tail.clone();
        async move { tail.read(pipes.stderr).await }
    });
    Ok(Channel {
        read: Box::new(pipes.stdout),
        write: Box::new(pipes.stdin),
        owner: Box::new(Running { child, tail, reader }),
    })
}

impl Owner for Running {
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

    fn id(&self) -> Option<u32> {
        Some(self.child.id())
    }
}

/// Finds the program. The search is done before the child starts, so that a missing program is
/// distinguished from one that fails to start.
fn find(settings: &Process) -> Result<PathBuf, ConnectionError> {
    let command = &settings.command;
    if command.is_empty() {
        return Err(ConnectionError::InvalidSettings("the command is empty".into()));
    }
    if command.contains('/') {
        let path = PathBuf::from(command);
        return match &path {
            path if is_program(path) => Ok(path.clone()),
            path if path.is_file() => {
                Err(ConnectionError::NotExecutable { command: command.to_owned() })
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

fn not_found(command: &str, place: &'static str) -> ConnectionError {
    ConnectionError::CommandNotFound { command: command.to_owned(), place }
}

fn find_in(path: &OsStr, command: &str) -> Option<PathBuf> {
    // An empty entry means the working directory, from which no program may be taken.
    env::split_paths(path)
        .filter(|place| place.is_absolute())
        .map(|place| place.join(command))
        .find(|file| is_program(file))
}

/// Returns whether a path is that of a file that can be executed.
pub fn is_program(path: &Path) -> bool {
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

    /// Finds a command of settings with this path.
    fn with(command: &str, path: Option<&str>) -> Result<PathBuf, ConnectionError> {
        let env = path.map(|path| BTreeMap::from([("PATH".to_owned(), Secret::new(path))]));
        find(&Process {
            command: command.into(),
            env: env.unwrap_or_default(),
            ..Process::default()
        })
    }
}
