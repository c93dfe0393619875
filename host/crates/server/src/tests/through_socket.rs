//! Requests through the Unix socket.

use std::path::PathBuf;

use bytes::Bytes;
use http::StatusCode;
use tempfile::TempDir;
use tokio::net::UnixStream;

use super::{
    http2::{DATA, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE, WINDOW_UPDATE},
    *,
};
use airlock_ingress::{SOCKET_CONNECTIONS, socket};

const CLIENTS: &str = "/api/mcp/clients";
const RELOAD: &str = "/api/mcp/client/changed/reload";
/// Maximum bytes of a response in these tests, which have small catalogs.
const MAX_BYTES: usize = 100_000;
/// Bytes that a client permits the gateway to send on a stream, once it does: more than a response has.
const WINDOW_BYTES: u32 = 1 << 20;

/// A gateway with a socket.
struct WithSocket {
    gateway: Gateway,
    path: PathBuf,
    _directory: TempDir,
}

impl WithSocket {
    async fn start(settings: Settings) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("admin.sock");
        let socket = SocketListener::bind(&path).await.expect("a socket");
        let gateway = Gateway::with_socket(settings, socket).await;
        Self { gateway, path, _directory: directory }
    }

    async fn ask(&self, method: Method, path: &str) -> (StatusCode, Bytes) {
        let asked = socket::request(&self.path, method, path, None, MAX_BYTES, SOON);
        asked.await.expect("an answer")
    }

    async fn status(&self, method: Method, path: &str) -> u16 {
        self.ask(method, path).await.0.as_u16()
    }

    /// Opens a connection and sends these bytes.
    async fn connect(&self, sent: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(&self.path).await.expect("a connection");
        stream.write_all(sent).await.expect("it is read");
        stream
    }

    /// Sends a request with these headers, which closes its connection, and returns the response.
    async fn send(&self, headers: &str) -> String {
        let head = format!("GET /health HTTP/1.1\r\n{headers}connection: close\r\n\r\n");
        let mut stream = self.connect(head.as_bytes()).await;
        let mut response = String::new();
        soon(stream.read_to_string(&mut response)).await.expect("a response");
        response
    }
}

#[tokio::test]
async fn the_management_api_and_the_state_are_served_and_nothing_else() {
    let with_socket = WithSocket::start(settings()).await;
    for path in ["/health", "/metrics", CLIENTS] {
        assert_eq!(with_socket.status(Method::GET, path).await, 200, "{path}");
    }
    for (method, path) in [
        (Method::GET, "/v1/models"),
        (Method::GET, "/openai/v1/models"),
        (Method::GET, "/anthropic/v1/models"),
        (Method::POST, "/v1/chat/completions"),
        (Method::POST, "/v1/messages"),
        (Method::POST, "/v1/mcp/tool/execute"),
        (Method::POST, "/mcp"),
        (Method::GET, "/nothing"),
    ] {
        let (status, body) = with_socket.ask(method, path).await;
        let body = String::from_utf8_lossy(&body);
        assert_eq!(status, 404, "{path}: {body}");
        assert!(body.contains("the Unix socket serves only"), "{path}: {body}");
    }
    assert_eq!(with_socket.gateway.get("/v1/models", &[]).await.0, 200);
    with_socket.gateway.stop().await;
}

#[tokio::test]
async fn a_request_through_the_socket_is_the_operators() {
    let with_socket = WithSocket::start(settings()).await;
    assert_eq!(with_socket.status(Method::POST, RELOAD).await, 200);
    with_socket.gateway.stop().await;
}

#[tokio::test]
async fn a_request_through_the_socket_without_its_token_is_nobodys() {
    let with_socket = WithSocket::start(settings()).await;
    let file = socket::token_path(&with_socket.path);
    std::fs::write(&file, "0".repeat(64)).expect("a file");
    assert_eq!(with_socket.status(Method::POST, RELOAD).await, 401);
    assert_eq!(with_socket.status(Method::GET, "/v1/approvals").await, 401, "nor a caller's");
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(with_socket.status(Method::POST, RELOAD).await, 401);
    assert_eq!(with_socket.status(Method::GET, "/api/changes").await, 401);
    with_socket.gateway.stop().await;
}

