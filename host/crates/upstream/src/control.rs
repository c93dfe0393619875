//! The operator's control of one server: its state, and operations on it.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use serde_json::{Map, Value};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

use super::server::Server;
use airlock_core::door::Provider as _;

/// Orders that wait for the supervisor. A further one waits with its sender.
const QUEUE: usize = 4;

/// Order of the operator to the supervisor of one server.
#[derive(Debug)]
pub(super) enum ControlCommand {
    /// Closes the connection and opens a new one, whatever the state. Answered once the new one is
    /// ready or has failed, with the reason.
    Reconnect(ReconnectAnswer),
    /// Reads the list of tools again. Answered with the number of its tools, or with the reason that
    /// it was not read.
    Refresh(oneshot::Sender<Result<usize, String>>),
}

impl ControlCommand {
    /// Answers that the request was not completed.
    pub(super) fn refuse(self, reason: &str) {
        // The operator may have left.
        match self {
            Self::Reconnect(answer) => drop(answer.send(Err(reason.to_owned()))),
            Self::Refresh(answer) => drop(answer.send(Err(reason.to_owned()))),
        }
    }
}

/// Permit for the one request to reconnect, which may be about several instances.
type ReconnectPermit = Arc<OwnedSemaphorePermit>;

/// Answer to the operator who requested to reconnect. No other such request is accepted until it is sent
/// or dropped.
#[derive(Debug)]
pub(super) struct ReconnectAnswer {
    sender: oneshot::Sender<Result<(), String>>,
    _turn: ReconnectPermit,
}

impl ReconnectAnswer {
    /// Sends the answer. Returns it if the operator has left.
    pub(super) fn send(self, result: Result<(), String>) -> Result<(), Result<(), String>> {
        self.sender.send(result)
    }
}

/// The operator's control of one server. Cheap to clone.
#[derive(Clone)]
pub struct Control {
    /// Queues of the supervisors of the instances, by their numbers.
    commands: Arc<[mpsc::Sender<ControlCommand>]>,
    server: Arc<Server>,
    runtime: Handle,
    /// Permit for the one request to reconnect.
    turn: Arc<Semaphore>,
    /// Cancelled once the entry in the catalog is this server's.
    started: CancellationToken,
}

/// Reason that an operation was not completed, for the operator.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// An earlier request to reconnect is still being processed.
    #[error("reconnect already in progress for this client")]
    InProgress,
    /// The server failed, with the reason.
    #[error("{0}")]
    Failed(String),
    /// The server has fewer instances.
    #[error("the client has no instance {instance}: they are numbered from 1 to {count}")]
    NoInstance {
        /// The number that was asked for.
        instance: usize,
        /// Number of its instances.
        count: usize,
    },
    /// The gateway stops.
    #[error("the gateway stops")]
    Stopping,
}

impl Control {
    /// Creates the control of a server, and the queues of the requests for its instances. What takes longer
    /// than a request runs on `runtime`.
    pub(super) fn new(
        server: Arc<Server>,
        started: CancellationToken,
        runtime: Handle,
    ) -> (Self, Vec<mpsc::Receiver<ControlCommand>>) {
        let queues = server.instances().iter().map(|_| mpsc::channel(QUEUE));
        let (commands, queues): (Vec<_>, Vec<_>) = queues.unzip();
        let turn = Arc::new(Semaphore::new(1));
        (Self { commands: commands.into(), server, runtime, turn, started }, queues)
    }

    /// Waits until the server has listed its tools for the first time, or has failed to, or was stopped.
    /// Its predecessor can be stopped then.
    pub async fn started(&self) {
        self.started.cancelled().await;
    }

    /// Waits until all instances have listed their tools for the first time, or have failed to, or were
    /// stopped.
    pub async fn settled(&self) {
        for instance in self.server.instances() {
            instance.settled().cancelled().await;
        }
    }

    /// Returns whether [`Self::started`] would not wait.
    pub fn has_started(&self) -> bool {
        self.started.is_cancelled()
    }

    /// Waits until no call runs or waits, for at most `limit`, and has later ones fail. For a server that
    /// gets no new calls and is stopped next.
    pub async fn drain(&self, limit: Duration) {
        self.server.drain(limit).await;
    }

    /// Has the server follow a changed policy: the lists of resources and prompts are read again if they
    /// are wanted now, or left out.
    pub fn policy_changed(&self) {
        self.server.relaying().lists_changed.notify_one();
    }

    /// Returns whether the server is not connected because the operator has to log in.
    pub fn needs_login(&self) -> bool {
        self.server.instances().iter().any(|instance| instance.status().needs_login())
    }

    /// Closes the connection of one instance, or those of all, and opens new ones. This also starts
    /// instances that had failed for good. Of several, those that serve are reconnected one after the
    /// other, so that the others go on. Returns the reasons, with the numbers of the instances, for which some
    /// of several are not connected. Fails if none is, or if an earlier request is still being processed.
    /// Dropping the future does not cancel the request.
    pub async fn reconnect(&self, instance: Option<usize>) -> Result<Vec<String>, ControlError> {
        let numbers = self.numbers(instance)?;
        let turn = self.turn.clone().try_acquire_owned().map_err(|_| ControlError::InProgress)?;
        let turn = Arc::new(turn);
        if let [only] = numbers[..] {
            return self.reconnect_one(only, turn).await.map(|()| Vec::new());
        }
        let control = self.clone();
        let all = self.runtime.spawn(async move { control.reconnect_all(numbers, &turn).await });
        all.await.unwrap_or(Err(ControlError::Stopping))
    }

