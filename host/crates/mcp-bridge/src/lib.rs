//! Forwards messages between a client on standard input and output and a running gateway.
//!
//! Messages are forwarded unchanged. The bridge adds the headers of the HTTP transport and keeps
//! the session of a client of the legacy era: it opens a new session when the old one has expired,
//! and resumes a stream that was cut.

mod failure;
mod sent;

use std::{collections::HashMap, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use parking_lot::{Mutex, MutexGuard};
use reqwest::{RequestBuilder, Response, Url};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use self::{
    failure::{Failed, no_message},
    sent::Sent,
};
use airlock_json::raw;
use airlock_wire::{
    error::{RpcError, code},
    headers::{self, LAST_EVENT, METHOD, NAME, SESSION, VERSION},
    id::RpcId,
    lines::{Line, caps},
    message::{self, BadMessage, Message, Request},
    method,
    sse::{Dialect, Item, SseDecoder},
};

const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Attempts to resume a stream that was cut.
const RESUMES: u32 = 5;
/// Pause before a stream is opened again.
const RETRY: Duration = Duration::from_secs(1);
/// Pause before the stream for notifications is opened again.
const LISTEN_RETRY: Duration = Duration::from_secs(3);
/// Identifier of the request that opens a session anew.
const REOPENING: u64 = u64::MAX;

/// Settings of a bridge.
pub struct BridgeSettings {
    /// Client for HTTP. It follows no redirects, because requests carry a credential.
    pub http: reqwest::Client,
    /// The gateway's endpoint.
    pub url: Url,
    /// Headers of every request, the credential among them.
    pub headers: HeaderMap,
    /// Longest line, in bytes.
    pub limit_bytes: usize,
    /// Time for running requests to end after the end of the input.
    pub drain_timeout: Duration,
    /// Cancelled when the bridge has to end at once.
    pub stop: CancellationToken,
}

/// Forwards messages until the input ends or `stop` is cancelled. A request without a response of
/// the gateway gets an error.
pub async fn run_bridge(
    settings: BridgeSettings,
    mut lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<String>,
) {
    let stop = settings.stop.clone();
    let drain_timeout = settings.drain_timeout;
    let bridge = Arc::new(Bridge {
        settings,
        output,
        state: Mutex::default(),
        reopening: tokio::sync::Mutex::default(),
    });
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            line = lines.recv() => match line {
                // The client may not read what is answered.
                Some(line) => {
                    if stop.run_until_cancelled(Box::pin(bridge.take(line, &mut tasks))).await.is_none() {
                        break;
                    }
                }
                None => break,
            },
            Some(_) = tasks.join_next() => {}
        }
    }
    bridge.state().listening.cancel();
    let draining = async { while tasks.join_next().await.is_some() {} };
    let _ = stop.run_until_cancelled(tokio::time::timeout(drain_timeout, draining)).await;
    tasks.shutdown().await;
    bridge.close_session().await;
}

struct Bridge {
    settings: BridgeSettings,
    output: mpsc::Sender<String>,
    state: Mutex<BridgeState>,
    /// Held while a session is opened anew, so that one is opened for all requests that need it.
    reopening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct BridgeState {
    session: Option<HeaderValue>,
    /// Revision in the response to `initialize`.
    version: Option<HeaderValue>,
    /// The client's `initialize` request, to open a session anew.
    initialize: Option<Arc<str>>,
    /// Input schemas with annotations for headers, by tool.
    schemas: HashMap<String, Arc<str>>,
    /// Running requests. Those of the modern era are cancelled by closing the connection.
    running: HashMap<RpcId, CancellationToken>,
    /// Ends the stream for notifications.
    listening: CancellationToken,
}

impl Bridge {
    async fn take(self: &Arc<Self>, line: Line, tasks: &mut JoinSet<()>) {
        let (message, sent) = match self.parse(line) {
            Ok(None) => return,
            Ok(Some(read)) => read,
            Err(bad) => return self.write(message::failure(bad.id.as_ref(), &bad.error)).await,
        };
        let sent = match &message {
            Message::Request(request) => self.describe(request, sent),
            Message::Notification(notification) => {
                // A session's request is cancelled at the gateway too.
                if let Some(id) = notification.cancelled()
                    && let Some(running) = self.state().running.get(&id)
                {
                    running.cancel();
                }
                if notification.method == method::INITIALIZED {
                    let listening = self.clone().listen();
                    // Sent before the stream is opened.
                    self.carry(Sent::plain(sent)).await;
                    tasks.spawn(listening);
                    return;
                }
                Sent::plain(sent)
            }
            Message::Response(_) => Sent::plain(sent),
        };
        if sent.is_initialize {
            // Later messages need its session.
            return self.carry(sent).await;
        }
        let bridge = self.clone();
        tasks.spawn(async move { bridge.carry(sent).await });
    }

    /// Reads a line; `None` if it is blank. Returns the message and its text.
    fn parse(&self, line: Line) -> Result<Option<(Message, Arc<str>)>, BadMessage> {
        let limit_bytes = self.settings.limit_bytes;
        let Some(text) = line.into_text(limit_bytes)? else { return Ok(None) };
        let sent = String::from_utf8_lossy(&text).into();
        Ok(Some((Message::read(text, &caps(limit_bytes))?, sent)))
    }

