//! Accepts connections over TCP and through the Unix socket, and gives each a place.

use std::{future::pending, io, sync::Arc, time::Duration};

use futures_util::future::Either;
use tokio::{
    net::{TcpListener, TcpStream, UnixStream},
    time::sleep,
};
use tracing::warn;

use super::{
    connections::{ConnectionSlot, Connections},
    ingress::Ingress,
    peer::Peer,
    socket::SocketListener,
};

/// Pause after `accept` fails, which it usually does for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A connection that has a place.
pub(super) struct AcceptedConnection<S> {
    pub(super) stream: S,
    pub(super) ingress: Ingress,
    pub(super) slot: ConnectionSlot,
}

/// A listener of one kind of sockets.
pub(super) trait Listener {
    type Stream;

    /// Waits for the next connection. Dropping the future loses none.
    fn next(&self) -> impl Future<Output = io::Result<(Self::Stream, Ingress)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn next(&self) -> io::Result<(TcpStream, Ingress)> {
        let (stream, address) = self.accept().await?;
        // Responses are written whole, so Nagle's algorithm only adds latency.
        let _ = stream.set_nodelay(true);
        Ok((stream, Ingress::Remote { address: Some(address.ip()), certificate: None }))
    }
}

impl Listener for SocketListener {
    type Stream = UnixStream;

    async fn next(&self) -> io::Result<(UnixStream, Ingress)> {
        Ok((self.accept().await?, Ingress::Socket(self.token())))
    }
}

/// Returns the output of the future that is ready; of two that are, that of either one, at random. A flood of connections
/// of one kind then delays no connection of the other: remote peers must not lock an administrator out, and a confined
/// server, which reaches the Unix socket without its token, must not lock remote peers out.
pub(super) async fn either<L, R>(
    local: impl Future<Output = L>,
    remote: impl Future<Output = R>,
) -> Either<L, R> {
    tokio::select! {
        accepted = local => Either::Left(accepted),
        accepted = remote => Either::Right(accepted),
    }
}

/// Waits for a connection that gets one of the places. Others are closed at once.
pub(super) async fn accept<'p, L: Listener>(
    listener: &L,
    places: impl Fn() -> &'p Arc<Connections>,
) -> AcceptedConnection<L::Stream> {
    loop {
        let (stream, ingress) = match listener.next().await {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        if let Some(slot) = places().admit(Peer::new(ingress.address())) {
            return AcceptedConnection { stream, ingress, slot };
        }
    }
}

/// Waits for a connection through the Unix socket, for ever if there is none.
pub(super) async fn accept_local(
    socket: Option<&SocketListener>,
    places: &Arc<Connections>,
) -> AcceptedConnection<UnixStream> {
    match socket {
        Some(socket) => accept(socket, || places).await,
        None => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    #[tokio::test]
    async fn a_connection_of_one_kind_is_accepted_while_others_of_the_other_kind_always_wait() {
        let mut accepted = [0, 0];
        for _ in 0..100 {
            match either(ready(()), ready(())).await {
                Either::Left(()) => accepted[0] += 1,
                Either::Right(()) => accepted[1] += 1,
            }
        }
        assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
    }
}