    async fn reconnect_all(
        &self,
        numbers: Vec<usize>,
        turn: &ReconnectPermit,
    ) -> Result<Vec<String>, ControlError> {
        let count = numbers.len();
        let (serving, away): (Vec<_>, Vec<_>) = numbers
            .into_iter()
            .partition(|number| self.server.instances()[number - 1].has_connection());
        let mut failures = Vec::new();
        let first = away.into_iter().map(|number| self.numbered_reconnect(number, turn.clone()));
        failures.extend(join_all(first).await.into_iter().flatten());
        for number in serving {
            failures.extend(self.numbered_reconnect(number, turn.clone()).await);
        }
        if failures.len() < count {
            Ok(failures)
        } else {
            Err(ControlError::Failed(failures.join("; ")))
        }
    }

    /// Reconnects one of several instances. Returns the reason with its number if that fails.
    async fn numbered_reconnect(&self, number: usize, turn: ReconnectPermit) -> Option<String> {
        let error = self.reconnect_one(number, turn).await.err()?;
        Some(format!("instance {number}: {error}"))
    }

    async fn reconnect_one(
        &self,
        number: usize,
        turn: ReconnectPermit,
    ) -> Result<(), ControlError> {
        let commands = &self.commands[number - 1];
        request(commands, |sender| {
            ControlCommand::Reconnect(ReconnectAnswer { sender, _turn: turn })
        })
        .await
    }

    /// Reads the lists of tools of all instances again. Returns the number of tools that can be called at
    /// one of them. Fails if none is connected.
    pub async fn refresh(&self) -> Result<usize, ControlError> {
        let all = self.commands.iter().map(|commands| request(commands, ControlCommand::Refresh));
        let mut refreshed = Err(ControlError::Stopping);
        for result in join_all(all).await {
            refreshed = match (refreshed, result) {
                (Ok(before), Ok(tools)) => Ok(tools.max(before)),
                (Ok(tools), Err(_)) | (Err(_), Ok(tools)) => Ok(tools),
                (Err(_), Err(error)) => Err(error),
            };
        }
        refreshed
    }

    /// Returns the numbers of the instances that a request is about.
    fn numbers(&self, instance: Option<usize>) -> Result<Vec<usize>, ControlError> {
        let count = self.commands.len();
        match instance {
            None => Ok((1..=count).collect()),
            Some(number) if (1..=count).contains(&number) => Ok(vec![number]),
            Some(instance) => Err(ControlError::NoInstance { instance, count }),
        }
    }

    /// Returns the state of the server with its history, as members of its entry in the
    /// administrative API.
    pub fn status(&self) -> Map<String, Value> {
        self.server.status()
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the last lines that the last processes of one instance, or of all, wrote to stderr, oldest
    /// first: redacted, and at most 64 KiB of each instance. Lines of several have their numbers before
    /// them. Empty if the server is no process of this machine. Fails if there is no such instance.
    pub fn logs(&self, instance: Option<usize>) -> Result<Vec<String>, ControlError> {
        let instances = self.server.instances();
        let numbers = self.numbers(instance)?;
        if let [only] = numbers[..] {
            return Ok(instances[only - 1].logs().lines());
        }
        let all = instances.iter().flat_map(|instance| {
            let lines = instance.logs().lines().into_iter();
            lines.map(|line| format!("[{}] {line}", instance.number()))
        });
        Ok(all.collect())
    }
}

async fn request<T>(
    commands: &mpsc::Sender<ControlCommand>,
    command: impl FnOnce(oneshot::Sender<Result<T, String>>) -> ControlCommand,
) -> Result<T, ControlError> {
    let (answer, answered) = oneshot::channel();
    commands.send(command(answer)).await.map_err(|_| ControlError::Stopping)?;
    match answered.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(reason)) => Err(ControlError::Failed(reason)),
        Err(_) => Err(ControlError::Stopping),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::{Process, Settings};

    fn control() -> (Control, mpsc::Receiver<ControlCommand>) {
        let name = ClientName::parse("up").expect("a good name");
        let settings = Settings::new(name, Process::default());
        let server = Server::new(&settings, Handle::current(), None, None);
        let (control, mut queues) =
            Control::new(server, CancellationToken::new(), Handle::current());
        (control, queues.remove(0))
    }

    #[tokio::test]
    async fn a_second_order_to_reconnect_is_refused_until_the_first_one_is_answered() {
        let (control, mut queue) = control();
        let first = tokio::spawn({
            let control = control.clone();
            async move { control.reconnect(None).await }
        });
        let Some(ControlCommand::Reconnect(answer)) = queue.recv().await else {
            panic!("no request")
        };
        assert_eq!(control.reconnect(None).await, Err(ControlError::InProgress));
        // An operator who leaves does not cancel the request.
        first.abort();
        assert!(first.await.is_err());
        assert_eq!(control.reconnect(None).await, Err(ControlError::InProgress));
        assert!(answer.send(Ok(())).is_err(), "the operator has left");
        let (second, ()) = tokio::join!(control.reconnect(None), async {
            let request = queue.recv().await.expect("a request");
            request.refuse("it is broken");
        });
        assert_eq!(second, Err(ControlError::Failed("it is broken".to_owned())));
    }

    #[tokio::test]
    async fn an_order_fails_if_the_supervisor_has_ended() {
        let (control, queue) = control();
        drop(queue);
        assert_eq!(control.refresh().await, Err(ControlError::Stopping));
        assert_eq!(control.reconnect(None).await, Err(ControlError::Stopping));
    }
}
