//! A client over HTTP/2.

use airlock_tests::{Gateway, mcp::McpRequest};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// Bytes of a body that a server may send before they are read.
const WINDOW: u32 = 64 << 10;

/// A connection over HTTP/2. Dropping a response resets its stream, and the connection stays.
pub(super) struct Http2 {
    sender: http2::SendRequest<Full<Bytes>>,
    connection: tokio::task::JoinHandle<()>,
}

impl Http2 {
    pub(super) async fn connect(gateway: &Gateway) -> Self {
        let address = gateway.address().trim_start_matches("http://");
        let stream = TcpStream::connect(address).await.expect("a connection");
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .handshake(TokioIo::new(stream))
            .await
            .expect("a handshake");
        Self { sender, connection: tokio::spawn(async move { drop(connection.await) }) }
    }

    /// Sends a request and waits for the head of the response. The body is read as far as it is
    /// polled.
    pub(super) async fn send(
        &mut self,
        request: &McpRequest,
    ) -> hyper::Response<hyper::body::Incoming> {
        let built = request.clone().builder().build().expect("a request");
        let body = built.body().and_then(reqwest::Body::as_bytes).unwrap_or_default().to_vec();
        let mut request = hyper::Request::new(Full::from(body));
        *request.method_mut() = built.method().clone();
        *request.uri_mut() = built.url().as_str().parse().expect("an address");
        *request.headers_mut() = built.headers().clone();
        self.sender.send_request(request).await.expect("a response")
    }

    /// Closes the connection. A gateway that ends would wait for a while until its client does.
    pub(super) async fn close(mut self) {
        self.connection.abort();
        let _ = (&mut self.connection).await;
    }
}

impl Drop for Http2 {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
