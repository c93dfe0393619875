//! `/mcp`, `/mcp/{client}` and `/mcp/{slug}` of a group of tools: the gateway as an MCP server over streamable HTTP, in both eras of the
//! protocol.
//!
//! A request of the modern era (2026-07-28) is complete in itself, and is cancelled when its
//! connection is closed. One of the legacy era belongs to a session if it names one; without a
//! session it is served all the same, as Bifrost does. The methods are in [`mcp`](airlock_mcp_server).

mod accept;
mod headers;
mod lease;
mod pipes;
mod reply;
pub(super) mod sse;
mod stream;

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, Method, Request, StatusCode};

use self::{
    accept::Accept,
    lease::StreamLease,
    reply::{accepted, answered, ended, failed, refused, shared, with_session},
    stream::{LogSource, ModernSource, NoticeSource},
};
pub(super) use self::{pipes::Pipes, sse::SseTarget};
use super::{App, options};
use airlock_core::{
    memory::MemoryBudget,
    replica::ReplicaId,
    request_memory::RequestCharge,
    tool::{ClientName, QuestionKinds},
};
use airlock_http::{
    body, events,
    respond::{self, ApiError, Reply},
};
use airlock_ingress::{Parking, RequestBody, Seat};
use airlock_mcp_server::{
    Answer, EMPTY_RESULT, ListWatch, ListedPage, Outgoing, Peer, Requester, Selection, Session,
    SessionResponse, ToolboxScope, client_name, initialized_name, is_relayed, no_memory, owner,
    requested_log_level,
};
use airlock_replicas::ForwardedHead;
use airlock_requests::Sender;
use airlock_wire::{
    error::{RpcError, code},
    headers::{LAST_EVENT, SESSION},
    id::RpcId,
    message::{self, Message},
    method,
    version::Version,
};

/// Time for a response to be ready before a stream begins. Most are, and need no stream.
const STREAM_AFTER: Duration = Duration::from_millis(100);

/// Path of the endpoint.
const PATH: &str = "/mcp";

/// Returns the rest of a path after that of the endpoint; `None` for other paths.
pub(super) fn parse_path(path: &str) -> Option<&str> {
    path.strip_prefix(PATH).filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Handles a request to the endpoint.
pub(super) async fn handle(
    app: &App,
    sender: &Sender,
    rest: &str,
    request: Request<RequestBody>,
    charge: &RequestCharge,
) -> Result<Reply, ApiError> {
    let seat = request.body().seat().cloned();
    let headers = request.headers();
    if let Some(elsewhere) = app.elsewhere(session_owner(headers), headers).await? {
        let is_waiting = *request.method() == Method::GET;
        let reply = elsewhere.pass_on(request, app.settings.bodies(), charge).await?;
        let reply = reply.ok_or_else(no_session)?;
        return Ok(if is_waiting { waiting(seat.as_ref(), reply) } else { reply });
    }
    let selection = selection(app, sender, rest)?;
    let call = McpCall { app, selection, charge };
    match *request.method() {
        Method::GET => {
            let reply = call.open_stream(request.headers())?;
            Ok(waiting(seat.as_ref(), reply))
        }
        Method::DELETE => call.close_session(request.headers()),
        _ => call.post(request).await,
    }
}

fn no_session() -> ApiError {
    let message = "the session does not exist, has expired, or was opened at another gateway, which cannot be reached or has \
                   no `server.replica_url`; send `initialize`";
    ApiError::not_found("no_session", message)
}

/// Returns the gateway that has the session that a request names; `None` if it names none.
fn session_owner(headers: &HeaderMap) -> Option<ReplicaId> {
    ReplicaId::of_text(headers.get(SESSION)?.to_str().ok()?)
}

/// Lets a connection be evicted while its stream waits for notifications. The client opens a lost
/// stream again.
fn waiting(seat: Option<&Seat>, reply: Reply) -> Reply {
    let parked = seat.map(|seat| seat.park(Parking::Waiting));
    respond::holding(reply, parked)
}

/// Returns the tools that a request asks for. `rest` is its path after that of the endpoint. Fails if
/// it names neither a client nor a group of tools, or one that the sender may not see.
fn selection(app: &App, sender: &Sender, rest: &str) -> Result<Selection, ApiError> {
    let key = sender.key.clone();
    let filter = sender.filter.clone();
    let name = rest.trim_matches('/');
    if name.is_empty() {
        return Ok(Selection { key, filter, scope: ToolboxScope::All });
    }
    let snapshot = app.parts.catalog.snapshot();
    let scope = match snapshot.group(name, key.as_deref()) {
        Some(group) => Some(ToolboxScope::Group(group.slug.clone())),
        None => ClientName::parse(name)
            .ok()
            .filter(|client| snapshot.shows(client, &filter, key.as_deref()))
            .map(ToolboxScope::Client),
    };
    match scope {
        Some(scope) => Ok(Selection { key, filter, scope }),
        // Unknown ones and hidden ones look the same.
        None => Err(ApiError::not_found(
            "unknown_client",
            "no client or virtual MCP of this name that you may see; all tools are at /mcp",
        )),
    }
}

/// A request to the endpoint.
struct McpCall<'a> {
    app: &'a App,
    selection: Selection,
    charge: &'a RequestCharge,
}

