//! A fast model server: chat completions, whole or as server-sent events of the size that OpenAI
//! sends. Every chunk carries the time at which it was written. It is a collector of telemetry, too.

use std::{
    convert::Infallible,
    net::SocketAddr,
    pin::Pin,
    sync::{LazyLock, mpsc},
    task::{Context, Poll, ready},
    thread,
    time::{Duration, Instant},
};

use airlock_tests::bench::process::Process;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{
    Request, Response,
    body::{Body, Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{Sleep, sleep_until},
};

/// Text before the time in a chunk.
const MARK: &[u8] = br#""content":"@"#;
/// Digits of the time.
const DIGITS: usize = 16;
/// Start of the clock that server and client share: they are threads of one process.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

const ANSWER: &str = r#"{"id":"chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT","object":"chat.completion","created":1760000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hello! How can I assist you today?","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}},"service_tier":"default"}"#;

/// A running model server.
pub(crate) struct Model {
    pub(crate) address: SocketAddr,
    /// Its thread.
    pub(crate) thread: Process,
}

/// Starts the server on a thread of its own, which ends with the process.
pub(crate) fn start() -> Model {
    LazyLock::force(&START);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
            let address = listener.local_addr().expect("it is bound");
            let model = Model { address, thread: Process::thread() };
            assert!(sender.send(model).is_ok(), "the receiver waits");
            serve(listener).await;
        });
    });
    receiver.recv().expect("the server starts")
}

/// Returns the time that has passed since an event was written; `None` if it does not carry one.
pub(crate) fn age(event: &[u8]) -> Option<Duration> {
    let at = event.windows(MARK.len()).position(|window| window == MARK)? + MARK.len();
    let digits = std::str::from_utf8(event.get(at..at + DIGITS)?).ok()?;
    let written = Duration::from_nanos(digits.parse().ok()?);
    Some(START.elapsed().saturating_sub(written))
}

async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream));
    }
}

async fn connection(stream: TcpStream) {
    // Each chunk is one write, as it is at a model server.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service_fn(async |request| respond(request).await));
    // A client that leaves early is counted by the client.
    let _ = connection.await;
}

async fn respond(
    request: Request<Incoming>,
) -> Result<Response<Either<Full<Bytes>, Chunks>>, hyper::Error> {
    let is_chat = request.uri().path().ends_with("/chat/completions");
    let body = request.into_body().collect().await?.to_bytes();
    if !is_chat {
        // As a collector of telemetry: an empty message of protobuf.
        return Ok(Response::new(Either::Left(Full::default())));
    }
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (kind, body) = if body["stream"] == true {
        ("text/event-stream; charset=utf-8", Either::Right(Chunks::new(&body)))
    } else {
        ("application/json", Either::Left(Full::new(Bytes::from_static(ANSWER.as_bytes()))))
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// A streamed response: a role, `max_completion_tokens` texts, the end and `[DONE]`. Texts are
/// `metadata.pace_us` apart.
struct Chunks {
    next: u64,
    texts: u64,
    pace: Duration,
    /// Wait for the next text; `None` if there is no pace.
    wait: Option<Pin<Box<Sleep>>>,
}

impl Chunks {
    fn new(body: &Value) -> Self {
        let pace = body["metadata"]["pace_us"].as_str().and_then(|pace| pace.parse().ok());
        let pace = Duration::from_micros(pace.unwrap_or_default());
        let wait =
            (!pace.is_zero()).then(|| Box::pin(sleep_until(tokio::time::Instant::now() + pace)));
        Self { next: 0, texts: body["max_completion_tokens"].as_u64().unwrap_or(1), pace, wait }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.next;
        let texts = self.texts;
        let pace = self.pace;
        if (1..=texts).contains(&next)
            && let Some(wait) = &mut self.wait
        {
            ready!(wait.as_mut().poll(context));
            let due = wait.deadline() + pace;
            wait.as_mut().reset(due);
        }
        self.next += 1;
        let event = match next {
            0 => event(r#"{"role":"assistant","content":"","refusal":null}"#, "null"),
            _ if next <= texts => event(&text(), "null"),
            _ if next == texts + 1 => event("{}", r#""stop""#),
            _ if next == texts + 2 => "data: [DONE]\n\n".to_owned(),
            _ => return Poll::Ready(None),
        };
        Poll::Ready(Some(Ok(Frame::data(event.into()))))
    }
}

/// Returns a delta whose text is the time.
fn text() -> String {
    format!(r#"{{"content":"@{:0DIGITS$} "}}"#, START.elapsed().as_nanos())
}

fn event(delta: &str, end: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,\
         \"model\":\"m\",\"service_tier\":\"default\",\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{{\"index\":0,\
         \"delta\":{delta},\"logprobs\":null,\"finish_reason\":{end}}}]}}\n\n"
    )
}
