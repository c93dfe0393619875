//! A server at the other end of a pipe, for tests of this crate and of those above it.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, duplex, split};

use airlock_core::tool::{ClientName, QuestionKinds};
use airlock_mcp_client::{
    AbandonedRequests, Handshake, HandshakeError, Identity, Inbox, Link, Receiver, Stdio,
    Unsolicited, complete_handshake,
};

/// A server at the other end of a pipe.
pub(crate) struct Server(pub(crate) BufReader<DuplexStream>);

impl Server {
    /// Reads a message.
    pub(crate) async fn read(&mut self) -> Value {
        let mut line = String::new();
        self.0.read_line(&mut line).await.expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("no JSON: {line:?}"))
    }

    pub(crate) async fn say(&mut self, message: Value) {
        self.0.write_all(format!("{message}\n").as_bytes()).await.expect("written");
    }

    pub(crate) async fn respond(&mut self, request: &Value, result: Value) {
        self.say(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }
}

/// Parts of a connection that must live as long as it.
pub(crate) struct Rest {
    pub(crate) abandoned: AbandonedRequests,
    _unsolicited: Unsolicited,
    _receiver: Receiver,
}

pub(crate) fn connect(bytes: usize) -> (Arc<Link>, Server, Rest) {
    let (ours, theirs) = duplex(bytes);
    let (read, write) = split(ours);
    let (inbox, unsolicited) = Inbox::new(Arc::default());
    let (link, abandoned, receiver) =
        Link::open(Arc::new(Stdio::new(read, write, inbox.clone(), false)), inbox);
    let server = Server(BufReader::new(theirs));
    (link, server, Rest { abandoned, _unsolicited: unsolicited, _receiver: receiver })
}

/// Completes the handshake.
pub(crate) async fn complete(link: &Link, handshake: Handshake) -> Result<(), HandshakeError> {
    let identity =
        Identity::new(&ClientName::parse("up").expect("a good name"), QuestionKinds::NONE);
    complete_handshake(link, &identity, handshake).await
}
