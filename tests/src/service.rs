//! A model provider over HTTP that sends the responses of a test and records the requests.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, StatusCode, body::Incoming, server::conn::http1, service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// One request as it was received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Path and query.
    pub path: String,
    /// The header `authorization`.
    pub authorization: String,
    /// Body.
    pub body: Value,
}

/// Function that returns the status and the body for a request.
type Answer = dyn Fn(&Asked) -> (StatusCode, Value) + Send + Sync;

/// The service. Dropping it ends it.
pub struct Service {
    address: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    serving: JoinHandle<()>,
}

impl Service {
    /// Starts a service that computes its responses from the requests.
    pub async fn start(answer: impl Fn(&Asked) -> (u16, Value) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let answer: Arc<Answer> = Arc::new(move |asked| {
            let (status, body) = answer(asked);
            (StatusCode::from_u16(status).expect("a test gives a status that exists"), body)
        });
        let serving = tokio::spawn(serve(listener, answer, asked.clone()));
        Self { address: format!("http://{address}/v1"), asked, serving }
    }

    /// Starts a service whose chat completions are these messages, one per request. The last one
    /// repeats.
    pub async fn saying(messages: impl IntoIterator<Item = Value>) -> Self {
        let messages: Vec<_> = messages.into_iter().collect();
        let turns = Mutex::new(0);
        Self::start(move |_| {
            let mut turn = turns.lock().unwrap_or_else(PoisonError::into_inner);
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
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
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

async fn serve(listener: TcpListener, answer: Arc<Answer>, asked: Arc<Mutex<Vec<Asked>>>) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let (answer, asked) = (answer.clone(), asked.clone());
        let respond = service_fn(move |request| respond(request, answer.clone(), asked.clone()));
        // A broken connection is not checked here; the test sees its effect on the gateway.
        connections.spawn(async move {
            drop(http1::Builder::new().serve_connection(TokioIo::new(stream), respond).await);
        });
    }
}

async fn respond(
    request: Request<Incoming>,
    answer: Arc<Answer>,
    asked: Arc<Mutex<Vec<Asked>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let request = Asked {
        path: head.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        authorization: header("authorization"),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    let (status, answer) = answer(&request);
    asked.lock().unwrap_or_else(PoisonError::into_inner).push(request);
    let response = Response::builder().status(status).header("content-type", "application/json");
    Ok(response.body(Full::from(answer.to_string())).expect("these parts make a response"))
}
