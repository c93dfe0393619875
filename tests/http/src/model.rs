//! A model service for tests: sends given responses over a local socket.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// A service that runs.
pub struct FakeService {
    /// Its URL, up to and including the version.
    pub base_url: String,
    task: JoinHandle<Vec<String>>,
}

impl FakeService {
    /// Starts a service that sends each request the next of `answers`, on a connection of its own.
    ///
    /// # Panics
    ///
    /// If no port can be bound.
    pub async fn start(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let base_url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let task = tokio::spawn(async move {
            let mut requests = Vec::new();
            for answer in answers {
                let (mut stream, _) = listener.accept().await.expect("a connection");
                requests.push(read_request(&mut stream).await);
                stream.write_all(answer.as_bytes()).await.expect("it is read");
            }
            requests
        });
        Self { base_url, task }
    }

    /// Returns the requests, after all of `answers` were sent.
    ///
    /// # Panics
    ///
    /// If the service failed.
    pub async fn requests(self) -> Vec<String> {
        self.task.await.expect("the service ends")
    }
}

/// Reads one request: its head and as much of a body as the head announces.
///
/// # Panics
///
/// If the connection ends before.
pub async fn read_request(stream: &mut TcpStream) -> String {
    let mut request = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .to_lowercase()
                .split("content-length: ")
                .nth(1)
                .and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return text;
            }
        }
        let read = stream.read_buf(&mut request).await.expect("a request");
        assert!(read > 0, "the request is cut off: {text}");
    }
}

/// Returns a JSON response.
pub fn json(status: &str, body: &str) -> String {
    respond(status, "application/json", "", body)
}

/// Returns a stream of server-sent events.
pub fn events(body: &str) -> String {
    respond("200 OK", "text/event-stream", "", body)
}

/// Returns a response with more headers, each with its line end.
pub fn respond(status: &str, kind: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n{headers}connection: close\r\n\r\n{body}"
    )
}
