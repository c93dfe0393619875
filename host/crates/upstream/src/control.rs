//! The operator's control of one server: its state, and operations on it.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
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

/// Answer to the operator who requested to reconnect. No other such request is accepted until it is sent
/// or dropped.
#[derive(Debug)]
pub(super) struct ReconnectAnswer {
    sender: oneshot::Sender<Result<(), String>>,
    _turn: OwnedSemaphorePermit,
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
    commands: mpsc::Sender<ControlCommand>,
    server: Arc<Server>,
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
    /// The gateway stops.
    #[error("the gateway stops")]
    Stopping,
}

impl Control {
    /// Creates the control of a server, and the queue of its requests.
    pub(super) fn new(
        server: Arc<Server>,
        started: CancellationToken,
    ) -> (Self, mpsc::Receiver<ControlCommand>) {
        let (commands, queue) = mpsc::channel(QUEUE);
        (Self { commands, server, turn: Arc::new(Semaphore::new(1)), started }, queue)
    }

    /// Waits until the server has listed its tools for the first time, or has failed to, or was stopped.
    /// Its predecessor can be stopped then.
    pub async fn started(&self) {
        self.started.cancelled().await;
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

    /// Closes the connection and opens a new one. This also starts a server that had failed for
    /// good. Fails with the reason if the new connection fails, or if an earlier request is still
    /// being processed. Dropping the future does not cancel the request.
    pub async fn reconnect(&self) -> Result<(), ControlError> {
        let turn = self.turn.clone().try_acquire_owned().map_err(|_| ControlError::InProgress)?;
        self.request(|sender| ControlCommand::Reconnect(ReconnectAnswer { sender, _turn: turn }))
            .await
    }

    /// Reads the list of tools again. Returns the number of tools that are offered. Fails if the
    /// server is not connected.
    pub async fn refresh(&self) -> Result<usize, ControlError> {
        self.request(ControlCommand::Refresh).await
    }

    /// Returns the state of the server with its history, as members of its entry in the
    /// administrative API.
    pub fn status(&self) -> Map<String, Value> {
        self.server.status()
    }

    pub(super) fn server(&self) -> &Arc<Server> {
        &self.server
    }

    /// Returns the last lines that the server's last processes wrote to stderr, oldest first:
    /// redacted, and at most 64 KiB. Empty if the server is no process of this machine.
    pub fn logs(&self) -> Vec<String> {
        self.server.logs().lines()
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<T, String>>) -> ControlCommand,
    ) -> Result<T, ControlError> {
        let (answer, answered) = oneshot::channel();
        self.commands.send(command(answer)).await.map_err(|_| ControlError::Stopping)?;
        match answered.await {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(reason)) => Err(ControlError::Failed(reason)),
            Err(_) => Err(ControlError::Stopping),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Handle;

    use super::*;
    use airlock_core::tool::ClientName;
    use airlock_mcp_client::{Process, Settings};

    fn control() -> (Control, mpsc::Receiver<ControlCommand>) {
        let name = ClientName::parse("up").expect("a good name");
        let settings = Settings::new(name, Process::default());
        Control::new(
            Server::new(&settings, Handle::current(), None, None),
            CancellationToken::new(),
        )
    }

    #[tokio::test]
    async fn a_second_order_to_reconnect_is_refused_until_the_first_one_is_answered() {
        let (control, mut queue) = control();
        let first = tokio::spawn({
            let control = control.clone();
            async move { control.reconnect().await }
        });
        let Some(ControlCommand::Reconnect(answer)) = queue.recv().await else {
            panic!("no request")
        };
        assert_eq!(control.reconnect().await, Err(ControlError::InProgress));
        // An operator who leaves does not cancel the request.
        first.abort();
        assert!(first.await.is_err());
        assert_eq!(control.reconnect().await, Err(ControlError::InProgress));
        assert!(answer.send(Ok(())).is_err(), "the operator has left");
        let (second, ()) = tokio::join!(control.reconnect(), async {
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
        assert_eq!(control.reconnect().await, Err(ControlError::Stopping));
    }
}