    fn describe(&self, request: &Request, text: Arc<str>) -> Sent {
        let params = &request.params;
        let version = params.version();
        let mut sent = Sent {
            id: Some(request.id.clone()),
            is_modern: version.is_some(),
            is_initialize: version.is_none() && request.method == method::INITIALIZE,
            lists_tools: request.method == method::TOOLS_LIST,
            ..Sent::plain(text)
        };
        let Some(version) = version else { return sent };
        sent.add(VERSION, &version);
        sent.add(METHOD, &request.method);
        let Some(name) = headers::name(&request.method, params) else { return sent };
        sent.add(NAME, &headers::encoded(&name));
        let schema = self.state().schemas.get(name.as_ref()).cloned();
        if request.method == method::TOOLS_CALL
            && let Some(schema) = schema
        {
            let arguments = params.get("arguments").unwrap_or("{}");
            for (header, value) in headers::expected(&schema, arguments) {
                if let Some(value) = value {
                    sent.add(header, &headers::encoded(&value));
                }
            }
        }
        sent
    }

    /// Forwards one message, and the response of the gateway.
    async fn carry(&self, sent: Sent) {
        let cancel = self.settings.stop.child_token();
        if let Some(id) = sent.id.clone() {
            self.state().running.insert(id, cancel.clone());
        }
        if let Some(Err(failed)) = cancel.run_until_cancelled(self.try_carry(&sent)).await
            && let Some(id) = &sent.id
        {
            // The logs of desktop agents show it.
            tracing::warn!(url = %self.settings.url, reason = %failed, "a message was not forwarded");
            let error = RpcError::new(code::REFUSED, failed.to_string());
            self.write(message::failure(Some(id), &error)).await;
        }
        if let Some(id) = &sent.id {
            self.state().running.remove(id);
        }
    }

    async fn try_carry(&self, sent: &Sent) -> Result<(), Failed> {
        let session = self.state().session.clone();
        let mut response = self.post(sent).await?;
        if response.status() == StatusCode::NOT_FOUND
            && !sent.is_initialize
            && !sent.is_modern
            && let Some(session) = session
        {
            self.reopen(&session).await?;
            response = self.post(sent).await?;
        }
        self.read(response, sent).await
    }

    async fn post(&self, sent: &Sent) -> Result<Response, Failed> {
        let request = self
            .request(Method::POST, !sent.is_modern && !sent.is_initialize)
            .header(header::ACCEPT, BOTH)
            .header(header::CONTENT_TYPE, "application/json")
            .headers(sent.headers.clone())
            .body(sent.text.to_string());
        Ok(request.send().await?)
    }

    fn request(&self, method: Method, is_in_session: bool) -> RequestBuilder {
        let BridgeSettings { http, url, headers, .. } = &self.settings;
        let mut request = http.request(method, url.clone()).headers(headers.clone());
        if is_in_session {
            let state = self.state();
            for (name, value) in [(SESSION, &state.session), (VERSION, &state.version)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
        }
        request
    }

    /// Opens a new session in the place of an expired one, with the client's own `initialize`.
    async fn reopen(&self, expired: &HeaderValue) -> Result<(), Failed> {
        let _turn = self.reopening.lock().await;
        if self.state().session.as_ref() != Some(expired) {
            return Ok(());
        }
        let initialize = self.state().initialize.clone();
        let initialize = initialize.ok_or_else(|| Failed("the session has expired".to_owned()))?;
        let id = RpcId::own(REOPENING);
        let mut members: serde_json::Value =
            serde_json::from_str(&initialize).map_err(|error| Failed(error.to_string()))?;
        members["id"] = serde_json::from_str(id.as_json()).unwrap_or_default();
        let sent = Sent { is_initialize: true, ..Sent::plain(members.to_string().into()) };
        let response = self.post(&sent).await?;
        if !response.status().is_success() {
            return Err(Failed(format!("the session has expired, and {}", response.status())));
        }
        self.note_session(response.headers());
        let initialized = message::notification(method::INITIALIZED, &serde_json::json!({}));
        self.post(&Sent::plain(initialized.into())).await?;
        Ok(())
    }

    fn note_session(&self, headers: &HeaderMap) {
        self.state().session = headers.get(SESSION).cloned();
    }

    /// Writes what a response holds: a message, a stream of them, or an error.
    async fn read(&self, response: Response, sent: &Sent) -> Result<(), Failed> {
        let status = response.status();
        if sent.is_initialize {
            self.note_session(response.headers());
            self.state().initialize = Some(sent.text.clone());
        }
        let kind = response.headers().get(header::CONTENT_TYPE).cloned();
        let kind = kind.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            return self.read_stream(response, sent).await;
        }
        let location = response.headers().get(header::LOCATION);
        let location = location.and_then(|location| location.to_str().ok()).map(str::to_owned);
        let body = response.text().await?;
        let is_message = raw::member(&body, "jsonrpc").is_some();
        match &sent.id {
            None => {
                if !status.is_success() {
                    tracing::warn!(%status, "the gateway refused a message");
                }
                Ok(())
            }
            Some(id) if is_message && raw::member(&body, "id").is_none_or(|id| id == "null") => {
                // An error that was found before the request was read.
                let error = raw::member(&body, "error").unwrap_or("{}");
                self.receive(message::failure_as_sent(Some(id), error), sent).await;
                Ok(())
            }
            Some(_) if is_message => {
                self.receive(body, sent).await;
                Ok(())
            }
            Some(_) => Err(no_message(status, location.as_deref(), &body)),
        }
    }

