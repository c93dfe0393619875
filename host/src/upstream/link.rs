//! What a live connection is to those who send over it.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{
        CancelledNotificationParam, ClientRequest, CustomResult, DiscoverRequest,
        DiscoverRequestParams, Extensions, PingRequest, PingRequestMethod, RequestId, ServerResult,
    },
    service::{Peer, PeerRequestOptions, ServiceError},
};
use serde_json::Value;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    limits::{CANCEL_TIMEOUT, FULL_RETRY, MAX_ABANDONED, PING_TIMEOUT},
    outbox,
    trouble::{Trouble, cause},
};

/// The sending side of a connection.
pub(super) struct Link {
    peer: Peer<RoleClient>,
    abandoned: mpsc::Sender<RequestId>,
    doubt: Notify,
}

/// The requests that nobody waits for any more.
pub(super) type Abandoned = mpsc::Receiver<RequestId>;

impl Link {
    pub(super) fn new(peer: Peer<RoleClient>) -> (Arc<Self>, Abandoned) {
        let (abandoned, receiver) = mpsc::channel(MAX_ABANDONED);
        (Arc::new(Self { peer, abandoned, doubt: Notify::new() }), receiver)
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Whether the server speaks a version without `initialize`.
    pub(super) fn is_modern(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Sends a request and waits for its result as it came. Dropping the future tells the server to
    /// stop.
    ///
    /// A tool's result over stdio or in a plain HTTP body is read once, by the inbox. Any other
    /// `rmcp` decodes into the first of twenty shapes that fits, and it gives up whole on one odd
    /// field; what it decoded is made JSON again, because there is one way to read a result, and it
    /// forgives what it can.
    pub(super) async fn ask(&self, request: ClientRequest) -> Result<Value, ServiceError> {
        let handle =
            self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let mut pending = Pending { link: self, id: Some(handle.id.clone()) };
        let result = handle.await_response().await;
        pending.id = None;
        match result? {
            ServerResult::CustomResult(CustomResult(value)) => Ok(value),
            other => serde_json::to_value(other).map_err(|_| ServiceError::UnexpectedResponse),
        }
    }

    /// Says that a message could not be sent, so that someone looks whether the server is still
    /// there.
    pub(super) fn raise_doubt(&self) {
        self.doubt.notify_one();
    }

    pub(super) async fn doubted(&self) {
        self.doubt.notified().await;
    }

    /// Looks whether the server is there. An error is a sign of life too, if it comes from the
    /// server.
    pub(super) async fn check(&self) -> Result<(), Trouble> {
        let request = if self.is_modern() {
            ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {}))
        } else {
            ClientRequest::PingRequest(PingRequest {
                method: PingRequestMethod,
                extensions: Extensions::default(),
            })
        };
        let asking = async {
            loop {
                match self.ask(request.clone()).await {
                    // It says nothing of the server but that it has much to do.
                    Err(error) if outbox::is_full(&error) => sleep(FULL_RETRY).await,
                    answered => return answered,
                }
            }
        };
        match timeout(PING_TIMEOUT, asking).await {
            Err(_) => Err(Trouble::Silent(PING_TIMEOUT)),
            Ok(Ok(_) | Err(ServiceError::McpError(_))) => Ok(()),
            Ok(Err(error)) => Err(Trouble::Unreachable(cause(error))),
        }
    }

    /// Tells the server of requests that nobody waits for any more, for as long as there is a
    /// connection.
    pub(super) async fn cancel_abandoned(&self, mut abandoned: Abandoned) {
        let mut sending = JoinSet::new();
        loop {
            tokio::select! {
                Some(id) = abandoned.recv() => {
                    let peer = self.peer.clone();
                    let cancelled = CancelledNotificationParam::new(Some(id), Some("nobody waits for the answer".into()));
                    sending.spawn(async move { timeout(CANCEL_TIMEOUT, peer.notify_cancelled(cancelled)).await });
                }
                Some(_) = sending.join_next() => {}
                else => return,
            }
        }
    }
}

/// A request whose answer is awaited. If it is dropped first, the server is told.
struct Pending<'a> {
    link: &'a Link,
    id: Option<RequestId>,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // A full queue means that the server does not take cancellations either.
            let _ = self.link.abandoned.try_send(id);
        }
    }
}