#[tokio::test]
async fn a_request_through_the_socket_has_any_host_and_comes_from_no_page() {
    let with_socket = WithSocket::start(settings()).await;
    for (headers, status) in [
        ("host: evil.example\r\n", "200"),
        ("host: localhost\r\norigin: http://localhost\r\n", "403"),
        ("host: localhost\r\nsec-fetch-site: none\r\n", "403"),
    ] {
        let response = with_socket.send(headers).await;
        assert_eq!(response.get(9..12), Some(status), "{headers}");
    }
    with_socket.gateway.stop().await;
}

#[tokio::test]
async fn http_2_is_served_through_the_socket() {
    let with_socket = WithSocket::start(settings()).await;
    let sent = [http2::opening(&[]), http2::get(1, CLIENTS)].concat();
    let mut stream = with_socket.connect(&sent).await;
    assert_eq!(http2::next(&mut stream, HEADERS).await[0], 0x88, "status 200");
    drop(stream);
    with_socket.gateway.stop().await;
}

#[tokio::test]
async fn a_flood_of_remote_connections_does_not_lock_an_administrator_out() {
    let limits = Settings { max_connections: 2, ..settings() };
    let mut with_socket = WithSocket::start(limits).await;
    let mut in_use = Vec::new();
    for _ in 0..2 {
        in_use.push(with_socket.gateway.connect(&hanging_chat()).await);
        assert_eq!(with_socket.gateway.next_event().await, "started");
    }
    // They take the reserved places.
    for _ in 0..100 {
        in_use.push(with_socket.gateway.connect("").await);
    }
    assert_eq!(with_socket.gateway.get(CLIENTS, &[]).await.0, 503);
    assert_eq!(with_socket.status(Method::GET, CLIENTS).await, 200);
    with_socket.gateway.running.abort();
}

#[tokio::test]
async fn idle_connections_of_the_socket_give_way_to_new_ones_and_take_no_remote_places() {
    let limits = Settings { max_connections: 1, ..settings() };
    let mut with_socket = WithSocket::start(limits).await;
    let _remote = with_socket.gateway.connect(&hanging_chat()).await;
    assert_eq!(with_socket.gateway.next_event().await, "started");
    let mut idle = Vec::new();
    for _ in 0..SOCKET_CONNECTIONS {
        idle.push(with_socket.connect(b"").await);
    }
    assert_eq!(with_socket.status(Method::GET, CLIENTS).await, 200);
    let mut oldest = idle.remove(0);
    assert_eq!(soon(oldest.read(&mut [0])).await.expect("an end"), 0, "it is closed");
    with_socket.gateway.running.abort();
}

#[tokio::test]
async fn a_drain_removes_the_socket_and_lets_its_responses_end() {
    let limits = Settings { drain_timeout: Duration::from_hours(1), ..settings() };
    let with_socket = WithSocket::start(limits).await;
    let without_window = http2::opening(&[0, INITIAL_WINDOW_SIZE, 0, 0, 0, 0]);
    let sent = [without_window, http2::get(1, "/health")].concat();
    let mut stream = with_socket.connect(&sent).await;
    http2::next(&mut stream, HEADERS).await;
    let path = with_socket.path.clone();
    let window = http2::frame(WINDOW_UPDATE, 0, 1, &u32::to_be_bytes(WINDOW_BYTES));
    let read = async {
        http2::next(&mut stream, GOAWAY).await;
        assert!(!path.exists(), "no new connection may wait for it");
        stream.write_all(&window).await.expect("it is read");
        assert!(http2::next(&mut stream, DATA).await.starts_with(b"{"));
        while http2::read_frame(&mut stream).await.is_some() {}
    };
    tokio::join!(with_socket.gateway.stop(), soon(read));
}
