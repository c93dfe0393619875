//! An HTTP server for tests. The test chooses every byte of a response, and the server records the
//! requests.

pub mod model;

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::task::AbortOnDropHandle;

/// Reaction of the server to a request.
pub enum Answer {
    /// Sends these bytes. The connection stays open unless they contain `connection: close`.
    Says(String),
    /// Sends these bytes, which may be no text. The connection stays open.
    Sends(Vec<u8>),
    /// Sends the head of a response with a body of 1 GB, and then one byte at a time until the
    /// client closes the connection.
    Drips,
    /// Sends these bytes, and nothing more until the client closes the connection.
    Begins(String),
    /// Sends nothing until the client closes the connection.
    IsSilent,
    /// Closes the connection.
    HangsUp,
}

/// A running server. Dropping it closes all its connections.
pub struct Server {
    /// Address of the listener.
    pub address: SocketAddr,
    seen: Arc<Seen>,
    _task: AbortOnDropHandle<()>,
}

struct Seen {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    hung_up: Semaphore,
}

/// Creates a response with status 200.
pub fn ok(body: &str) -> Answer {
    says("200 OK", "", body)
}

/// Creates a response with status 200 and a body that may be no text.
pub fn ok_bytes(body: &[u8]) -> Answer {
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
    Answer::Sends([head.as_bytes(), body].concat())
}

/// Creates a response with further header lines, each of which ends with CRLF.
pub fn says(status: &str, headers: &str, body: &str) -> Answer {
    Answer::Says(format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

/// Creates a response that is a stream of server-sent events and ends with its connection.
pub fn events(headers: &str, events: &str) -> Answer {
    Answer::Says(stream(&format!("{headers}connection: close\r\n"), events))
}

/// Creates a response that is a stream of server-sent events and does not end.
pub fn endless_events(events: &str) -> Answer {
    Answer::Begins(stream("", events))
}

fn stream(headers: &str, events: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{headers}\r\n{events}")
}

/// Creates a redirect.
pub fn redirect(status: u16, location: &str) -> Answer {
    says(&format!("{status} Elsewhere"), &format!("location: {location}\r\n"), "")
}

impl Server {
    /// Starts a server. `answer` chooses the reaction by the path of a request, query included.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        Self::start_by_request(move |request| answer(request.split(' ').nth(1).unwrap_or_default()))
            .await
    }

    /// Starts a server. `answer` chooses the reaction by the whole request, as it was received.
    ///
    /// # Panics
    ///
    /// Panics if no port is free.
    pub async fn start_by_request(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a port");
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Seen {
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            hung_up: Semaphore::new(0),
        });
        let answer = Arc::new(answer);
        let task = AbortOnDropHandle::new(tokio::spawn({
            let seen = seen.clone();
            async move {
                let mut connections = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    connections.push(AbortOnDropHandle::new(tokio::spawn(serve(
                        stream,
                        seen.clone(),
                        answer.clone(),
                    ))));
                }
            }
        }));
        Self { address, seen, _task: task }
    }

    /// Returns the requests so far, each with head and body, as they were received.
    ///
    /// # Panics
    ///
    /// Panics if a connection has panicked.
    pub fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().expect("no connection panicked").clone()
    }

    /// Returns the number of connections accepted so far.
    pub fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Waits until `clients` connections with the reaction [`Answer::IsSilent`] or
    /// [`Answer::Begins`] have been closed.
    /// These connections are not counted again.
    ///
    /// # Panics
    ///
    /// Never: the semaphore is not closed.
    pub async fn until_hung_up(&self, clients: u32) {
        self.seen.hung_up.acquire_many(clients).await.expect("it is not closed").forget();
    }

    /// Returns a URL on this server, with a host name or an address as its host.
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>, answer: Arc<impl Fn(&str) -> Answer>) {
    while let Some(request) = read_request(&mut stream).await {
        let answered = answer(&request);
        seen.requests.lock().expect("no connection panicked").push(request);
        match answered {
            Answer::Says(text) => {
                drop(stream.write_all(text.as_bytes()).await);
                if text.contains("connection: close") {
                    return;
                }
            }
            Answer::Sends(bytes) => drop(stream.write_all(&bytes).await),
            Answer::Drips => {
                drop(
                    stream
                        .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n")
                        .await,
                );
                while stream.write_all(b"x").await.is_ok() {
                    tokio::task::yield_now().await;
                }
            }
            Answer::Begins(text) => {
                drop(stream.write_all(text.as_bytes()).await);
                drop(stream.read(&mut [0]).await);
                seen.hung_up.add_permits(1);
                return;
            }
            Answer::IsSilent => {
                drop(stream.read(&mut [0]).await);
                seen.hung_up.add_permits(1);
            }
            Answer::HangsUp => return,
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
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
                return Some(text);
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}
