//! A model provider over HTTP that sends the responses of a test and records the requests.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::BoxStream};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{
    Request, Response, StatusCode,
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// One request as it was received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Path and query.
    pub path: String,
    /// The header `authorization`.
    pub authorization: String,
    /// Body as JSON; null if it is not JSON.
    pub body: Value,
    /// Body as it was received.
    pub text: String,
}

/// Response to a request.
pub enum Answer {
    /// A status and a JSON body.
    Json(StatusCode, Value),
    /// Status 200 and `text/event-stream`, in these parts.
    Stream(BoxStream<'static, Bytes>),
}

impl Answer {
    /// Creates a streamed response. The parts may wait, and never end.
    pub fn stream(parts: impl Stream<Item = Bytes> + Send + 'static) -> Self {
        Self::Stream(parts.boxed())
    }
}

impl From<(u16, Value)> for Answer {
    fn from((status, body): (u16, Value)) -> Self {
        Self::Json(StatusCode::from_u16(status).expect("a test gives a status that exists"), body)
    }
}

/// Function that returns the response to a request.
type Respond = dyn Fn(&Asked) -> Answer + Send + Sync;

/// The service. Dropping it ends it.
pub struct Service {
    address: String,
    state: Arc<State>,
    serving: JoinHandle<()>,
}

/// Observations of the service.
#[derive(Default)]
struct State {
    asked: Mutex<Vec<Asked>>,
    cut_off: AtomicUsize,
}

impl Service {
    /// Starts a service that computes its responses from the requests.
    pub async fn start<A: Into<Answer>>(
        answer: impl Fn(&Asked) -> A + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State::default());
        let answer: Arc<Respond> = Arc::new(move |asked| answer(asked).into());
        let serving = tokio::spawn(serve(listener, answer, state.clone()));
        Self { address: format!("http://{address}/v1"), state, serving }
    }

    /// Starts a service whose chat completions are these messages, one per request. The last one
    /// repeats.
    pub async fn saying(messages: impl IntoIterator<Item = Value>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let turns = Mutex::new(0);
        Self::start(move |_| {
            let mut turn = turns.lock();
            let message = messages[(*turn).min(messages.len() - 1)].clone();
            *turn += 1;
            (200, completion(&message))
        })
        .await
    }

    /// Returns its base URL, up to and including `/v1`.
    pub fn base_url(&self) -> &str {
        &self.address
    }

    /// Returns every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.asked.lock().clone()
    }

    /// Returns the number of streamed responses whose connection was closed before their end.
    pub fn cut_off(&self) -> usize {
        self.state.cut_off.load(Ordering::Relaxed)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Returns a chat completion with one choice.
pub fn completion(message: &Value) -> Value {
    let reason = if message["tool_calls"].is_array() { "tool_calls" } else { "stop" };
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "model",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    })
}

/// Returns a message in which the model requests tool calls.
pub fn asking_for(calls: &[(&str, Value)]) -> Value {
    let calls: Vec<_> = calls
        .iter()
        .enumerate()
        .map(|(index, (name, arguments))| {
            json!({"id": format!("call_{index}"), "type": "function", "function": {"name": name, "arguments": arguments.to_string()}})
        })
        .collect();
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

/// Returns the final message of a model, with this text.
pub fn text(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Returns server-sent events, each with one of these texts as its data.
pub fn events(data: impl IntoIterator<Item = impl AsRef<str>>) -> Bytes {
    let events = data.into_iter().map(|data| format!("data: {}\n\n", data.as_ref()));
    events.collect::<String>().into()
}

async fn serve(listener: TcpListener, answer: Arc<Respond>, state: Arc<State>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let answer = answer.clone();
        let state = state.clone();
        let respond = service_fn(move |request| respond(request, answer.clone(), state.clone()));
        // A broken connection is not checked here; the test sees its effect on the gateway.
        connections.spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: Arc<Respond>,
    state: Arc<State>,
) -> Result<Response<UnsyncBoxBody<Bytes, Infallible>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = Asked {
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        authorization: header("authorization"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
        text: String::from_utf8_lossy(&body).into_owned(),
    };
    let answer = answer(&request);
    state.asked.lock().push(request);
    let (status, content_type, body) = match answer {
        Answer::Json(status, body) => {
            (status, "application/json", Full::from(body.to_string()).boxed_unsync())
        }
        Answer::Stream(parts) => {
            let parts = Counted { parts, state, has_ended: false };
            let frames = parts.map(|part| Ok(Frame::data(part)));
            (StatusCode::OK, "text/event-stream", StreamBody::new(frames).boxed_unsync())
        }
    };
    let response = Response::builder().status(status).header("content-type", content_type);
    Ok(response.body(body).expect("these parts make a response"))
}

/// Parts of a streamed response, which counts the response if it is dropped before its end.
struct Counted {
    parts: BoxStream<'static, Bytes>,
    state: Arc<State>,
    has_ended: bool,
}

impl Stream for Counted {
    type Item = Bytes;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let part = self.parts.poll_next_unpin(context);
        self.has_ended |= matches!(part, Poll::Ready(None));
        part
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.has_ended {
            self.state.cut_off.fetch_add(1, Ordering::Relaxed);
        }
    }
}
