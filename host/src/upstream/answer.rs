//! Answers the requests of a server that are for no caller.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::sync::mpsc;

use super::{decode::RpcError, inbox::ServerRequest, link::Link, questions};

/// Answers the requests of a server, several at a time. Never completes as long as the connection
/// exists.
pub(super) async fn requests(link: &Link, mut requests: mpsc::Receiver<ServerRequest>) {
    let mut answering = FuturesUnordered::new();
    loop {
        tokio::select! {
            Some(request) = requests.recv() => answering.push(answer(link, request)),
            Some(()) = answering.next() => {}
            else => return,
        }
    }
}

async fn answer(link: &Link, request: ServerRequest) {
    let response = match request.method.as_str() {
        "ping" => Ok("{}".to_owned()),
        method if questions::is_question(method) => Err(RpcError {
            code: RpcError::METHOD_NOT_FOUND,
            message: format!("no caller can be asked {method} at this moment"),
            data: None,
        }),
        method => Err(RpcError {
            code: RpcError::METHOD_NOT_FOUND,
            message: format!("this client does not offer {method}"),
            data: None,
        }),
    };
    link.respond(&request.id, response).await;
}
