//! An MCP server over streamable HTTP whose tool does nothing, in a process of its own: this program
//! with another argument. It speaks 2025-11-25 without sessions, and 2026-07-28.

use std::{convert::Infallible, env, process::Stdio};

use airlock_tests::bench::server::FIRST;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request, Response, StatusCode, body::Incoming, header::CONTENT_TYPE,
    server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    net::TcpListener,
    process::{Child, Command},
};

/// Argument that makes this program the server.
pub(crate) const SERVE: &str = "--serve-http";

/// The server in its own process, which is killed with the value.
pub(crate) struct HttpServer {
    address: String,
    child: Child,
}

impl HttpServer {
    /// Starts it on a port that the system chooses.
    pub(crate) async fn start() -> Self {
        let mut command = Command::new(env::current_exe().expect("a program knows its own file"));
        command.arg(SERVE).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().expect("it can be started");
        let stdout = child.stdout.take().expect("piped above");
        let mut address = String::new();
        BufReader::new(stdout).read_line(&mut address).await.expect("its first line is its URL");
        Self { address: address.trim_end().to_owned(), child }
    }

    /// Returns the URL without its path, which is `/mcp`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the identifier of its process.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.id()
    }
}

/// Serves until the process is killed.
pub(crate) async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    println!("http://{}", listener.local_addr().expect("it is bound"));
    loop {
        let (stream, _) = listener.accept().await.expect("connections are taken");
        stream.set_nodelay(true).expect("a socket has the option");
        tokio::spawn(async {
            // A connection that the client closes is normal.
            drop(
                http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service_fn(respond))
                    .await,
            );
        });
    }
}

async fn respond(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    if request.method() != Method::POST {
        return Ok(empty(StatusCode::METHOD_NOT_ALLOWED));
    }
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes);
    let message: Value = serde_json::from_slice(&body.unwrap_or_default()).unwrap_or_default();
    let Some(id) = message.get("id") else { return Ok(empty(StatusCode::ACCEPTED)) };
    let body = match result(message["method"].as_str().unwrap_or_default()) {
        Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        None => {
            json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        }
    };
    let response = Response::builder().header(CONTENT_TYPE, "application/json");
    Ok(response.body(body.to_string().into()).expect("these parts make a response"))
}

fn result(method: &str) -> Option<Value> {
    let capabilities = json!({"tools": {}});
    let server = json!({"name": "benchmark", "version": "1"});
    Some(match method {
        "initialize" => {
            json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": server})
        }
        "server/discover" => {
            json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions": ["2026-07-28"], "capabilities": capabilities, "serverInfo": server})
        }
        "ping" => json!({}),
        "tools/list" => {
            let tool = json!({"name": FIRST, "description": "Does nothing.", "inputSchema": {"type": "object"}});
            json!({"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [tool]})
        }
        "tools/call" => {
            json!({"resultType": "complete", "content": [{"type": "text", "text": "ok"}], "isError": false})
        }
        _ => return None,
    })
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}
