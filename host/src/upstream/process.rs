//! Runs servers that are child processes.

use std::{
    collections::{BTreeMap, VecDeque},
    env,
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Stdio as Pipe,
    sync::{Arc, Mutex, PoisonError},
};

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{ChildStdin, ChildStdout, Command},
    signal::unix::SignalKind,
    task::JoinHandle,
    time::{sleep, timeout},
};

use super::{
    error::{ConnectionError, ProcessExit},
    inbox::Inbox,
    limits::{
        EXIT_TIMEOUT, KEPT_STDERR_BYTES, REPORTED_STDERR_BYTES, STDERR_BURST_BYTES,
        STDERR_DRAIN_TIMEOUT, STDERR_PAUSE,
    },
    stdio::Stdio,
};
use crate::secret::{Scrubber, Secret};

/// The two pipes of a child.
pub(super) type ChildPipes = Stdio<ChildStdout, ChildStdin>;

/// A running child with all processes that it has started in its group. Dropping it kills them.
pub(super) struct Process {
    child: Box<dyn ChildWrapper>,
    tail: Arc<Mutex<StderrTail>>,
    reader: JoinHandle<()>,
    inbox: Arc<Inbox>,
}

impl Process {
    /// Starts a server in a process group of its own, with `env` as its whole environment.
    pub(super) fn spawn(
        command: &str,
        args: &[String],
        env: &BTreeMap<String, Secret>,
        inbox: Arc<Inbox>,
    ) -> Result<(Self, ChildPipes), ConnectionError> {
        let cannot = |cause| ConnectionError::Spawn { command: command.to_owned(), cause };
        let mut prepared = Command::new(find(command, env)?);
        prepared
            .args(args)
            .env_clear()
            .envs(env.iter().map(|(name, value)| (name, value.expose())));
        prepared.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
        let mut wrapped = CommandWrap::from(prepared);
        wrapped.wrap(ProcessGroup::leader());
        let mut child = wrapped.spawn().map_err(cannot)?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin().take(), child.stdout().take(), child.stderr().take())
        else {
            return Err(cannot(std::io::Error::other("it has no pipes")));
        };
        let tail = Arc::new(Mutex::new(StderrTail::default()));
        let reader = tokio::spawn(read_all(stderr, tail.clone()));
        let pipes = Stdio::new(stdout, stdin, inbox.clone());
        Ok((Self { child, tail, reader, inbox }, pipes))
    }

    /// Stops the child, whose stdin must be closed already: waits for it to exit, then sends
    /// SIGTERM, then kills it. Processes that are left in its group are killed in any case.
    pub(super) async fn stop(mut self) -> ProcessExit {
        let mut status = timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok);
        let before_signal = status.is_some();
        if status.is_none() {
            // This fails if no process is left, which is the goal.
            let _ = self.child.signal(SignalKind::terminate().as_raw_value());
            status = timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok);
        }
        let _ = self.child.start_kill();
        if status.is_none() {
            status = timeout(EXIT_TIMEOUT, self.child.wait()).await.ok().and_then(Result::ok);
        }
        let _ = timeout(STDERR_DRAIN_TIMEOUT, &mut self.reader).await;
        ProcessExit {
            status,
            before_signal,
            stderr: lock(&self.tail).report(self.inbox.scrubber()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After `stop` the group is empty and this kills nothing. The runtime reaps the child if it
        // has not been reaped.
        let _ = self.child.start_kill();
        self.reader.abort();
    }
}

/// Finds the program. The child gets no `PATH` unless one is configured, so the search is done
/// before the child starts.
fn find(command: &str, env: &BTreeMap<String, Secret>) -> Result<PathBuf, ConnectionError> {
    if command.is_empty() {
        return Err(ConnectionError::InvalidSettings("the command is empty".into()));
    }
    if command.contains('/') {
        let path = PathBuf::from(command);
        return if is_program(&path) {
            Ok(path)
        } else {
            Err(ConnectionError::CommandNotFound {
                command: command.to_owned(),
                place: "the file system",
            })
        };
    }
    let (path, place) = match env.get("PATH") {
        Some(path) => (OsString::from(path.expose()), "the PATH of its envs"),
        None => (env::var_os("PATH").unwrap_or_default(), "the gateway's PATH"),
    };
    find_in(&path, command)
        .ok_or_else(|| ConnectionError::CommandNotFound { command: command.to_owned(), place })
}

fn find_in(path: &OsStr, command: &str) -> Option<PathBuf> {
    // An empty entry means the working directory, from which no program may be taken.
    env::split_paths(path)
        .filter(|place| place.is_absolute())
        .map(|place| place.join(command))
        .find(|file| is_program(file))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The last bytes of a stream, at most [`KEPT_STDERR_BYTES`].
#[derive(Default)]
struct StderrTail(VecDeque<u8>);

impl StderrTail {
    fn push(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_STDERR_BYTES)..];
        let excess = (self.0.len() + bytes.len()).saturating_sub(KEPT_STDERR_BYTES);
        self.0.drain(..excess.min(self.0.len()));
        self.0.extend(bytes);
    }

    fn report(&mut self, scrubber: &Scrubber) -> String {
        scrubber.line_end(&String::from_utf8_lossy(self.0.make_contiguous()), REPORTED_STDERR_BYTES)
    }
}

/// Reads stderr without end, so that a child with much output does not block. A child that never
/// pauses is slowed down.
async fn read_all(mut stderr: impl AsyncRead + Unpin, tail: Arc<Mutex<StderrTail>>) {
    let mut buffer = vec![0; 8 * 1024];
    let mut burst = 0;
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        lock(&tail).push(&buffer[..count]);
        burst += count;
        if burst >= STDERR_BURST_BYTES {
            burst = 0;
            sleep(STDERR_PAUSE).await;
        }
    }
}

fn lock(tail: &Mutex<StderrTail>) -> std::sync::MutexGuard<'_, StderrTail> {
    // The bytes are consistent after every statement.
    tail.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_of_stderr_is_kept_and_less_is_reported() {
        let mut tail = StderrTail::default();
        for round in 0..100 {
            tail.push(format!("line {round}\n").repeat(100).as_bytes());
        }
        assert_eq!(tail.0.len(), KEPT_STDERR_BYTES);
        let reported = tail.report(&Scrubber::default());
        assert!(
            reported.starts_with('…')
                && reported.ends_with("line 99")
                && reported.len() <= REPORTED_STDERR_BYTES,
            "{reported}"
        );
        tail.push(&vec![b'x'; 3 * KEPT_STDERR_BYTES]);
        assert_eq!(tail.0.len(), KEPT_STDERR_BYTES);
    }

    #[test]
    fn a_command_is_looked_up_in_the_configured_path() {
        let with_path = |path: &str| BTreeMap::from([("PATH".to_owned(), Secret::new(path))]);
        assert_eq!(find("sh", &with_path("/nowhere:/bin")).expect("a shell"), Path::new("/bin/sh"));
        assert_eq!(find("/bin/sh", &with_path("/nowhere")).expect("a shell"), Path::new("/bin/sh"));
        assert!(find("sh", &BTreeMap::new()).is_ok_and(|path| path.is_absolute()));
        let missing = find("sh", &with_path("/nowhere::.")).expect_err("no shell there");
        insta::assert_snapshot!(missing, @r#"command "sh" is not found in the PATH of its envs"#);
        let missing = find("/etc/passwd", &BTreeMap::new()).expect_err("no program");
        insta::assert_snapshot!(missing, @r#"command "/etc/passwd" is not found in the file system"#);
    }
}
