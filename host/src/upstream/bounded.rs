//! A transport that does not pile up messages for a server that has stopped reading.

use std::sync::Arc;

use rmcp::{
    RoleClient,
    service::{RxJsonRpcMessage, TxJsonRpcMessage},
    transport::Transport,
};
use tokio::sync::Semaphore;

/// Messages on their way at one time: more than the calls that may run, so that pings and cancellations find room.
const MAX_PENDING: usize = super::server::MAX_RUNNING * 2;

/// `rmcp` holds every message that is not written yet, and takes any number. A server that reads nothing, or that asks
/// for answers and never fetches them, would fill the gateway's memory; here its messages fail instead.
pub(super) struct Bounded<T> {
    inner: T,
    room: Arc<Semaphore>,
}

/// Why a message was not sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError<E: std::error::Error + 'static> {
    /// Too much is on its way already.
    #[error("the server does not read what it is sent")]
    Full,
    /// The transport failed.
    #[error(transparent)]
    Transport(E),
}

impl<T> Bounded<T> {
    pub(super) fn new(inner: T) -> Self {
        Self { inner, room: Arc::new(Semaphore::new(MAX_PENDING)) }
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Bounded<T> {
    type Error = SendError<T::Error>;

    fn send(&mut self, message: TxJsonRpcMessage<RoleClient>) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let sending = self.room.clone().try_acquire_owned().ok().map(|room| (room, self.inner.send(message)));
        async move {
            let (_room, sending) = sending.ok_or(SendError::Full)?;
            sending.await.map_err(SendError::Transport)
        }
    }

    fn receive(&mut self) -> impl Future<Output = Option<RxJsonRpcMessage<RoleClient>>> + Send {
        self.inner.receive()
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await.map_err(SendError::Transport)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, future::join_all};
    use rmcp::{
        model::{ClientJsonRpcMessage, ClientResult, RequestId},
        transport::async_rw::AsyncRwTransport,
    };

    use super::*;

    #[tokio::test]
    async fn a_server_that_reads_nothing_is_sent_so_much_and_no_more() {
        let (ours, _theirs) = tokio::io::duplex(1);
        let (read, write) = tokio::io::split(ours);
        let mut transport = Bounded::new(AsyncRwTransport::new(read, write));
        let message = || ClientJsonRpcMessage::response(ClientResult::empty(()), RequestId::Number(1));
        let mut pending = Vec::new();
        for _ in 0..MAX_PENDING {
            pending.push(Box::pin(transport.send(message())));
        }
        assert!(join_all(&mut pending).now_or_never().is_none());
        assert!(matches!(transport.send(message()).await, Err(SendError::Full)));
        pending.pop();
        assert!(transport.send(message()).now_or_never().is_none());
    }
}
