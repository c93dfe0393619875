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
    limits::{MAX_CONTROL, MAX_PENDING},
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
        let (requests, control) = (Semaphore::new(MAX_PENDING), Semaphore::new(MAX_CONTROL));
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
        let (asked, answered) = (asked(&message), answered(&message));
        let room = if asked.is_some() { &self.requests } else { &self.control };
        let room = room.clone().try_acquire_owned().ok();
        if room.is_some() || asked.is_none() {
            // A cancellation that is not sent still ends the wait for the response.
            self.inbox.sending(&message);
        }
        let sending = room.map(|room| (room, self.inner.send(message)));
        let (inbox, closed) = (self.inbox.clone(), self.closed.clone());
        async move {
            let Some((_room, sending)) = sending else {
                if let Some(id) = answered {
                    inbox.answered(&id);
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
                inbox.answered(&id);
            }
            if let (Err(_), Some(id)) = (&sent, asked) {
                inbox.forget(&id);
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
fn asked(message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    }
}

/// Returns the identifier of the server's request that a message answers; `None` if it answers
/// none.
fn answered(message: &TxJsonRpcMessage<RoleClient>) -> Option<RequestId> {
    match message {
        JsonRpcMessage::Response(response) => Some(response.id.clone()),
        JsonRpcMessage::Error(error) => error.id.clone(),
        JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};
    use rmcp::{
        model::{ClientJsonRpcMessage, ClientResult},
        transport::async_rw::AsyncRwTransport,
    };

    use super::*;
    use crate::upstream::meter::Flood;

    fn answer(id: i64) -> ClientJsonRpcMessage {
        ClientJsonRpcMessage::response(ClientResult::empty(()), RequestId::Number(id))
    }

    fn ping(id: usize) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)
    }

    #[tokio::test]
    async fn messages_to_a_server_that_reads_nothing_are_limited() {
        let (ours, _theirs) = tokio::io::duplex(1);
        let (read, write) = tokio::io::split(ours);
        let mut transport =
            Outbox::new(AsyncRwTransport::new(read, write), Inbox::new(Arc::default()));
        let mut pending = Vec::new();
        for _ in 0..MAX_CONTROL {
            pending.push(Box::pin(transport.send(answer(1))));
        }
        assert!(join_all(&mut pending).now_or_never().is_none());
        assert!(matches!(transport.send(answer(1)).await, Err(SendError::Full)));
        pending.pop();
        pending.push(Box::pin(transport.send(answer(1))));
        assert!(join_all(&mut pending).now_or_never().is_none());
        // Closing waits for the pipe, which is free once the messages have failed.
        let (closed, sent) = tokio::join!(transport.close(), join_all(pending));
        assert!(closed.is_ok() && sent.iter().all(|sent| matches!(sent, Err(SendError::Closed))));
    }

    #[tokio::test]
    async fn a_request_of_the_server_counts_until_its_response_is_written() {
        let inbox = Inbox::new(Arc::default());
        let (ours, _theirs) = tokio::io::duplex(64 << 10);
        let (read, write) = tokio::io::split(ours);
        let mut transport = Outbox::new(AsyncRwTransport::new(read, write), inbox.clone());
        for id in 0..1_000 {
            assert!(inbox.take(ping(id).as_bytes()).is_some());
            transport.send(answer(i64::try_from(id).expect("small"))).await.expect("there is room");
        }
        assert_eq!(inbox.flood(), None);
        let kept: Vec<_> = (0..=super::super::limits::MAX_UNANSWERED)
            .map(|id| inbox.take(ping(id).as_bytes()))
            .collect();
        assert!(
            inbox.flood() == Some(Flood::Unanswered) && kept.last().is_some_and(Option::is_none)
        );
        assert!(matches!(transport.send(answer(1)).await, Ok(()) | Err(SendError::Closed)));
    }
}
