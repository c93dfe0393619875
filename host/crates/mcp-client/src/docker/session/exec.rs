//! One session: an `exec` in a container, with its three streams attached.

use std::{
    os::unix::process::ExitStatusExt as _, pin::Pin, process::ExitStatus, sync::Arc, time::Duration,
};

use bollard::{
    container::LogOutput,
    errors::Error as ApiError,
    exec::{CreateExecOptions, StartExecOptions, StartExecResults},
    models::ExecInspectResponse,
};
use futures_util::{Stream, StreamExt as _, future::BoxFuture};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _, DuplexStream, copy, duplex},
    runtime::Handle,
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::warn;
use uuid::Uuid;

use super::{
    super::settings::Docker,
    container::ContainerLease,
    engine::{Engine, ask},
    error::DockerError,
};
use crate::{
    channel::{Channel, Owner, ProcessExit},
    limits::{EXIT_TIMEOUT, STDERR_DRAIN_TIMEOUT},
    stderr::StderrTail,
};
use airlock_core::secret::Scrubber;
use airlock_strings::with_causes;

/// Bytes in each direction that wait to be read.
const PIPE_BYTES: usize = 64 << 10;
/// Delay between two looks at a process in a container that is to end.
const POLL: Duration = Duration::from_millis(50);
/// Begin of the daemon's message that the program cannot be started, which it writes to stdout.
const NOT_STARTED: &[u8] = b"OCI runtime exec failed";
/// Signals all processes of a session, which is marked in their environment. The API itself cannot
/// do this. Needs `sh`, `tr`, `grep` and `kill` in the container.
const SIGNAL_SCRIPT: &str = r#"for process in /proc/[0-9]*; do
  if tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -q "^$1$"; then
    kill "-$2" "${process#/proc/}"
  fi
done"#;

/// Identity of a session.
#[derive(Clone)]
struct Exec {
    engine: Engine,
    id: String,
    /// Marks the processes of the session, as `NAME=value`.
    mark: String,
    user: Option<String>,
}

/// The processes of a session, from when the daemon may start them. Dropping it kills them and releases
/// the container.
struct ExecProcesses {
    /// `None` once the session is being ended.
    lease: Option<ContainerLease>,
    exec: Exec,
    /// True once the daemon has reported that the server is started.
    is_started: bool,
}

/// A running session. Dropping it closes the streams, kills the processes and releases the container.
struct ExecSession {
    processes: ExecProcesses,
    tail: Arc<StderrTail>,
    input: JoinHandle<()>,
    output: JoinHandle<()>,
}

type ContainerOutput = Pin<Box<dyn Stream<Item = Result<LogOutput, ApiError>> + Send>>;
type ContainerInput = Pin<Box<dyn AsyncWrite + Send>>;

/// Starts a server in a container.
pub(super) async fn start(
    settings: &Docker,
    lease: ContainerLease,
    scrubber: Arc<Scrubber>,
) -> Result<Channel, DockerError> {
    let engine = lease.engine().clone();
    let mark = format!("{}={}", airlock_process::VARIABLE, Uuid::new_v4().simple());
    let variables = settings.env.iter().map(|(name, value)| format!("{name}={}", value.expose()));
    let options = CreateExecOptions {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(true),
        tty: Some(false),
        cmd: Some(settings.command.clone()),
        env: Some(variables.chain([mark.clone()]).collect()),
        working_dir: settings.directory.clone(),
        user: settings.user.clone(),
        ..CreateExecOptions::default()
    };
    let created = ask("create a session", engine.api().create_exec(lease.id(), options)).await;
    let id = match created {
        Ok(created) => created.id,
        Err(error) if error.is_not_found() => {
            return Err(DockerError::NoContainer { name: lease.name().to_owned() });
        }
        Err(error) if error.is_conflict() => {
            return Err(lease.stopped().await);
        }
        Err(error) => return Err(error),
    };
    let exec = Exec { engine, id, mark, user: settings.user.clone() };
    let mut processes = ExecProcesses { lease: Some(lease), exec, is_started: false };
    let (output, input) = processes.start().await?;
    let tail = StderrTail::new(scrubber);
    let (write, stdin) = duplex(PIPE_BYTES);
    let (stdout, read) = duplex(PIPE_BYTES);
    let session = ExecSession {
        processes,
        input: tokio::spawn(forward(stdin, input)),
        output: tokio::spawn(separate(output, stdout, tail.clone())),
        tail,
    };
    Ok(Channel { read: Box::new(read), write: Box::new(write), owner: Box::new(session) })
}

/// Forwards stdin until it is closed, and then closes that of the server.
async fn forward(mut stdin: DuplexStream, mut input: ContainerInput) {
    let _ = copy(&mut stdin, &mut input).await;
    let _ = input.shutdown().await;
}

/// Separates the two outputs of a server. If stdout is no longer read, the rest of it is dropped,
/// so that the end of stderr still arrives.
async fn separate(mut output: ContainerOutput, mut stdout: DuplexStream, tail: Arc<StderrTail>) {
    let mut is_read = true;
    let mut is_first = true;
    while let Some(Ok(part)) = output.next().await {
        if let LogOutput::StdOut { message } = &part
            && std::mem::take(&mut is_first)
            && message.starts_with(NOT_STARTED)
        {
            tail.push(message);
        }
        match part {
            LogOutput::StdOut { message } if is_read => {
                is_read = stdout.write_all(&message).await.is_ok();
            }
            LogOutput::StdErr { message } | LogOutput::Console { message } => {
                if let Some(pause) = tail.push(&message) {
                    sleep(pause).await;
                }
            }
            LogOutput::StdOut { .. } | LogOutput::StdIn { .. } => {}
        }
    }
}

