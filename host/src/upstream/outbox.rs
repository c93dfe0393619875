//! Sends messages to a server: a limited number at a time, each announced to the inbox.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    model::{JsonRpcMessage, RequestId},
    service::{RxJsonRpcMessage, ServiceError, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::{
    http,
    inbox::Inbox,
    limits::{MAX_CONTROL_IN_FLIGHT, MAX_REQUESTS_IN_FLIGHT},
};

/// Limits the messages in flight to a server. `rmcp` holds every message until it is written,
/// without a limit. A server that reads nothing, or that sends requests and never reads the
/// responses, would fill the gateway's memory; here its messages fail instead. Notifications and
/// responses have slots of their own: abandoned calls can take all slots for requests, and their
/// cancellations must still be sent.
pub(super) struct Outbox<T> {
    inner: T,
    requests: Arc<Semaphore>,
    control: Arc<Semaphore>,
    inbox: Arc<Inbox>,
    closed: CancellationToken,
}

/// Reason that a message was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError<E: std::error::Error + 'static> {
    /// Too many messages are in flight.
    #[error("the server does not read what it is sent")]
    Full,
    /// The connection was closed while the message was in flight.
    #[error("the connection is closed")]
    Closed,
    /// The transport failed.
    #[error(transparent)]
    Transport(E),
}

/// Returns whether a request was not sent because too many are in flight, over any transport.
pub(super) fn is_full(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    is_full_of::<std::io::Error>(&*error.error) || http::is_full(&*error.error)
}

/// Returns the same as [`is_full`], for a transport with errors of type `E`.
pub(super) fn is_full_of<E: std::error::Error + 'static>(
    error: &(dyn std::error::Error + 'static),
) -> bool {
    matches!(error.downcast_ref::<SendError<E>>(), Some(SendError::Full))
}

impl<T> Outbox<T> {
    pub(super) fn new(inner: T, inbox: Arc<Inbox>) -> Self {
        let (requests, control) =
            (Semaphore::new(MAX_REQUESTS_IN_FLIGHT), Semaphore::new(MAX_CONTROL_IN_FLIGHT));
        Self {
            inner,
            requests: Arc::new(requests),
            control: Arc::new(control),
            inbox,
            closed: CancellationToken::new(),
        }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Outbox<T> {
    type Error = SendError<T::Error>;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (request, answered) = (request_id(&message), answered_id(&message));
        let slots = if request.is_some() { &self.requests } else { &self.control };
        let slot = slots.clone().try_acquire_owned().ok();
        if slot.is_some() || request.is_none() {
            // A cancellation that is not sent still ends the wait for the response.
            self.inbox.record_sent(&message);
        }
        let sending = slot.map(|slot| (slot, self.inner.send(message)));
        let (inbox, closed) = (self.inbox.clone(), self.closed.clone());
        async move {
            let Some((_slot, sending)) = sending else {
                if let Some(id) = answered {
                    inbox.record_answered(&id);
                }
                return Err(SendError::Full);
            };
            // A server that does not read would hold the message, and with it the pipe, for as long
            // as the server lives.
            let sent = tokio::select! {
                biased;
                sent = sending => sent.map_err(SendError::Transport),
                () = closed.cancelled() => Err(SendError::Closed),
                _ = inbox.flooded() => Err(SendError::Closed),
            };
            // A response that could not be sent no longer counts as pending.
            if let Some(id) = answered {
                inbox.record_answered(&id);
            }
            if let (Err(_), Some(id)) = (&sent, request) {
                inbox.forget_request(&id);
            }
            sent
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        self.inner.close().await.map_err(SendError::Transport)
    }
}

/// Returns the identifier of a request; `None` for any other message.
fn request_id(message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Returns the identifier of the server's request that a message answers; `None` if it answers
/// none.
fn answered_id(message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{
        FutureExt,
        future::{BoxFuture, join_all},
    };
    use rmcp::{
        model::{
            CallToolRequest, CallToolRequestParams, CancelledNotification,
            CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification, ClientRequest,
            ClientResult,
        },
        transport::async_rw::AsyncRwTransport,
    };
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};

    use super::*;
    use crate::upstream::{flood::Flood, limits::MAX_UNANSWERED};

    type Pipe = AsyncRwTransport<RoleClient, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

    /// Returns an outbox over a pipe of `bytes`, and the end of the pipe that the server reads.
    fn outbox(bytes: usize, inbox: &Arc<Inbox>) -> (Outbox<Pipe>, DuplexStream) {
        let (ours, theirs) = duplex(bytes);
        let (read, write) = split(ours);
        (Outbox::new(AsyncRwTransport::new(read, write), inbox.clone()), theirs)
    }

    /// Starts to send messages, each with its number.
    fn send_all(
        outbox: &mut Outbox<Pipe>,
        count: usize,
        message: fn(usize) -> ClientJsonRpcMessage,
    ) -> Vec<BoxFuture<'static, Result<(), SendError<std::io::Error>>>> {
        let mut sending = Vec::new();
        for number in 0..count {
            sending.push(outbox.send(message(number)).boxed());
        }
        sending
    }

    fn id(number: usize) -> RequestId {
        RequestId::Number(i64::try_from(number).expect("a small number"))
    }

    fn request(number: usize) -> ClientJsonRpcMessage {
        let call = CallToolRequest::new(CallToolRequestParams::new("t"));
        ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(call), id(number))
    }

