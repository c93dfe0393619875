//! A fast client: HTTP/1.1 connections that are kept open, and one exchange on one of them.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Method, Request,
    body::Incoming,
    client::conn::http1::{self, SendRequest},
    header::{CONTENT_TYPE, HOST, HeaderValue},
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::json;
use tokio::{net::TcpStream, sync::Semaphore};

use super::model;

/// Connections that a [`Client`] opens at most. A request that finds all in use waits, which counts
/// as its latency.
const MAX_CONNECTIONS: usize = 2_000;

/// A server, and the connections to it.
#[derive(Clone)]
pub(crate) struct Client {
    address: SocketAddr,
    host: HeaderValue,
    /// Prefix of the model's name.
    prefix: &'static str,
    idle: Arc<Mutex<Vec<SendRequest<Full<Bytes>>>>>,
    room: Arc<Semaphore>,
}

/// Form of the response that is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Form {
    /// Whole.
    Plain,
    /// A stream of `texts` chunks that are `pace` apart.
    Streamed { texts: u32, pace: Duration },
}

/// Times of one exchange, since its request was due.
pub(crate) struct Exchange {
    /// Time until the first bytes of the body.
    pub(crate) first: Duration,
    /// Time until the end of the body.
    pub(crate) whole: Duration,
    /// Time from the writing of each chunk until the client had it.
    pub(crate) chunks: Vec<Duration>,
}

impl Client {
    /// Creates the client of a server that finds the model under a name with this prefix.
    pub(crate) fn new(address: SocketAddr, prefix: &'static str) -> Self {
        Self {
            address,
            host: HeaderValue::try_from(address.to_string()).expect("an address is header text"),
            prefix,
            idle: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        }
    }

    /// Returns the body of a request.
    pub(crate) fn body(&self, form: Form) -> Bytes {
        let mut body = json!({
            "model": format!("{}m", self.prefix),
            "messages": [
                {"role": "developer", "content": "You are a helpful assistant."},
                {"role": "user", "content": "Hello!"},
            ],
        });
        if let Form::Streamed { texts, pace } = form {
            body["stream"] = true.into();
            body["max_completion_tokens"] = texts.into();
            if !pace.is_zero() {
                body["metadata"] = json!({"pace_us": pace.as_micros().to_string()});
            }
        }
        body.to_string().into()
    }

    /// Sends a request and receives the whole response. Fails unless it is complete.
    pub(crate) async fn exchange(&self, body: Bytes, form: Form, due: Instant) -> Result<Exchange> {
        let _room = self.room.acquire().await.expect("it is never closed");
        let mut sender = self.sender().await?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = http_path();
        request.headers_mut().insert(HOST, self.host.clone());
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = sender.send_request(request).await?;
        ensure!(response.status() == 200, "status {}", response.status());
        let exchange = receive(response.into_body(), form, due).await?;
        self.idle.lock().push(sender);
        Ok(exchange)
    }

    /// Returns a connection that is ready for a request: the one that was used last, or a new one.
    async fn sender(&self) -> Result<SendRequest<Full<Bytes>>> {
        loop {
            let idle = self.idle.lock().pop();
            let Some(mut sender) = idle else { return self.connect().await };
            if sender.ready().await.is_ok() {
                return Ok(sender);
            }
        }
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the sender. An error is one of the exchange, too.
        tokio::spawn(async { drop(connection.await) });
        Ok(sender)
    }
}

fn http_path() -> hyper::Uri {
    hyper::Uri::from_static("/v1/chat/completions")
}

async fn receive(mut body: Incoming, form: Form, due: Instant) -> Result<Exchange> {
    let mut first = None;
    let mut bytes = 0;
    let mut events = Events::default();
    let mut chunks = Vec::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame?.into_data() else { continue };
        first.get_or_insert_with(|| due.elapsed());
        bytes += data.len();
        if let Form::Streamed { .. } = form {
            events.read(&data, |event| chunks.extend(model::age(event)));
        }
    }
    let whole = due.elapsed();
    let first = first.context("the response is empty")?;
    match form {
        Form::Plain => ensure!(bytes > 100, "{bytes} bytes of a response"),
        Form::Streamed { texts, .. } => {
            ensure!(events.is_done, "a stream without its end");
            ensure!(chunks.len() == texts as usize, "{} chunks instead of {texts}", chunks.len());
        }
    }
    Ok(Exchange { first, whole, chunks })
}

/// Splits a stream into events.
#[derive(Default)]
struct Events {
    buffer: Vec<u8>,
    is_done: bool,
}

impl Events {
    fn read(&mut self, data: &[u8], mut each: impl FnMut(&[u8])) {
        self.buffer.extend_from_slice(data);
        let mut from = 0;
        while let Some(end) = self.buffer[from..].windows(2).position(|end| end == b"\n\n") {
            let event = &self.buffer[from..from + end];
            self.is_done |= event == b"data: [DONE]";
            each(event);
            from += end + 2;
        }
        self.buffer.drain(..from);
    }
}
