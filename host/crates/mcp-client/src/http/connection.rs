//! One connection to a server over HTTP, whichever of the two transports the server speaks.

use std::sync::Arc;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::{Drains, Endpoint};
use crate::{
    inbox::Inbox,
    limits::{MAX_HTTP_CONTROL, MAX_REQUESTS_IN_FLIGHT},
    transport::{OutgoingKind, ReceiveError, SendError},
};
use airlock_core::tool::Cause;
use airlock_mcp_oauth::{Authority, ExtraHeaders, ServerClient};

/// State that a connection over HTTP has, besides that of its transport.
pub(crate) struct HttpConnection {
    pub(crate) endpoint: Endpoint,
    pub(crate) inbox: Arc<Inbox>,
    pub(crate) drains: Drains,
    /// Cancelled when the server has forgotten the session.
    expired: CancellationToken,
    /// Cancelled when the gateway ends the connection.
    closed: CancellationToken,
    requests: Semaphore,
    control: Semaphore,
}

impl HttpConnection {
    /// Creates a connection over this client. Nothing is sent yet.
    pub(crate) fn new(
        client: ServerClient,
        extra: ExtraHeaders,
        inbox: Arc<Inbox>,
        authority: Option<Arc<Authority>>,
    ) -> Self {
        let closed = CancellationToken::new();
        Self {
            endpoint: Endpoint::new(client, extra, authority),
            drains: Drains::new(inbox.clone(), closed.clone()),
            inbox,
            expired: CancellationToken::new(),
            closed,
            requests: Semaphore::new(MAX_REQUESTS_IN_FLIGHT),
            control: Semaphore::new(MAX_HTTP_CONTROL),
        }
    }

    /// Waits for the permit of a message.
    pub(crate) async fn permit(
        &self,
        kind: &OutgoingKind,
    ) -> Result<SemaphorePermit<'_>, SendError> {
        let permits = match kind {
            OutgoingKind::Request(_) => &self.requests,
            _ => &self.control,
        };
        // The semaphores are never closed.
        permits.acquire().await.map_err(|_| SendError::Closed)
    }

    /// Sends with `sending`, until the connection is closed.
    pub(crate) async fn send(
        &self,
        sending: impl Future<Output = Result<(), SendError>>,
    ) -> Result<(), SendError> {
        self.closed.run_until_cancelled(sending).await.unwrap_or(Err(SendError::Closed))
    }

    /// Receives with `receiving` until the connection ends, and returns the reason: a flood, its end on
    /// the gateway's side, a forgotten session, or the end of `receiving`, the first of these if
    /// several have happened.
    pub(crate) async fn receive(
        &self,
        receiving: impl Future<Output = ReceiveError>,
    ) -> ReceiveError {
        tokio::select! {
            biased;
            flood = self.inbox.flooded() => ReceiveError::Flood(flood),
            () = self.closed.cancelled() => ReceiveError::Closed,
            () = self.expired.cancelled() => {
                ReceiveError::Lost(Cause::from(SendError::SessionExpired))
            }
            ended = receiving => ended,
        }
    }

    /// Records that the server has forgotten the session, which ends the connection.
    pub(crate) fn expire(&self) -> SendError {
        self.expired.cancel();
        SendError::SessionExpired
    }

    /// Returns whether the server has forgotten the session.
    pub(crate) fn is_expired(&self) -> bool {
        self.expired.is_cancelled()
    }

    /// Ends everything that runs for the connection.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }
}
