//! `/sse`, `/sse/{client}` and `/message`: the transport HTTP+SSE of MCP 2024-11-05, for clients that
//! speak no newer one. It is deprecated, and served only if the configuration says so.
//!
//! A client opens a stream with GET. Its first event names the path to which the client posts its
//! messages; all messages to the client are events of the stream. The client is served while the
//! stream is polled: the end of the stream ends all that runs for the client.

use parking_lot::Mutex;
use std::{collections::HashMap, future::poll_fn, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;
use uuid::Uuid;

use super::{
    accept::Accept,
    body, not_acceptable,
    reply::{accepted, failed, refused},
    selection,
};
use crate::{
    App, Sender,
    activity::{Parked, Parking},
    connections::Seat,
    events::{self, Source},
    memory::Charge,
    respond::{self, ApiError, Reply},
};
use airlock_core::tenant::Tenant;
use airlock_mcp_server::{
    service::Service,
    session::StreamSlot,
    stdio::{self, Input},
};
use airlock_model::MemoryBudget;
use airlock_wire::error::RpcError;

/// Path of the stream. The name of a client may follow it.
const STREAM: &str = "/sse";
/// Path to which messages are posted.
const MESSAGE: &str = "/message";
/// Parameter of [`MESSAGE`] that names the stream.
const SESSION: &str = "sessionId";
/// Messages of one client that wait to be handled. A further one is refused.
const QUEUE: usize = 16;

/// Purpose of a path of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Opens a stream.
    Stream,
    /// Posts a message.
    Message,
}

/// Finds the target of a path; `None` if the path is none of the transport's.
pub(crate) fn target(path: &str) -> Option<Target> {
    let is_stream =
        path.strip_prefix(STREAM).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_stream {
        return Some(Target::Stream);
    }
    (path == MESSAGE).then_some(Target::Message)
}

impl Target {
    /// Returns the methods of the target.
    pub(crate) fn methods(self) -> &'static [Method] {
        match self {
            Self::Stream => &[Method::GET],
            Self::Message => &[Method::POST],
        }
    }
}

/// The clients that have a stream.
#[derive(Default)]
pub(crate) struct Pipes(Mutex<HashMap<String, Pipe>>);

/// The way to one client.
struct Pipe {
    tenant: Tenant,
    input: mpsc::Sender<Input>,
}

/// A client that is registered until the value is dropped.
struct Registered {
    pipes: Arc<Pipes>,
    id: String,
}

impl Pipes {
    /// Registers a client of a tenant. Returns the queue of its messages.
    fn register(self: &Arc<Self>, tenant: Tenant) -> (Registered, mpsc::Receiver<Input>) {
        // 122 random bits from the system: an identifier cannot be guessed.
        let id = Uuid::new_v4().to_string();
        let (input, messages) = mpsc::channel(QUEUE);
        self.0.lock().insert(id.clone(), Pipe { tenant, input });
        (Registered { pipes: self.clone(), id }, messages)
    }

    /// Finds a client of a tenant; `None` if there is none, or if it is another tenant's.
    fn find(&self, id: &str, tenant: &Tenant) -> Option<mpsc::Sender<Input>> {
        let pipes = self.0.lock();
        pipes.get(id).filter(|pipe| pipe.tenant == *tenant).map(|pipe| pipe.input.clone())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.pipes.0.lock().remove(&self.id);
    }
}

/// Opens the stream of a client.
pub(crate) fn open(
    app: &App,
    sender: &Sender,
    request: &Request<Incoming>,
) -> Result<Reply, ApiError> {
    if !Accept::read(request.headers()).streams {
        return Ok(not_acceptable());
    }
    let selection = selection(app, sender, &request.uri().path()[STREAM.len()..])?;
    let slot = match app.sessions.stream(selection.tenant()) {
        Ok(slot) => slot,
        Err(error) => return Ok(refused(StatusCode::TOO_MANY_REQUESTS, &error)),
    };
    let (registered, messages) = app.pipes.register(selection.tenant());
    // One message waits at most: the response of a request stays charged until it is in the queue.
    let (output, texts) = mpsc::channel(1);
    let ready = CancellationToken::new();
    let requests = stdio::Requests::default();
    ready.cancel();
    let mut waiting =
        Waiting { requests: requests.clone(), seat: Seat::from_request(request), parked: None };
    waiting.update();
    let settings = stdio::Settings {
        selection,
        limit_bytes: app.settings.max_body_bytes,
        drain_timeout: app.settings.drain_timeout,
        ready,
        stop: CancellationToken::new(),
        requests,
    };
    let source = PipeSource {
        serving: Box::pin(stdio::serve(app.mcp.clone(), settings, messages, output)),
        waiting,
        has_ended: false,
        endpoint: Some(format!("{MESSAGE}?{SESSION}={}", registered.id)),
        texts,
        registered: Some(registered),
        service: app.mcp.clone(),
        slot,
    };
    Ok(respond::events(events::parts(source)))
}

