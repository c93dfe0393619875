//! `/sse`, `/sse/{client}` and `/message`: the transport HTTP+SSE of MCP 2024-11-05, for clients that
//! speak no newer one. It is deprecated, and served only if the configuration says so.
//!
//! A client opens a stream with GET. Its first event names the path to which the client posts its
//! messages; all messages to the client are events of the stream. The client is served while the
//! stream is polled: the end of the stream ends all that runs for the client. Calls are made for the sender
//! of the GET, whose access token is not kept: none is exchanged for another one. When the rights of that
//! sender change, the input of its client ends, and the stream after the calls that run.

use std::{future::poll_fn, mem, pin::Pin, sync::Arc};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio_util::sync::CancellationToken;
use url::form_urlencoded;

use super::{
    accept::Accept,
    lease::StreamLease,
    not_acceptable,
    pipes::{QUEUE, Registered},
    reply::{accepted, failed, refused},
    selection,
};
use crate::App;
use airlock_core::{memory::MemoryBudget, replica::ReplicaId, request_memory::RequestCharge};
use airlock_http::{
    body,
    events::{self, EventSource},
    respond::{self, ApiError, Reply},
};
use airlock_ingress::{ParkedRequest, Parking, RequestBody, Seat};
use airlock_mcp_server::{
    ConnectionRequests, ConnectionSettings, Input, McpService, serve_connection,
};
use airlock_requests::Sender;
use airlock_wire::error::RpcError;

/// Path of the stream. The name of a client may follow it.
const STREAM: &str = "/sse";
/// Path to which messages are posted.
const MESSAGE: &str = "/message";
/// Parameter of [`MESSAGE`] that names the stream.
const SESSION: &str = "sessionId";

/// Purpose of a path of the transport.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SseTarget<'p> {
    /// Opens a stream. The rest of the path may name a client.
    Stream(&'p str),
    /// Posts a message.
    Message,
}

impl<'p> SseTarget<'p> {
    /// Finds the target of a path; `None` if the path is none of the transport's.
    pub(crate) fn parse(path: &'p str) -> Option<Self> {
        if path == MESSAGE {
            return Some(Self::Message);
        }
        let rest = path.strip_prefix(STREAM)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(Self::Stream(rest))
    }

    /// Returns the methods of the target.
    pub(crate) fn methods(self) -> &'static [Method] {
        match self {
            Self::Stream(_) => &[Method::GET],
            Self::Message => &[Method::POST],
        }
    }
}

/// Opens the stream of a client.
pub(crate) fn open(
    app: &App,
    sender: &Sender,
    rest: &str,
    request: &Request<RequestBody>,
) -> Result<Reply, ApiError> {
    if !Accept::read(request.headers()).streams {
        return Ok(not_acceptable());
    }
    let selection = selection(app, sender, rest)?;
    let lease = match StreamLease::take(app, &selection) {
        Ok(lease) => lease,
        Err(error) => return Ok(refused(StatusCode::TOO_MANY_REQUESTS, &error)),
    };
    let (registered, messages) = app.pipes.register(selection.tenant(), selection.key.as_deref());
    // One message waits at most: the response of a request stays charged until it is in the queue.
    let (output, texts) = mpsc::channel(1);
    let ready = CancellationToken::new();
    let requests = ConnectionRequests::default();
    ready.cancel();
    let seat = request.body().seat().cloned();
    let mut waiting = Waiting { requests: requests.clone(), seat, parked: None };
    waiting.update();
    let settings = ConnectionSettings {
        selection,
        limit_bytes: app.settings.max_body_bytes,
        drain_timeout: app.settings.drain_timeout,
        ready,
        stop: CancellationToken::new(),
        requests,
    };
    let source = PipeSource {
        serving: Box::pin(serve_connection(app.mcp.clone(), settings, messages, output)),
        waiting,
        has_ended: false,
        endpoint: Some(format!("{MESSAGE}?{SESSION}={}", registered.id)),
        texts,
        registered: Some(registered),
        service: app.mcp.clone(),
        lease,
    };
    Ok(respond::events(events::parts(source)))
}

/// Hands a message to the client that the query names.
pub(crate) async fn post(
    app: &App,
    sender: &Sender,
    mut request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let query = request.uri().query().unwrap_or_default();
    let id = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == SESSION);
    let id = id.map(|(_, id)| id.into_owned()).ok_or_else(no_stream)?;
    if let Some(elsewhere) = app.elsewhere(ReplicaId::of_text(&id), request.headers()).await? {
        let reply = elsewhere.pass_on(request, app.settings.bodies(), charge).await?;
        return reply.ok_or_else(no_stream);
    }
    let key = sender.key.as_deref();
    let input = app.pipes.find(&id, &sender.tenant(), key).ok_or_else(no_stream)?;
    let headers = mem::take(request.headers_mut());
    let message = match body::message(&headers, request, app.settings.bodies(), charge).await? {
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
    ApiError::not_found("no_session", message)
}

/// Stream of one client. Dropping it ends what runs for the client.
struct PipeSource {
    serving: Pin<Box<dyn Future<Output = ()> + Send>>,
    has_ended: bool,
    waiting: Waiting,
    /// Path for the messages of the client, until it is sent.
    endpoint: Option<String>,
    texts: mpsc::Receiver<String>,
    /// `None` once the gateway stops or the rights of the client end, which ends the input.
    registered: Option<Registered>,
    service: Arc<McpService>,
    lease: StreamLease,
}

impl EventSource for PipeSource {
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
                () = self.lease.evicted() => return None,
                () = self.lease.rights_ended(), if self.registered.is_some() => {
                    self.registered = None;
                }
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
    requests: ConnectionRequests,
    seat: Option<Seat>,
    parked: Option<ParkedRequest>,
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
            let found = SseTarget::parse(path);
            assert_eq!(found, Some(SseTarget::Stream(&path[STREAM.len()..])), "{path}");
        }
        assert_eq!(SseTarget::parse("/message"), Some(SseTarget::Message));
        for path in ["/ssex", "/message/", "/messages", "/mcp", "/"] {
            assert_eq!(SseTarget::parse(path), None, "{path}");
        }
    }
}
