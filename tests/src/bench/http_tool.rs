//! An MCP server over streamable HTTP with one tool. It speaks 2025-11-25 without sessions, and 2026-07-28.

use std::{convert::Infallible, pin::pin, sync::Arc};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header::CONTENT_TYPE,
    server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

/// The tool of a server.
pub struct HttpTool {
    /// Its definition, as `tools/list` has it.
    pub definition: Value,
    /// Runs a call with these arguments. Returns the text of its result.
    pub run: Box<dyn Fn(&Value) -> String + Send + Sync>,
}

impl HttpTool {
    /// Accepts connections until `end` completes, and serves them until their clients close them.
    pub async fn serve(self, listener: TcpListener, end: impl Future<Output = ()>) {
        let tool = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut end = pin!(end);
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = &mut end => break,
            };
            let (stream, _) = accepted.expect("connections are taken");
            stream.set_nodelay(true).expect("a socket has the option");
            let tool = tool.clone();
            let respond = service_fn(move |request| respond(request, tool.clone()));
            // A connection that the client closes is normal.
            connections.spawn(async move {
                drop(http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await);
            });
        }
        drop(listener);
        connections.join_all().await;
    }

    fn result(&self, message: &Value) -> Option<Value> {
        let capabilities = json!({"tools": {}});
        let server = json!({"name": "benchmark", "version": "1"});
        Some(match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server})
            }
            "server/discover" => {
                json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": server})
            }
            "ping" => json!({}),
            "tools/list" => {
                json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [self.definition]})
            }
            "tools/call" => {
                let text = (self.run)(&message["params"]["arguments"]);
                json!({"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": false})
            }
            _ => return None,
        })
    }
}

async fn respond(
    request: Request<Incoming>,
    tool: Arc<HttpTool>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let message: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let Some(id) = message.get("id") else { return Ok(empty(StatusCode::ACCEPTED)) };
    let body = match tool.result(&message) {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        }
    };
    let response = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(response.body(body.to_string().into()).expect("these parts make a response"))
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