impl McpCall<'_> {
    async fn post(&self, mut request: Request<RequestBody>) -> Result<Reply, ApiError> {
        let accept = Accept::read(request.headers());
        if !accept.is_any() {
            return Ok(not_acceptable());
        }
        let headers = mem::take(request.headers_mut());
        let uri = request.uri().clone();
        let timeout = options::timeout(
            &headers,
            self.app.parts.budget.script.max(self.app.parts.budget.deadline),
        )?;
        let seat = request.body().seat().cloned();
        let message = body::message(&headers, request, self.app.settings.bodies(), self.charge);
        let message = message.await?;
        let message = match message {
            Ok(message) => message,
            Err(bad) => return Ok(failed(bad.id.as_ref(), &bad.error, StatusCode::BAD_REQUEST)),
        };
        let version = match headers::version(&headers) {
            Ok(version) => version,
            Err(error) => return Ok(refused(StatusCode::BAD_REQUEST, &error)),
        };
        match message {
            Message::Request(request) => {
                let owner = if headers.contains_key(SESSION) { None } else { owner(&request) };
                if let Some(elsewhere) = self.app.elsewhere(owner, &headers).await? {
                    let text = request.to_text().into_bytes();
                    self.charge.grow(text.capacity())?;
                    let head = ForwardedHead::new(Method::POST, uri, headers.clone());
                    if let Some(reply) = elsewhere.send(head, text, self.charge).await? {
                        return Ok(reply);
                    }
                }
                if method::is_list(&request.method) {
                    self.app.mcp.settled(&self.selection).await;
                }
                let is_modern = request.params.names_version()
                    || version.is_modern()
                    || request.method == method::DISCOVER;
                if is_modern {
                    let is_listening = request.method == method::LISTEN;
                    let reply = self.modern(request, &headers, accept, timeout).await?;
                    Ok(if is_listening { waiting(seat.as_ref(), reply) } else { reply })
                } else {
                    self.legacy(request, &headers, version, accept, timeout).await
                }
            }
            Message::Notification(notification) => {
                // Ends the request of a session; in the modern era, closing the stream does.
                if let Some(id) = notification.cancelled()
                    && let Some(session) = self.session(&headers)?
                {
                    session.cancel(&id);
                }
                Ok(accepted())
            }
            Message::Response(response) => {
                let Some(session) = self.session(&headers)? else {
                    return Ok(refused(
                        StatusCode::BAD_REQUEST,
                        &RpcError::invalid_request("a response needs `Mcp-Session-Id`"),
                    ));
                };
                // One to a request that the gateway has given up changes nothing.
                session.asks().resolve(&response);
                Ok(accepted())
            }
        }
    }

    /// Handles a request that is complete in itself. Dropping the response cancels it.
    async fn modern(
        &self,
        request: message::Request,
        headers: &HeaderMap,
        accept: Accept,
        timeout: Duration,
    ) -> Result<Reply, ApiError> {
        let checked = headers::check_version(headers, &request.params);
        let peer = match checked.and_then(|()| Peer::modern(&request.params)) {
            Ok(peer) => peer,
            Err(error) => return Ok(failed(Some(&request.id), &error, StatusCode::BAD_REQUEST)),
        };
        let toolbox = self.app.mcp.toolboxes().open(&self.selection);
        if let Err(error) = headers::check(headers, &request, &toolbox) {
            return Ok(failed(Some(&request.id), &error, StatusCode::BAD_REQUEST));
        }
        drop(toolbox);
        let lease = if request.method == method::LISTEN {
            if !accept.streams {
                return Ok(not_acceptable());
            }
            match StreamLease::take(self.app, &self.selection) {
                Ok(lease) => Some(lease),
                Err(error) => {
                    return Ok(failed(Some(&request.id), &error, StatusCode::TOO_MANY_REQUESTS));
                }
            }
        } else {
            None
        };
        let name = client_name(&request.params);
        let client = Requester { name, ..self.client(peer, timeout) };
        let mut exchange = self.app.mcp.begin(request, client);
        if !accept.streams {
            let answer = exchange.response().await.ok_or_else(ApiError::internal)?;
            return Ok(self.whole(exchange.id(), answer, modern_status));
        }
        let first = match tokio::time::timeout(STREAM_AFTER, exchange.next()).await {
            Ok(Some(Outgoing::Last(answer))) if accept.json => {
                return Ok(self.whole(exchange.id(), answer, modern_status));
            }
            Ok(first) => first,
            Err(_) => None,
        };
        Ok(respond::events(events::parts(ModernSource::new(
            exchange,
            first,
            lease,
            self.charge.clone(),
        ))))
    }

    /// Handles a request of the legacy era.
    async fn legacy(
        &self,
        request: message::Request,
        headers: &HeaderMap,
        version: Version,
        accept: Accept,
        timeout: Duration,
    ) -> Result<Reply, ApiError> {
        if let Err(error) = headers::check_method(headers, &request.method) {
            return Ok(failed(Some(&request.id), &error, StatusCode::BAD_REQUEST));
        }
        if request.method == method::INITIALIZE {
            return Ok(self.initialize(&request));
        }
        match self.session(headers)? {
            Some(session) => self.in_session(&session, request, accept, timeout).await,
            None => Ok(self.without_session(request, version, timeout).await),
        }
    }

    fn initialize(&self, request: &message::Request) -> Reply {
        let began = Instant::now();
        let peer = match Peer::initializing(&request.params) {
            Ok(peer) => peer,
            Err(error) => return failed(Some(&request.id), &error, StatusCode::OK),
        };
        let scope = self.selection.scope.clone();
        match self.app.sessions.open(self.selection.tenant(), scope, peer) {
            Ok(session) => {
                if let Some(name) = initialized_name(&request.params) {
                    session.set_client_name(name);
                }
                let result = Ok(self.app.mcp.initialized(peer.version, &self.selection));
                self.app.mcp.times().observe(method::INITIALIZE, began, &result);
                let text = Answer::new(&request.id, result).text;
                with_session(respond::json_text(text), session.id())
            }
            Err(error) => failed(Some(&request.id), &error, StatusCode::TOO_MANY_REQUESTS),
        }
    }

    async fn in_session(
        &self,
        session: &Arc<Session>,
        request: message::Request,
        accept: Accept,
        timeout: Duration,
    ) -> Result<Reply, ApiError> {
        let began = Instant::now();
        let id = request.id.clone();
        let method_name = method::metric_name(&request.method);
        let mut client = self.client(session.peer(), timeout);
        client.name = session.client_name();
        let result = match request.method.as_str() {
            method::SET_LEVEL => requested_log_level(&request).map(|level| {
                session.set_log_level(level);
                EMPTY_RESULT.to_owned()
            }),
            name if method::is_list(name) => {
                self.app.mcp.list(&request, &client).map(|ListedPage { text, known }| {
                    session.set_known(known);
                    text
                })
            }
            method::RESOURCES_SUBSCRIBE | method::RESOURCES_UNSUBSCRIBE => {
                self.app.mcp.change_subscription(&request, &client, session.subscriptions())
            }
            method if is_asking(method) => {
                client.asks = accept.streams.then(|| session.asks().clone());
                client.received = session.received().clone();
                let exchange = self.app.mcp.begin(request, client);
                // Kept for longer than the request.
                let memory = MemoryBudget::new(self.charge.beside(0));
                return match session.run(exchange, memory, self.charge.clone()) {
                    Ok(response) => Ok(self.logged(session, response, accept).await),
                    Err(error) => Ok(failed(Some(&id), &error, StatusCode::OK)),
                };
            }
            _ => {
                let mut exchange = self.app.mcp.begin(request, client);
                let answer = exchange.response().await.ok_or_else(ApiError::internal)?;
                return Ok(self.whole(&id, answer, legacy_status));
            }
        };
        self.app.mcp.times().observe(method_name, began, &result);
        Ok(self.whole(&id, Answer::new(&id, result), legacy_status))
    }

    /// Returns the response of a request that runs in its session: whole if it is ready at once, else
    /// as a stream that can be resumed.
    async fn logged(&self, session: &Session, mut begun: SessionResponse, accept: Accept) -> Reply {
        if !accept.streams {
            // None of a cancelled request.
            let text = begun.response().await;
            drop(begun);
            return text.map_or_else(accepted, shared);
        }
        if accept.json
            && let Ok(Some(next)) = tokio::time::timeout(STREAM_AFTER, begun.peek()).await
            && next.is_last
        {
            drop(begun);
            return shared(next.text);
        }
        let is_primed = session.peer().version >= Version::V2025_11_25;
        respond::events(events::parts(LogSource::new(begun.into_stream(), is_primed)))
    }

    /// Handles a request of the legacy era that names no session. The client cannot be asked, and
    /// receives only the response.
    async fn without_session(
        &self,
        request: message::Request,
        version: Version,
        timeout: Duration,
    ) -> Reply {
        let id = request.id.clone();
        if request.method == method::SET_LEVEL {
            // There is no stream that messages could be sent on.
            let result = requested_log_level(&request).map(|_| EMPTY_RESULT.to_owned());
            return self.whole(&id, Answer::new(&id, result), legacy_status);
        }
        let peer = Peer {
            version,
            questions: QuestionKinds::NONE,
            log_level: None,
            takes_tasks: version == Version::V2025_11_25,
        };
        let mut exchange = self.app.mcp.begin(request, self.client(peer, timeout));
        match exchange.response().await {
            Some(answer) => self.whole(&id, answer, legacy_status),
            None => accepted(),
        }
    }

    /// Opens the stream of a session for notifications, or resumes a stream that was lost.
    fn open_stream(&self, headers: &HeaderMap) -> Result<Reply, ApiError> {
        if !Accept::read(headers).streams {
            return Ok(not_acceptable());
        }
        let Some(session) = self.session(headers)? else {
            return Err(ApiError::wrong_method(&[Method::POST]));
        };
        if headers.contains_key(LAST_EVENT) {
            let lost = stream::last_event(headers)
                .and_then(|(stream, number)| Some(session.log(stream)?.reader(number)));
            // A stream that is not kept any more ends at once: an error would be tried again.
            let Some(reader) = lost else { return Ok(ended()) };
            return Ok(respond::events(events::parts(LogSource::new(reader, false))));
        }
        let lease = match StreamLease::take(self.app, &self.selection) {
            Ok(lease) => lease,
            Err(error) => return Ok(refused(StatusCode::TOO_MANY_REQUESTS, &error)),
        };
        // The key may have had other rights when the subscriptions were made.
        self.app.mcp.restrict_subscriptions(&self.selection, session.subscriptions());
        let toolboxes = self.app.mcp.toolboxes();
        let watch = ListWatch::new(toolboxes, self.selection.clone(), session.known());
        let source = NoticeSource::new(self.app.mcp.clone(), session.listen(), watch, lease);
        Ok(respond::events(events::parts(source)))
    }

    fn close_session(&self, headers: &HeaderMap) -> Result<Reply, ApiError> {
        match self.session(headers)? {
            Some(session) => {
                self.app.sessions.close(&session);
                Ok(reply::no_content())
            }
            None => Err(ApiError::bad_request("no_session", "`Mcp-Session-Id` is missing")),
        }
    }

    /// Finds the session that a request names; `None` if it names none. Fails if the session does not
    /// exist for the sender at this path.
    fn session(&self, headers: &HeaderMap) -> Result<Option<Arc<Session>>, ApiError> {
        let Some(id) = headers.get(SESSION) else { return Ok(None) };
        let id = id.to_str().unwrap_or_default();
        let found = self.app.sessions.find(id, &self.selection.tenant(), &self.selection.scope);
        found.map(Some).ok_or_else(no_session)
    }

    fn client(&self, peer: Peer, timeout: Duration) -> Requester {
        Requester::new(self.selection.clone(), peer, timeout)
    }

    /// Returns a response that is ready, with the status of its error.
    fn whole(&self, id: &RpcId, answer: Answer, status: fn(Option<i64>) -> StatusCode) -> Reply {
        if self.charge.grow(answer.text.len()).is_err() {
            return failed(Some(id), &no_memory(), StatusCode::SERVICE_UNAVAILABLE);
        }
        answered(status(answer.error), answer.text)
    }
}

/// Returns whether the gateway may ask the client while it handles a request.
fn is_asking(method: &str) -> bool {
    matches!(method, method::TOOLS_CALL | method::TASKS_RESULT) || is_relayed(method)
}

/// The client accepts no form of response that the request can have.
fn not_acceptable() -> Reply {
    let message = "`Accept` must name \"application/json\" and \"text/event-stream\"";
    refused(StatusCode::NOT_ACCEPTABLE, &RpcError::invalid_request(message))
}

/// Status of a response of the modern era (2026-07-28, section "Streamable HTTP").
fn modern_status(error: Option<i64>) -> StatusCode {
    match error {
        Some(code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => {
            StatusCode::BAD_REQUEST
        }
        _ => StatusCode::OK,
    }
}

/// Status of a response of the legacy era: errors are in the body.
fn legacy_status(_error: Option<i64>) -> StatusCode {
    StatusCode::OK
}

/// Returns an error of the server in the form of JSON-RPC.
pub(super) fn rpc_failure(error: ApiError) -> Reply {
    reply::of_api_error(error)
}
