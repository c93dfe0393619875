//! Tests of the room that a connection takes.

use std::future::pending;

use super::*;
use crate::peer::Peer;

/// A service that no request reaches.
struct Unreached;

impl RequestHandler for Unreached {
    fn connections(&self) -> ConnectionSettings {
        let time = Duration::from_secs(30);
        ConnectionSettings {
            max_connections: 1,
            max_connections_per_peer: 1,
            max_header_bytes: MIN_HEADER_BYTES,
            read_timeout: time,
            write_timeout: time,
            idle_timeout: time,
            drain_timeout: time,
        }
    }

    fn tls(&self) -> Option<&ListenerTls> {
        None
    }

    fn handle(
        &self,
        _: Request<RequestBody>,
        _: Ingress,
    ) -> impl Future<Output = ChargedReply> + Send {
        pending()
    }
}

impl HttpService for Unreached {
    type Handler = Self;

    fn current(&self) -> Arc<Self> {
        Arc::new(Self)
    }

    async fn drain(&self, connections: impl Future<Output = ()> + Send) {
        connections.await;
    }
}

#[tokio::test]
async fn a_connection_has_no_room_for_a_certificate_and_for_its_end() {
    let context = Arc::new(ConnectionContext {
        service: Arc::new(Unreached),
        tasks: ConnectionTasks::default(),
        draining: CancellationToken::new(),
        failed_handshakes: tls::FailedHandshakes::default(),
    });
    let slot = Connections::new(1, 1).admit(Peer::new(None)).expect("a place");
    let (_client, stream) = tokio::io::duplex(1);
    let ingress = Ingress::Remote { address: None, certificate: None };
    let accepted = AcceptedConnection { stream, ingress, slot };
    let serving = context.serve(accepted, CallerChain::default());
    // Each of thousands of connections has it; either of the two takes half a kibibyte.
    let bytes = size_of_val(&serving);
    assert!(bytes <= 1 << 10, "{bytes}");
}
