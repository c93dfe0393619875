//! Connects an instance, and connects it again after each failure.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    super::{control::ControlCommand, relay, server::ServerAccess, status::ServerPhase},
    Supervisor,
    serve::held_out_for_long,
};
use crate::limits::FLOOD_COOL_DOWN;
use airlock_mcp_client::{
    Attempt, Backoff, Connection, ConnectionError, ConnectionFailure, Handshake, LAST_RETRY,
    OpenError,
};

/// Reason that a connection was closed.
pub(super) enum ConnectionEnd {
    /// The gateway stops.
    Stopped,
    /// No call needs the server.
    Idle,
    /// The operator requested it.
    Reconnect,
    /// It failed.
    Failed(ConnectionFailure),
}

/// Decision after a pause.
enum Next {
    Connect,
    Stop,
}

impl Supervisor {
    /// Refuses every request of the operator, without end.
    pub(super) async fn refuse_requests(&mut self, reason: &str) {
        while let Some(command) = self.commands.recv().await {
            command.refuse(reason);
        }
        std::future::pending::<()>().await;
    }

    /// Connects, and reconnects after each failure. Returns if `stop` is cancelled or if the
    /// settings can never work.
    pub(super) async fn keep_connected(&mut self, stop: &CancellationToken) {
        let mut backoff = Backoff::new(self.settings.restart, 0);
        let mut handshake = Handshake::first(self.settings.protocol, self.settings.questions);
        let mut reason = "first start".to_owned();
        loop {
            self.instance.status().enter(ServerPhase::Starting, &reason);
            let began = Instant::now();
            let next = match Box::pin(self.connect_and_serve(&mut handshake, stop)).await {
                ConnectionEnd::Stopped => return,
                ConnectionEnd::Idle => {
                    "a call needs it".clone_into(&mut reason);
                    self.sleep_until_demanded(stop).await
                }
                ConnectionEnd::Reconnect => {
                    "the operator reconnected it".clone_into(&mut reason);
                    backoff.reset();
                    Next::Connect
                }
                ConnectionEnd::Failed(failure) => {
                    let delay = backoff.after(began.elapsed());
                    reason = format!("attempt {} after a failure", backoff.failures() + 1);
                    self.instance.status().set_attempts(backoff.failures());
                    let is_final = failure.error.is_invalid() || backoff.is_exhausted();
                    let delay = match &failure.error {
                        _ if is_final => None,
                        ConnectionError::Open(OpenError::Missing(_))
                        | ConnectionError::LoginNeeded(_) => Some(LAST_RETRY),
                        ConnectionError::Flood(_) => Some(delay.max(FLOOD_COOL_DOWN)),
                        _ => Some(delay),
                    };
                    let is_failed = delay.is_none() || failure.error.is_permanent();
                    let phase =
                        if is_failed { ServerPhase::Failed } else { ServerPhase::Restarting };
                    self.report(&failure, phase).await;
                    let waits = matches!(failure.error, ConnectionError::LoginNeeded(_));
                    self.pause(delay, waits, &mut backoff, stop).await
                }
            };
            if matches!(next, Next::Stop) {
                return;
            }
        }
    }

    /// Waits for `delay`, or without end if there is none. A request of the operator to reconnect ends
    /// the pause and resets the attempts, and so does a login if the server `waits_for_login`.
    async fn pause(
        &mut self,
        delay: Option<Duration>,
        waits_for_login: bool,
        backoff: &mut Backoff,
        stop: &CancellationToken,
    ) -> Next {
        let mut waiting = std::pin::pin!(async {
            match delay {
                Some(delay) => sleep(delay).await,
                None => std::future::pending().await,
            }
        });
        let credentials = self.credentials.clone();
        let mut login = std::pin::pin!(credentials.login_changed());
        loop {
            tokio::select! {
                () = stop.cancelled() => return Next::Stop,
                () = &mut waiting => return Next::Connect,
                () = &mut login, if waits_for_login => {
                    backoff.reset();
                    return Next::Connect;
                }
                Some(command) = self.commands.recv() => match command {
                    ControlCommand::Reconnect(answer) => {
                        self.reconnecting = Some(answer);
                        backoff.reset();
                        return Next::Connect;
                    }
                    ControlCommand::Refresh(answer) => drop(answer.send(Err("it is not connected".into()))),
                },
            }
        }
    }

    /// Waits until a call or the operator needs the server.
    async fn sleep_until_demanded(&mut self, stop: &CancellationToken) -> Next {
        self.instance.status().enter(ServerPhase::Stopped, "no call needs it");
        self.instance.set_access(ServerAccess::OnDemand);
        let instance = self.instance.clone();
        let pins = self.pins.clone();
        tokio::select! {
            () = stop.cancelled() => Next::Stop,
            () = instance.demanded() => Next::Connect,
            () = held_out_for_long(&instance, &pins) => Next::Connect,
            Some(command) = self.commands.recv() => {
                match command {
                    ControlCommand::Reconnect(answer) => self.reconnecting = Some(answer),
                    // The list is read after every start.
                    ControlCommand::Refresh(answer) => drop(answer.send(Ok(self.published))),
                }
                Next::Connect
            }
        }
    }

    /// Connects and serves the connection until it ends.
    async fn connect_and_serve(
        &mut self,
        handshake: &mut Handshake,
        stop: &CancellationToken,
    ) -> ConnectionEnd {
        let server = self.server.clone();
        let opening = Box::pin(Connection::open(
            &self.settings,
            &self.credentials,
            self.instance.logs(),
            Attempt { handshake: *handshake, has_headers: self.framing.has_headers() },
        ));
        let Some(opened) = stop.run_until_cancelled(opening).await else {
            return ConnectionEnd::Stopped;
        };
        let connection = match opened {
            Ok(connection) => connection,
            Err(failure) => {
                let is_late = matches!(failure.error, ConnectionError::StartupTimeout(_));
                self.framing.record_failed(failure.is_silent && is_late);
                if failure.error.suggests_other_handshake() {
                    *handshake = handshake.other();
                }
                return ConnectionEnd::Failed(failure);
            }
        };
        self.framing.record_connected();
        *handshake = handshake.after_connection(connection.link.is_modern());
        if let Some(users) = server.users() {
            users.agree(*handshake);
        }
        if let Some(agreed) = connection.link.agreed() {
            self.instance.status().agree(agreed);
        }
        let listing = timeout_at(connection.deadline, connection.list());
        let listing = async {
            listing.await.unwrap_or_else(|_| {
                Err(ConnectionError::StartupTimeout(self.settings.timeouts.startup))
            })
        };
        let Some(listed) = stop.run_until_cancelled(listing).await else {
            connection.shut_down().await;
            return ConnectionEnd::Stopped;
        };
        match listed {
            Ok(list) => {
                if self.entry.is_sole() {
                    let Self { entry, settings, server, .. } = &*self;
                    entry.take();
                    let writer = entry.writer();
                    let publishing =
                        relay::publish_lists(writer, settings, server, &connection.link);
                    if stop.run_until_cancelled(publishing).await.is_none() {
                        connection.shut_down().await;
                        return ConnectionEnd::Stopped;
                    }
                }
                let recheck = self.adopt(list, &connection.link).await;
                if let Some(answer) = self.reconnecting.take() {
                    // The operator may have left.
                    let _ = answer.send(Ok(()));
                }
                Box::pin(self.serve(connection, *handshake, recheck, stop)).await
            }
            Err(error) => ConnectionEnd::Failed(connection.close(error).await),
        }
    }
}
