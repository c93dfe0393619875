//! A running child.

use std::{
    io,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    process::{ChildStderr, ChildStdin, ChildStdout},
    time::timeout,
};

use crate::{
    command::Command,
    error::SpawnError,
    guard::{self, GuardHandle},
    platform::{self, ExitNotice, ProcessReach},
    tag,
    usage::ProcessUsage,
};

/// Time limit for killing the remaining processes of a child, and for reaping it.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// The three pipes of a child.
#[derive(Debug)]
pub struct Pipes {
    /// Its input.
    pub stdin: ChildStdin,
    /// Its output.
    pub stdout: ChildStdout,
    /// Its messages.
    pub stderr: ChildStderr,
}

/// Exit of a child.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// Its status, if known.
    pub status: Option<ExitStatus>,
    /// True if it exited before it was sent a signal.
    pub before_signal: bool,
}

/// A running child with all processes that it has started. Dropping it kills them.
pub struct Child {
    process: tokio::process::Child,
    leader: Pid,
    exit: ExitNotice,
    guard: GuardHandle,
    is_reaped: bool,
}

impl Command {
    /// Starts the child in a process group of its own. Must be called within a tokio runtime.
    ///
    /// The first call in a process also kills what earlier gateways of this user have left behind,
    /// if they were killed before they could do so.
    pub async fn spawn(self) -> Result<(Child, Pipes), SpawnError> {
        guard::spawn(self).await
    }
}

impl Child {
    /// Starts the child from the thread that is its guard.
    pub(crate) fn start(
        command: &Command,
        reach: &ProcessReach,
        guard: GuardHandle,
    ) -> Result<(Self, Pipes), SpawnError> {
        let mut prepared = tokio::process::Command::new(&command.program);
        prepared
            .args(&command.args)
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .env(tag::VARIABLE, reach.tag().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        if let Some(directory) = &command.directory {
            // Checked here, because a failure in the child looks like a missing program.
            std::fs::read_dir(directory)
                .map_err(|cause| SpawnError::Directory { path: directory.clone(), cause })?;
            prepared.current_dir(directory);
        }
        platform::prepare(&mut prepared, command, reach)?;
        let mut child = prepared.spawn().map_err(SpawnError::Start)?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.try_into().ok()?));
        let leader = leader.ok_or_else(no_pipes)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let exit = ExitNotice::new(leader);
        let this = Self { process: child, leader, exit, guard, is_reaped: false };
        let (Some(stdin), Some(stdout), Some(stderr)) = pipes else { return Err(no_pipes()) };
        Ok((this, Pipes { stdin, stdout, stderr }))
    }

    /// Returns the number of the process that was started, which is also that of its group.
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Returns the number of the process that was started.
    pub fn id(&self) -> u32 {
        self.leader.as_raw_nonzero().get().unsigned_abs()
    }

    /// Returns the resident memory of the process and of its descendants, in bytes; `None` if it is
    /// not known. Reads all of `/proc`, so it belongs on a thread that may block.
    pub fn memory_bytes(id: u32) -> Option<u64> {
        Self::usage(&[id]).pop()?.map(|usage| usage.memory_bytes)
    }

    /// Returns what each of these processes uses with its descendants, in their order; `None` for one that has
    /// ended, or of which nothing is known. Reads all of `/proc` once, so it may block.
    pub fn usage(ids: &[u32]) -> Vec<Option<ProcessUsage>> {
        platform::usage(ids)
    }

    /// Stops the child, whose stdin must be closed already. Waits `grace` for it to exit, then sends
    /// SIGTERM to its group and waits again, then kills it.
    ///
    /// In any case, the rest of its group is killed, and so are processes that have left the group:
    /// on Linux all those in its cgroup, if the gateway may create one (version 2); all that still
    /// have [`VARIABLE`](crate::VARIABLE) in their environment; and all descendants that were
    /// connected to it by living parents when it was stopped. Without a cgroup, a process escapes
    /// if it leaves the group, clears its environment and loses its parent.
    pub async fn stop(mut self, grace: Duration) -> Exit {
        self.guard.remember();
        let before_signal = timeout(grace, self.exit.wait(&mut self.process)).await.is_ok();
        if !before_signal {
            // This fails if no process is left, which is the goal.
            let _ = kill_process_group(self.leader, Signal::TERM);
            let _ = timeout(grace, self.exit.wait(&mut self.process)).await;
        }
        let _ = timeout(KILL_TIMEOUT, self.guard.kill_all()).await;
        let status = timeout(KILL_TIMEOUT, self.process.wait()).await.ok().and_then(Result::ok);
        self.is_reaped = status.is_some();
        Exit { status, before_signal }
    }
}

fn no_pipes() -> SpawnError {
    SpawnError::Start(io::Error::other("it has no pipes"))
}

impl Drop for Child {
    fn drop(&mut self) {
        // The guard kills the rest when its handle is dropped, and the runtime reaps the child.
        if !self.is_reaped {
            let _ = kill_process_group(self.leader, Signal::KILL);
        }
    }
}

impl std::fmt::Debug for Child {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").field("leader", &self.leader).finish_non_exhaustive()
    }
}