    /// Writes the messages of a stream. A stream of the legacy era that is cut is resumed.
    async fn read_stream(&self, response: Response, sent: &Sent) -> Result<(), Failed> {
        let mut last = None;
        let mut response = Some(response);
        for _ in 0..=RESUMES {
            if let Some(response) = response.take()
                && self.copy(response, sent, &mut last).await
            {
                return Ok(());
            }
            if sent.is_modern {
                break;
            }
            let Some(event) = last.clone() else { break };
            sleep(RETRY).await;
            let resuming = self
                .request(Method::GET, true)
                .header(header::ACCEPT, EVENTS)
                .header(LAST_EVENT, event);
            response = resuming.send().await.ok().filter(|response| response.status().is_success());
        }
        Err(Failed("the connection to the gateway was lost before the response".to_owned()))
    }

    /// Writes the messages of a stream until it ends; true if the response was among them.
    async fn copy(
        &self,
        mut response: Response,
        sent: &Sent,
        last: &mut Option<HeaderValue>,
    ) -> bool {
        let mut decoder = SseDecoder::new(Dialect::Mcp, self.settings.limit_bytes);
        while let Ok(Some(chunk)) = response.chunk().await {
            let mut bytes = &chunk[..];
            while let Some(item) = decoder.next(&mut bytes) {
                // The gateway bounds its messages well below.
                let Item::Event(event) = item else { return false };
                *last = event.id.or(last.take());
                let Ok(data) = String::from_utf8(event.data) else { return false };
                if data.is_empty() {
                    continue;
                }
                let is_response = raw::member(&data, "method").is_none()
                    && raw::member(&data, "id").map(str::trim)
                        == sent.id.as_ref().map(RpcId::as_json);
                self.receive(data, sent).await;
                if is_response {
                    return true;
                }
            }
        }
        false
    }

    /// Opens the stream for notifications, again whenever it ends. Ends with the session.
    async fn listen(self: Arc<Self>) {
        let stop = {
            let mut state = self.state();
            state.listening.cancel();
            state.listening = self.settings.stop.child_token();
            state.listening.clone()
        };
        let listening = async {
            loop {
                let request = self.request(Method::GET, true).header(header::ACCEPT, EVENTS);
                match request.send().await {
                    Ok(response) if response.status().is_success() => {
                        self.copy(response, &Sent::plain("".into()), &mut None).await;
                    }
                    // The gateway has no such stream, or the client may not open it.
                    Ok(response) if is_final(response.status()) => return,
                    // The session has expired, and the next request opens a new one; or there is no
                    // room now.
                    Ok(_) | Err(_) => {}
                }
                sleep(LISTEN_RETRY).await;
            }
        };
        stop.run_until_cancelled(listening).await;
    }

    /// Writes a message of the gateway, and notes what later requests need of it.
    async fn receive(&self, text: String, sent: &Sent) {
        if sent.is_initialize {
            let version = raw::member(&text, "result")
                .and_then(|result| raw::member(result, "protocolVersion"))
                .and_then(raw::string);
            self.state().version =
                version.and_then(|version| HeaderValue::try_from(version.as_ref()).ok());
        }
        if sent.lists_tools && text.contains("x-mcp-header") {
            self.note_schemas(&text);
        }
        self.write(text).await;
    }

    fn note_schemas(&self, text: &str) {
        let tools = raw::member(text, "result").and_then(|result| raw::member(result, "tools"));
        for tool in tools.and_then(raw::elements).into_iter().flatten() {
            let schema =
                raw::member(tool, "inputSchema").filter(|schema| schema.contains("x-mcp-header"));
            let name = raw::member(tool, "name").and_then(raw::string);
            if let (Some(name), Some(schema)) = (name, schema) {
                self.state().schemas.insert(name.into_owned(), schema.into());
            }
        }
    }

    async fn write(&self, text: String) {
        // A line break in JSON is between two values.
        let line = if text.contains(['\n', '\r']) { text.replace(['\n', '\r'], " ") } else { text };
        let _ = self.output.send(line).await;
    }

    async fn close_session(&self) {
        if self.state().session.is_some() {
            let closing = self.request(Method::DELETE, true).send();
            let _ = tokio::time::timeout(RETRY, closing).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, BridgeState> {
        self.state.lock()
    }
}

/// Returns whether a stream for notifications will be refused again with this status.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error()
        && !matches!(status, StatusCode::NOT_FOUND | StatusCode::TOO_MANY_REQUESTS)
}