    fn cancellation(number: usize) -> ClientJsonRpcMessage {
        let cancelled =
            CancelledNotification::new(CancelledNotificationParam::new(Some(id(number)), None));
        ClientJsonRpcMessage::notification(ClientNotification::CancelledNotification(cancelled))
    }

    fn response(number: usize) -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::response(ClientResult::empty(()), id(number))
    }

    /// Returns whether a response of the server to the request `number` is accepted.
    fn is_awaited(inbox: &Inbox, number: usize) -> bool {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"result":{{}}}}"#);
        inbox.receive(text.as_bytes()).is_some()
    }

    /// Returns whether a ping of the server is new and not one that is pending already.
    fn is_new(inbox: &Inbox, number: usize) -> bool {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#);
        inbox.receive(text.as_bytes()).is_some()
    }

    #[tokio::test]
    async fn requests_and_control_messages_have_slots_of_their_own() {
        let inbox = Inbox::new(Arc::default());
        let (mut outbox, _server) = outbox(1, &inbox);
        let mut requests = send_all(&mut outbox, MAX_REQUESTS_IN_FLIGHT, request);
        assert!(join_all(&mut requests).now_or_never().is_none());
        assert!(matches!(outbox.send(request(0)).await, Err(SendError::Full)));
        let mut control = send_all(&mut outbox, MAX_CONTROL_IN_FLIGHT, cancellation);
        assert!(join_all(&mut control).now_or_never().is_none());
        assert!(matches!(outbox.send(cancellation(0)).await, Err(SendError::Full)));
        assert!(matches!(outbox.send(response(0)).await, Err(SendError::Full)));
        requests.pop();
        requests.push(outbox.send(request(0)).boxed());
        assert!(join_all(&mut requests).now_or_never().is_none());
        // Closing waits for the pipe, which is free once the messages have failed.
        let (closed, requests, control) =
            tokio::join!(outbox.close(), join_all(requests), join_all(control));
        assert!(closed.is_ok());
        let mut sent = requests.iter().chain(&control);
        assert!(sent.all(|sent| matches!(sent, Err(SendError::Closed))));
    }

    #[tokio::test]
    async fn a_request_that_was_not_sent_or_was_cancelled_awaits_no_response() {
        let inbox = Inbox::new(Arc::default());
        let (mut outbox, _server) = outbox(1, &inbox);
        let requests = send_all(&mut outbox, MAX_REQUESTS_IN_FLIGHT, request);
        assert!(matches!(outbox.send(request(MAX_REQUESTS_IN_FLIGHT)).await, Err(SendError::Full)));
        assert!(!is_awaited(&inbox, MAX_REQUESTS_IN_FLIGHT), "there was no slot");
        let control = send_all(&mut outbox, MAX_CONTROL_IN_FLIGHT, |_| cancellation(0));
        assert!(!is_awaited(&inbox, 0), "it was cancelled");
        assert!(matches!(outbox.send(cancellation(1)).await, Err(SendError::Full)));
        assert!(!is_awaited(&inbox, 1), "it was cancelled, even if the server is not told");
        assert!(is_awaited(&inbox, 2), "it is being sent");
        let (_, _, _) = tokio::join!(outbox.close(), join_all(requests), join_all(control));
        assert!(!is_awaited(&inbox, 3), "the connection was closed while it was being sent");
    }

    #[tokio::test]
    async fn a_request_of_the_server_is_pending_until_its_response_is_sent_or_dropped() {
        let inbox = Inbox::new(Arc::default());
        let (mut outbox, _server) = outbox(64 << 10, &inbox);
        for number in 0..1_000 {
            assert!(is_new(&inbox, number));
            outbox.send(response(number)).await.expect("there is room");
        }
        assert_eq!(inbox.flood(), None);
        let (mut blocked, _server) = self::outbox(1, &inbox);
        let control = send_all(&mut blocked, MAX_CONTROL_IN_FLIGHT, |_| cancellation(0));
        assert!(is_new(&inbox, 0) && !is_new(&inbox, 0));
        assert!(matches!(blocked.send(response(0)).await, Err(SendError::Full)));
        assert!(is_new(&inbox, 0), "no response will follow");
        drop(control);
        for number in 1..MAX_UNANSWERED {
            assert!(is_new(&inbox, number));
        }
        assert!(inbox.flood().is_none() && !is_new(&inbox, MAX_UNANSWERED));
        assert_eq!(inbox.flood(), Some(Flood::Unanswered));
    }
}
