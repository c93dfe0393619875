//! Sending side of a live connection.

use std::{pin::pin, sync::Arc};

use rmcp::{
    RoleClient,
    model::{
        CancelledNotificationParam, ClientRequest, CustomResult, DiscoverRequest,
        DiscoverRequestParams, Extensions, PingRequest, PingRequestMethod, ProgressToken,
        RequestId, ServerResult,
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
    error::{ConnectionError, cause},
    inbox::Inbox,
    limits::{CANCEL_TIMEOUT, MAX_ABANDONED, PING_RETRY, PING_TIMEOUT},
    outbox,
};
use crate::door::Progress;

/// Sends requests to the server of a connection.
pub(super) struct RequestSender {
    peer: Peer<RoleClient>,
    inbox: Arc<Inbox>,
    abandoned: mpsc::Sender<RequestId>,
    check_request: Notify,
}

/// Queue of abandoned requests, whose cancellations are to be sent.
pub(super) type AbandonedRequests = mpsc::Receiver<RequestId>;

impl RequestSender {
    pub(super) fn new(peer: Peer<RoleClient>, inbox: Arc<Inbox>) -> (Arc<Self>, AbandonedRequests) {
        let (abandoned, receiver) = mpsc::channel(MAX_ABANDONED);
        (Arc::new(Self { peer, inbox, abandoned, check_request: Notify::new() }), receiver)
    }

    pub(super) fn peer(&self) -> &Peer<RoleClient> {
        &self.peer
    }

    /// Returns whether the server speaks a protocol version without `initialize`.
    pub(super) fn is_modern(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| !info.protocol_version.has_initialize())
    }

    /// Sends a request and returns its result as received. Dropping the future cancels the request
    /// at the server.
    ///
    /// A tool's result over stdio or in a plain HTTP body is parsed once, by the inbox. `rmcp`
    /// decodes any other result into the first of twenty shapes that fits, and fails as a whole on
    /// a single unexpected field. The decoded result is converted back to JSON, so that there is a
    /// single reader of results, which repairs as much as possible.
    pub(super) async fn ask(&self, request: ClientRequest) -> Result<Value, ServiceError> {
        self.ask_with_progress(request, |_| {}).await
    }

    /// Does the same as [`Self::ask`], and hands on the progress that the server reports. All of it
    /// is handed on before the result is returned.
    pub(super) async fn ask_with_progress(
        &self,
        request: ClientRequest,
        mut report: impl FnMut(Progress),
    ) -> Result<Value, ServiceError> {
        let handle =
            self.peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let token = handle.progress_token.clone();
        let mut pending = PendingRequest { sender: self, id: Some(handle.id.clone()), token };
        let mut reports = self.inbox.progress(&pending.token);
        let mut response = pin!(handle.await_response());
        let result = loop {
            let reported = async {
                match &mut reports {
                    Some(reports) => reports.recv().await,
                    None => None,
                }
            };
            tokio::select! {
                biased;
                Some(progress) = reported => report(progress),
                result = &mut response => break result,
            }
        };
        pending.id = None;
        match result? {
            ServerResult::CustomResult(CustomResult(value)) => Ok(value),
            other => serde_json::to_value(other).map_err(|_| ServiceError::UnexpectedResponse),
        }
    }

    /// Reports that a message could not be sent, so that the server is checked.
    pub(super) fn request_check(&self) {
        self.check_request.notify_one();
    }

    pub(super) async fn check_requested(&self) {
        self.check_request.notified().await;
    }

    /// Checks that the server responds. An error that comes from the server counts as a response.
    pub(super) async fn check(&self) -> Result<(), ConnectionError> {
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
                    // A full outbox only shows that the server is busy.
                    Err(error) if outbox::is_full(&error) => sleep(PING_RETRY).await,
                    answered => return answered,
                }
            }
        };
        match timeout(PING_TIMEOUT, asking).await {
            Err(_) => Err(ConnectionError::PingTimeout(PING_TIMEOUT)),
            Ok(Ok(_) | Err(ServiceError::McpError(_))) => Ok(()),
            Ok(Err(error)) => Err(ConnectionError::Unreachable(cause(error))),
        }
    }

    /// Sends cancellations for abandoned requests, as long as the connection exists.
    pub(super) async fn cancel_abandoned(&self, mut abandoned: AbandonedRequests) {
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

/// A request whose response is awaited. Dropping it before the response arrives cancels the request
/// at the server.
struct PendingRequest<'a> {
    sender: &'a RequestSender,
    id: Option<RequestId>,
    token: ProgressToken,
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.sender.inbox.forget_progress(&self.token);
        if let Some(id) = self.id.take() {
            // A full queue means that the server does not read cancellations either.
            let _ = self.sender.abandoned.try_send(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all};
    use rmcp::{
        model::ListToolsRequest,
        service::{ClientLifecycleMode, ClientServiceExt as _, RunningService},
    };
    use serde_json::json;
    use tokio::io::{
        AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split,
    };

    use super::*;
    use crate::upstream::{limits::MAX_REQUESTS_IN_FLIGHT, outbox::Outbox, stdio::Stdio};

    /// A legacy server at the other end of a pipe of a few bytes.
    struct Server(BufReader<DuplexStream>);

    impl Server {
        /// Reads a message.
        async fn read(&mut self) -> Value {
            let mut line = String::new();
            self.0.read_line(&mut line).await.expect("a line");
            serde_json::from_str(&line).expect("JSON")
        }

        async fn respond(&mut self, request: &Value, result: Value) {
            let response = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            self.0.write_all(format!("{response}\n").as_bytes()).await.expect("written");
        }

        async fn complete_handshake(&mut self) {
            let initialize = self.read().await;
            let result = json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "server", "version": "1"},
            });
            self.respond(&initialize, result).await;
            self.read().await;
        }

        /// Reads without end, and answers pings alone.
        async fn answer_pings(&mut self) {
            loop {
                let message = self.read().await;
                if message["method"] == "ping" {
                    self.respond(&message, json!({})).await;
                }
            }
        }
    }

    async fn connected() -> (RunningService<RoleClient, ()>, Arc<Inbox>, Server) {
        let (ours, theirs) = duplex(64);
        let (read, write) = split(ours);
        let inbox = Inbox::new(Arc::default());
        let outbox = Outbox::new(Stdio::new(read, write, inbox.clone()), inbox.clone());
        let mut server = Server(BufReader::new(theirs));
        let (service, ()) = tokio::join!(
            ().serve_with_lifecycle(outbox, ClientLifecycleMode::Initialize),
            server.complete_handshake()
        );
        (service.expect("connected"), inbox, server)
    }

    #[tokio::test(start_paused = true)]
    async fn a_ping_that_finds_no_slot_is_retried_until_its_time_limit() {
        let (service, inbox, mut server) = connected().await;
        let (sender, _abandoned) = RequestSender::new(service.peer().clone(), inbox);
        let list = || ClientRequest::ListToolsRequest(ListToolsRequest::default());
        let mut calls: Vec<_> =
            (0..MAX_REQUESTS_IN_FLIGHT).map(|_| Box::pin(sender.ask(list()))).collect();
        assert!(join_all(&mut calls).now_or_never().is_none());
        let full = sender.ask(list()).await.expect_err("the server reads nothing");
        assert!(outbox::is_full(&full), "{full}");
        let checked = sender.check().await;
        assert!(matches!(checked, Err(ConnectionError::PingTimeout(PING_TIMEOUT))), "{checked:?}");

        let reading = async {
            sleep(2 * PING_RETRY).await;
            server.answer_pings().await;
        };
        tokio::select! {
            checked = sender.check() => assert!(checked.is_ok(), "{checked:?}"),
            () = reading => unreachable!("the server reads without end"),
        }
    }
}
