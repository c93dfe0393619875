//! Answers the requests of a server.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;
use tracing::warn;

use super::{
    inbox::{ServerRequest, ServerResponse},
    link::Link,
};
use airlock_wire::error::{RpcError, code};

/// Answers the requests of a server that are for no caller, and sends the answers of callers to its
/// questions, several at a time. Never completes as long as the connection exists.
pub async fn answer_requests(
    link: &Link,
    mut requests: mpsc::Receiver<ServerRequest>,
    mut responses: mpsc::UnboundedReceiver<ServerResponse>,
) {
    let mut sending = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(request) = requests.recv() => sending.push(send(link, answer(request))),
            Some(response) = responses.recv() => sending.push(send(link, response)),
            Some(()) = sending.next() => {}
            else => return,
        }
    }
}

async fn send(link: &Link, (id, response): ServerResponse) {
    link.respond(&id, response).await;
}

fn answer(request: ServerRequest) -> ServerResponse {
    let ServerRequest { id, method, not_asked } = request;
    let message = match (method.as_str(), not_asked) {
        ("ping", _) => return (id, Ok("{}".to_owned())),
        (method, Some(reason)) => {
            warn!(method, %reason, "a question of an MCP server reaches no caller");
            format!("{method} reaches no caller: {reason}")
        }
        (method, None) => format!("this client does not offer {method}"),
    };
    (id, Err(RpcError::new(code::METHOD_NOT_FOUND, message)))
}
