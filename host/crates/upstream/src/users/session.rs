//! One connection of one user at one server, from its opening to its end.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::pool::{Opened, Slot};
use airlock_mcp_client::{
    Attempt, Connection, ConnectionError, Credentials, Intake, Link, ServerEvent, Settings,
    StderrLogs, UserGrant, answer_requests, check_connection,
};
use airlock_mcp_oauth::Logins;

/// A connection that is to be opened for one user.
pub(super) struct UserSession {
    pub(super) settings: Settings,
    pub(super) logins: Logins,
    /// Credentials of the user.
    pub(super) grant: UserGrant,
    pub(super) attempt: Attempt,
    pub(super) slot: Slot,
}

impl UserSession {
    /// Opens the connection, sends the result, and serves the connection until it ends or is not needed
    /// any more.
    pub(super) async fn run(self, sender: oneshot::Sender<Opened>) {
        let stop = self.slot.stop.clone();
        let opened = stop.run_until_cancelled(Box::pin(self.open())).await;
        let opened = opened.unwrap_or(Err(ConnectionError::Closed));
        let Self { slot, .. } = self;
        match opened {
            Ok(connection) => {
                let _ = sender.send(Ok(connection.link.clone()));
                Box::pin(serve(connection, &slot)).await;
            }
            Err(error) => {
                // First, so that a call which sees the error can try again.
                slot.vacate();
                // All calls may have left.
                let _ = sender.send(Err(Arc::new(error)));
            }
        }
    }

    async fn open(&self) -> Result<Connection, ConnectionError> {
        let Self { settings, logins, grant, attempt, .. } = self;
        let credentials = Credentials::of_user(settings, logins, grant.clone())?;
        let logs = StderrLogs::default();
        let opening = Connection::open(settings, &credentials, &logs, *attempt);
        opening.await.map_err(|failure| failure.error)
    }
}

async fn serve(mut connection: Connection, slot: &Slot) {
    let link = connection.link.clone();
    if let Some(Intake { unsolicited, abandoned }) = connection.intake.take() {
        let inbox = link.inbox().clone();
        tokio::select! {
            () = slot.unneeded() => {}
            _ = &mut connection.receiver => {}
            _ = inbox.flooded() => {}
            () = link.cancel_abandoned(abandoned) => {}
            () = answer_requests(&link, unsolicited.requests, unsolicited.responses) => {}
            () = ignore(unsolicited.events) => {}
            () = unresponsive(&link) => {}
        }
    }
    slot.vacate();
    connection.shut_down().await;
}

/// Drops what the server reports about its lists: those of the operator's connection count.
async fn ignore(mut events: mpsc::Receiver<ServerEvent>) {
    while events.recv().await.is_some() {}
    std::future::pending::<()>().await;
}

/// Waits until the server does not respond to a check, which a call that failed requests.
async fn unresponsive(link: &Link) {
    loop {
        link.check_requested().await;
        if check_connection(link).await.is_err() {
            return;
        }
    }
}