impl Exec {
    /// Waits until the server has ended, and returns its last state.
    async fn ended(&self) -> ExecInspectResponse {
        loop {
            let state = self.state().await;
            if let Some(state) = state.filter(|state| state.running == Some(false)) {
                return state;
            }
            sleep(POLL).await;
        }
    }

    /// Waits until the daemon has started the server, for at most [`EXIT_TIMEOUT`].
    async fn wait_for_start(&self) {
        let started = async {
            while let Some(state) = self.state().await
                && state.running != Some(true)
                && state.exit_code.is_none()
            {
                sleep(POLL).await;
            }
        };
        let _ = timeout(EXIT_TIMEOUT, started).await;
    }

    async fn state(&self) -> Option<ExecInspectResponse> {
        ask("describe a session", self.engine.api().inspect_exec(&self.id)).await.ok()
    }

    async fn ended_in_time(&self) -> Option<ExecInspectResponse> {
        timeout(EXIT_TIMEOUT, self.ended()).await.ok()
    }

    /// Sends a signal to all processes of the session.
    async fn signal(&self, container: &ContainerLease, signal: &str) {
        let command = ["sh", "-c", SIGNAL_SCRIPT, "sh", &self.mark, signal];
        let options = CreateExecOptions {
            cmd: Some(command.map(str::to_owned).to_vec()),
            user: self.user.clone(),
            ..CreateExecOptions::default()
        };
        let api = self.engine.api();
        let sent = async {
            let created = ask("create a session", api.create_exec(container.id(), options)).await?;
            let options = StartExecOptions { detach: true, ..StartExecOptions::default() };
            ask("start a session", api.start_exec(&created.id, Some(options))).await?;
            loop {
                let state = ask("describe a session", api.inspect_exec(&created.id)).await?;
                if state.running == Some(false) {
                    return Ok::<_, DockerError>(state.exit_code);
                }
                sleep(POLL).await;
            }
        };
        match timeout(EXIT_TIMEOUT, sent).await {
            Ok(Ok(Some(126 | 127))) => {
                warn!(
                    container = container.name(),
                    "the container has no shell to signal processes"
                );
            }
            Ok(Err(error)) if !error.is_not_found() => {
                warn!(
                    container = container.name(),
                    error = with_causes(&error),
                    "processes not signalled"
                );
            }
            _ => {}
        }
    }

    /// Kills all processes of the session and releases the container.
    async fn kill(&self, lease: ContainerLease) {
        if let Some(lease) = lease.remove_if_last(&self.id).await {
            // Processes of the server may outlive it.
            self.signal(&lease, "KILL").await;
            lease.release().await;
        }
    }
}

impl ExecProcesses {
    /// Starts the server, and returns its streams.
    async fn start(&mut self) -> Result<(ContainerOutput, ContainerInput), DockerError> {
        let step = "start a session";
        let options =
            StartExecOptions { detach: false, tty: false, output_capacity: Some(PIPE_BYTES) };
        let Exec { engine, id, .. } = &self.exec;
        let starting = ask(step, engine.api().start_exec(id, Some(options)));
        let started = starting.await.inspect_err(|error| {
            if error.is_refusal() {
                // There is nothing to kill.
                self.lease = None;
            }
        });
        match started? {
            StartExecResults::Attached { output, input } => {
                self.is_started = true;
                if let Some(lease) = &mut self.lease {
                    lease.started();
                }
                Ok((output, input))
            }
            StartExecResults::Detached => {
                let cause = ApiError::from(std::io::Error::other("the session is detached"));
                Err(DockerError::Api { step, cause })
            }
        }
    }
}

impl Drop for ExecProcesses {
    fn drop(&mut self) {
        if let Some(lease) = self.lease.take()
            && let Ok(runtime) = Handle::try_current()
        {
            let exec = self.exec.clone();
            let is_started = self.is_started;
            // It ends within the time limits of its requests.
            runtime.spawn(async move {
                if !is_started {
                    // A request that was sent is carried out, although its response is not awaited.
                    exec.wait_for_start().await;
                }
                exec.kill(lease).await;
            });
        }
    }
}

impl ExecSession {
    /// Ends the server and releases the container. Returns the last state, and whether the server
    /// ended before it was sent a signal.
    async fn end(&mut self) -> (Option<ExecInspectResponse>, bool) {
        let ExecProcesses { lease, exec, .. } = &mut self.processes;
        let mut state = exec.ended_in_time().await;
        let before_signal = state.is_some();
        if let Some(lease) = &*lease
            && state.is_none()
        {
            exec.signal(lease, "TERM").await;
            state = exec.ended_in_time().await;
        }
        if let Some(lease) = lease.take() {
            exec.kill(lease).await;
        }
        if state.is_none() {
            state = exec.ended_in_time().await;
        }
        (state, before_signal)
    }
}

impl Owner for ExecSession {
    fn stop(mut self: Box<Self>) -> BoxFuture<'static, ProcessExit> {
        Box::pin(async move {
            let (state, before_signal) = self.end().await;
            let _ = timeout(STDERR_DRAIN_TIMEOUT, &mut self.output).await;
            let code = state.and_then(|state| i32::try_from(state.exit_code?).ok());
            ProcessExit {
                status: code.map(|code| ExitStatus::from_raw((code & 0xff) << 8)),
                before_signal,
                stderr: self.tail.last_lines(),
            }
        })
    }

    fn stderr(&self) -> Arc<StderrTail> {
        self.tail.clone()
    }
}

impl Drop for ExecSession {
    fn drop(&mut self) {
        self.input.abort();
        self.output.abort();
    }
}

#[cfg(test)]
mod tests;