/// Hands a message to the client that the query names.
pub(crate) async fn post(
    app: &App,
    sender: &Sender,
    request: Request<Incoming>,
    charge: &Charge,
) -> Result<Reply, ApiError> {
    let query = request.uri().query().unwrap_or_default();
    let id = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == SESSION);
    let input =
        id.and_then(|(_, id)| app.pipes.find(&id, &sender.tenant())).ok_or_else(no_stream)?;
    let message = match body::message(request, &app.settings, charge).await? {
        Ok(message) => message,
        Err(bad) => return Ok(failed(bad.id.as_ref(), &bad.error, StatusCode::BAD_REQUEST)),
    };
    let memory = MemoryBudget::new(charge.handed_on());
    match input.try_send(Input::Message(message, memory)) {
        Ok(()) => Ok(accepted()),
        Err(TrySendError::Full(_)) => {
            let message =
                format!("{QUEUE} messages wait because the client does not read its stream");
            Ok(refused(StatusCode::TOO_MANY_REQUESTS, &RpcError::invalid_request(message)))
        }
        Err(TrySendError::Closed(_)) => Err(no_stream()),
    }
}

fn no_stream() -> ApiError {
    let message = format!("`{SESSION}` names no open stream of yours; open one with GET {STREAM}");
    ApiError::new(StatusCode::NOT_FOUND, "invalid_request_error", "no_session", message)
}

/// Stream of one client. Dropping it ends what runs for the client.
struct PipeSource {
    serving: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
    waiting: Waiting,
    /// Path for the messages of the client, until it is sent.
    endpoint: Option<String>,
    texts: mpsc::Receiver<String>,
    /// `None` once the gateway stops. The input ends only then: the end of the input of one client
    /// ends the subscriptions of all.
    registered: Option<Registered>,
    service: Arc<Service>,
    slot: StreamSlot,
}

impl Source for PipeSource {
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(endpoint) = self.endpoint.take() {
            return Some(events::typed("endpoint", &endpoint));
        }
        loop {
            tokio::select! {
                biased;
                // None after the last response, once serving has ended.
                text = self.texts.recv() => {
                    return text.map(|text| events::typed("message", &text));
                }
                () = self.slot.evicted() => return None,
                () = self.service.closing().cancelled(), if self.registered.is_some() => {
                    self.registered = None;
                }
                () = serve(&mut self.serving, &mut self.waiting), if !self.has_ended => {
                    self.has_ended = true;
                }
            }
        }
    }
}

/// Serves a client, and notes at each step whether its stream only waits.
async fn serve(serving: &mut Pin<Box<dyn Future<Output = ()> + Send>>, waiting: &mut Waiting) {
    poll_fn(|context| {
        let polled = serving.as_mut().poll(context);
        waiting.update();
        polled
    })
    .await;
}

/// Lets the connection of a stream be evicted while nothing runs for its client.
struct Waiting {
    requests: stdio::Requests,
    seat: Option<Seat>,
    parked: Option<Parked>,
}

impl Waiting {
    /// Notes whether something runs.
    fn update(&mut self) {
        if !self.requests.is_empty() {
            self.parked = None;
        } else if self.parked.is_none() {
            self.parked = self.seat.as_ref().map(|seat| seat.park(Parking::Waiting));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_the_transport_are_found() {
        for path in ["/sse", "/sse/", "/sse/web"] {
            assert_eq!(target(path), Some(Target::Stream), "{path}");
        }
        assert_eq!(target("/message"), Some(Target::Message));
        for path in ["/ssex", "/message/", "/messages", "/mcp", "/"] {
            assert_eq!(target(path), None, "{path}");
        }
    }

    #[test]
    fn a_client_is_found_by_its_own_tenant_while_its_stream_is_open() {
        let pipes = Arc::<Pipes>::default();
        let ann = Tenant::of_key([1; 32], "ann");
        let (registered, _messages) = pipes.register(ann.clone());
        let id = registered.id.clone();
        assert!(pipes.find(&id, &ann).is_some());
        assert!(pipes.find(&id, &Tenant::ANONYMOUS).is_none());
        assert!(pipes.find("", &ann).is_none());
        drop(registered);
        assert!(pipes.find(&id, &ann).is_none());
    }
}
