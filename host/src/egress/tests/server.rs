//! A server that answers as it is told, bytes as they are, and remembers what it was sent; and names that stand for anything.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::future::BoxFuture;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_util::task::AbortOnDropHandle;

use crate::egress::Resolver;

/// What a server does once it has read a request.
pub(crate) enum Answer {
    /// On a connection that stays open, unless this says that it is closed.
    Says(String),
    /// The head of a response, and then a byte whenever the client has taken in the last one.
    Drips,
    IsSilent,
    HangsUp,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    _task: AbortOnDropHandle<()>,
}

struct Seen {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    hung_up: Semaphore,
}

pub(crate) fn ok(body: &str) -> Answer {
    says("200 OK", "", body)
}

pub(crate) fn says(status: &str, headers: &str, body: &str) -> Answer {
    Answer::Says(format!("HTTP/1.1 {status}\r\n{headers}content-length: {}\r\n\r\n{body}", body.len()))
}

pub(crate) fn redirect(status: u16, location: &str) -> Answer {
    says(&format!("{status} Elsewhere"), &format!("location: {location}\r\n"), "")
}

impl Server {
    /// Starts one that answers by the path of a request, query included.
    pub(crate) async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (seen, answer) = (
            Arc::new(Seen { requests: Mutex::default(), connections: AtomicUsize::new(0), hung_up: Semaphore::new(0) }),
            Arc::new(answer),
        );
        let task = AbortOnDropHandle::new(tokio::spawn({
            let seen = seen.clone();
            async move {
                let mut connections = Vec::new();
                while let Ok((stream, _)) = listener.accept().await {
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    connections.push(AbortOnDropHandle::new(tokio::spawn(serve(stream, seen.clone(), answer.clone()))));
                }
            }
        }));
        Self { address, seen, _task: task }
    }

    /// Requests so far, heads and bodies, in lower case where that does not matter.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    /// Waits until so many clients that were not answered have gone.
    pub(crate) async fn until_hung_up(&self, clients: u32) {
        self.seen.hung_up.acquire_many(clients).await.expect("it is not closed").forget();
    }

    /// A URL on this server under a name or an address.
    pub(crate) fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.address.port())
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Seen>, answer: Arc<impl Fn(&str) -> Answer>) {
    while let Some(request) = read_request(&mut stream).await {
        let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
        seen.requests.lock().unwrap().push(request);
        match answer(&path) {
            Answer::Says(text) => {
                drop(stream.write_all(text.as_bytes()).await);
                if text.contains("connection: close") {
                    return;
                }
            }
            Answer::Drips => {
                drop(stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n").await);
                while stream.write_all(b"x").await.is_ok() {
                    tokio::task::yield_now().await;
                }
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
            let length = head.to_lowercase().split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
            if body.len() >= length.unwrap_or(0) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
    }
}

/// Names and what they stand for: each time the next answer, the last one for good.
#[derive(Default)]
pub(crate) struct Names {
    answers: Mutex<HashMap<String, Vec<Vec<IpAddr>>>>,
    asked: Mutex<Vec<String>>,
}

impl Names {
    pub(crate) fn new(names: &[(&str, &[&[&str]])]) -> Arc<Self> {
        let parse = |addresses: &&[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        let answers = names.iter().map(|(name, answers)| ((*name).to_owned(), answers.iter().map(parse).rev().collect()));
        Arc::new(Self { answers: Mutex::new(answers.collect()), asked: Mutex::default() })
    }

    /// Every name that was asked for.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for Names {
    fn resolve(&self, name: &str) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut names = self.answers.lock().unwrap();
        let answer = names.get_mut(name).map(|answers| if answers.len() > 1 { answers.pop() } else { answers.last().cloned() });
        Box::pin(async move { answer.flatten().ok_or_else(|| io::Error::other("no such name")) })
    }
}
