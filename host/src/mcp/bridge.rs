//! Carries messages between a client on standard input and output and a gateway elsewhere.
//!
//! Messages pass as they are; the bridge adds the headers of the HTTP transport and keeps the session
//! of a client of the legacy era: it opens a new one when the gateway does not know the old one any
//! more, and resumes a stream that was cut.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{RequestBuilder, Response, Url};
use sse_stream::SseStream;
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    error::{RpcError, code},
    message::{self, Id, Message, Request},
    meta, param_headers,
    stdio::Line,
};
use crate::{
    json::{Caps, raw},
    text::with_causes,
};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const BOTH: HeaderValue = HeaderValue::from_static("application/json, text/event-stream");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Attempts to resume a stream that was cut.
const RESUMES: u32 = 5;
/// Pause before a stream is opened again.
const RETRY: Duration = Duration::from_secs(1);
/// Identifier of the request that opens a session anew.
const REOPENING: u64 = u64::MAX;
/// Longest error in a response that is no message, in characters.
const SHOWN: usize = 200;

/// Settings of a bridge.
pub(crate) struct Settings {
    /// Client for HTTP. It follows no redirects, because requests carry a credential.
    pub(crate) http: reqwest::Client,
    /// The gateway's endpoint.
    pub(crate) url: Url,
    /// Headers of every request, the credential among them.
    pub(crate) headers: HeaderMap,
    /// Longest line, in bytes.
    pub(crate) limit_bytes: usize,
    /// Time for running requests to end after the end of the input.
    pub(crate) drain_timeout: Duration,
    /// Cancelled when the bridge has to end at once.
    pub(crate) stop: CancellationToken,
}

/// Carries messages until the input ends or the bridge has to stop. A request that the gateway does
/// not answer gets an error.
pub(crate) async fn run(
    settings: Settings,
    mut lines: mpsc::Receiver<Line>,
    output: mpsc::Sender<String>,
) {
    let (stop, drain_timeout) = (settings.stop.clone(), settings.drain_timeout);
    let bridge = Arc::new(Bridge { settings, output, state: Mutex::default() });
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            line = lines.recv() => match line {
                Some(line) => bridge.take(line, &mut tasks).await,
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
    settings: Settings,
    output: mpsc::Sender<String>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    session: Option<HeaderValue>,
    /// Revision that `initialize` was answered with.
    version: Option<HeaderValue>,
    /// The client's `initialize` request, to open a session anew.
    initialize: Option<Arc<str>>,
    /// Input schemas with annotations for headers, by tool.
    schemas: HashMap<String, Arc<str>>,
    /// Running requests of the modern era: they are cancelled by closing the connection.
    running: HashMap<Id, CancellationToken>,
    /// Ends the stream for notifications.
    listening: CancellationToken,
}

/// A message as it is sent.
#[derive(Clone)]
struct Sent {
    text: Arc<str>,
    /// Identifier, if it is a request.
    id: Option<Id>,
    /// Headers that repeat its contents.
    headers: HeaderMap,
    is_modern: bool,
    is_initialize: bool,
    lists_tools: bool,
}

/// Reason that a message was not carried. For the client.
struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<reqwest::Error> for Failed {
    fn from(error: reqwest::Error) -> Self {
        // Without the URL, which may hold a credential.
        Self(format!("the gateway cannot be reached: {}", with_causes(&error.without_url())))
    }
}

impl Bridge {
    async fn take(self: &Arc<Self>, line: Line, tasks: &mut JoinSet<()>) {
        let text = match line {
            Line::Text(text) if text.trim_ascii().is_empty() => return,
            Line::Text(text) => text,
            Line::TooLong => {
                let limit = self.settings.limit_bytes;
                let error = RpcError::parse(format!("the message has more than {limit} bytes"));
                return self.write(message::failure(None, &error)).await;
            }
        };
        let sent: Arc<str> = String::from_utf8_lossy(&text).into();
        let caps = Caps::memory(self.settings.limit_bytes.saturating_mul(4));
        let message = match Message::read(text, &caps) {
            Ok(message) => message,
            Err(bad) => return self.write(message::failure(bad.id.as_ref(), &bad.error)).await,
        };
        let sent = match &message {
            Message::Request(request) => self.describe(request, sent),
            Message::Notification(notification) => {
                if let Some(id) = notification.cancelled()
                    && let Some(running) = self.state().running.get(&id)
                {
                    return running.cancel();
                }
                if notification.method == "notifications/initialized" {
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

    fn describe(&self, request: &Request, text: Arc<str>) -> Sent {
        let params = request.params();
        let version = meta::named_version(params);
        let mut sent = Sent {
            id: Some(request.id.clone()),
            is_modern: version.is_some(),
            is_initialize: version.is_none() && request.method == "initialize",
            lists_tools: request.method == "tools/list",
            ..Sent::plain(text)
        };
        let Some(version) = version else { return sent };
        sent.add(VERSION, &version);
        sent.add(METHOD, &request.method);
        let member = match request.method.as_str() {
            "tools/call" | "prompts/get" => "name",
            "resources/read" => "uri",
            _ => return sent,
        };
        let name = raw::member(params, member).and_then(raw::string);
        let Some(name) = name else { return sent };
        sent.add(NAME, &param_headers::encoded(&name));
        let schema = self.state().schemas.get(name.as_ref()).cloned();
        if let Some(schema) = schema.filter(|_| request.method == "tools/call") {
            let arguments = raw::member(params, "arguments").unwrap_or("{}");
            for (header, value) in param_headers::expected(&schema, arguments) {
                if let Some(value) = value {
                    sent.add(header, &param_headers::encoded(&value));
                }
            }
        }
        sent
    }

    /// Carries one message, and what the gateway answers.
    async fn carry(&self, sent: Sent) {
        let cancel = self.settings.stop.child_token();
        if let Some(id) = sent.id.clone().filter(|_| sent.is_modern) {
            self.state().running.insert(id, cancel.clone());
        }
        if let Some(Err(failed)) = cancel.run_until_cancelled(self.try_carry(&sent)).await
            && let Some(id) = &sent.id
        {
            let error = RpcError::new(code::REFUSED, failed.to_string());
            self.write(message::failure(Some(id), &error)).await;
        }
        if let Some(id) = &sent.id {
            self.state().running.remove(id);
        }
    }

    async fn try_carry(&self, sent: &Sent) -> Result<(), Failed> {
        let mut response = self.post(sent).await?;
        let has_session = self.state().session.is_some() && !sent.is_initialize;
        if response.status() == StatusCode::NOT_FOUND && has_session && !sent.is_modern {
            self.reopen().await?;
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
        let Settings { http, url, headers, .. } = &self.settings;
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

    /// Opens a new session with the client's own `initialize`.
    async fn reopen(&self) -> Result<(), Failed> {
        let initialize = self.state().initialize.clone();
        let initialize = initialize.ok_or_else(|| Failed("the session has expired".to_owned()))?;
        let id = Id::own(REOPENING);
        let mut members: serde_json::Value =
            serde_json::from_str(&initialize).map_err(|error| Failed(error.to_string()))?;
        members["id"] = serde_json::from_str(id.as_json()).unwrap_or_default();
        let sent = Sent { is_initialize: true, ..Sent::plain(members.to_string().into()) };
        let response = self.post(&sent).await?;
        if !response.status().is_success() {
            return Err(Failed(format!("the session has expired, and {}", response.status())));
        }
        self.note_session(response.headers());
        let initialized =
            message::notification("notifications/initialized", &serde_json::json!({}));
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
        let body = response.text().await?;
        let is_message = raw::member(&body, "jsonrpc").is_some();
        match &sent.id {
            None => {
                if !status.is_success() {
                    tracing::warn!(%status, "the gateway refused a message");
                }
                Ok(())
            }
            Some(id) if is_message && raw::member(&body, "id").is_none() => {
                // An error that was found before the request was read.
                let error = raw::member(&body, "error").unwrap_or("{}");
                let text = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.as_json());
                self.receive(text, sent).await;
                Ok(())
            }
            Some(_) if is_message => {
                self.receive(body, sent).await;
                Ok(())
            }
            Some(_) => {
                let body: String = body.chars().take(SHOWN).collect();
                Err(Failed(format!("the gateway answered with status {status}: {body}")))
            }
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
            let Some(event) = last.clone().filter(|_| !sent.is_modern) else { break };
            sleep(RETRY).await;
            let resuming = self
                .request(Method::GET, true)
                .header(header::ACCEPT, EVENTS)
                .header(LAST_EVENT, event);
            response = resuming.send().await.ok().filter(|it| it.status().is_success());
        }
        Err(Failed("the connection to the gateway was lost before the response".to_owned()))
    }

    /// Writes the messages of a stream until it ends; true if the response was among them.
    async fn copy(&self, response: Response, sent: &Sent, last: &mut Option<String>) -> bool {
        let mut events = SseStream::from_bytes_stream(response.bytes_stream());
        while let Some(Ok(event)) = events.next().await {
            *last = event.id.or(last.take());
            let Some(data) = event.data.filter(|data| !data.is_empty()) else { continue };
            let is_response = raw::member(&data, "method").is_none()
                && raw::member(&data, "id").map(str::trim) == sent.id.as_ref().map(Id::as_json);
            self.receive(data, sent).await;
            if is_response {
                return true;
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
                    Ok(response) if response.status() != StatusCode::NOT_FOUND => return,
                    // The session has expired; the next request opens a new one.
                    Ok(_) | Err(_) => {}
                }
                sleep(RETRY).await;
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
            self.state().version = version.and_then(|it| HeaderValue::try_from(it.as_ref()).ok());
        }
        if sent.lists_tools && text.contains("x-mcp-header") {
            self.note_schemas(&text);
        }
        self.write(text).await;
    }

    fn note_schemas(&self, text: &str) {
        let tools = raw::member(text, "result").and_then(|result| raw::member(result, "tools"));
        for tool in tools.and_then(raw::elements).into_iter().flatten() {
            let schema = raw::member(tool, "inputSchema").filter(|it| it.contains("x-mcp-header"));
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sent {
    fn plain(text: Arc<str>) -> Self {
        Self {
            text,
            id: None,
            headers: HeaderMap::new(),
            is_modern: false,
            is_initialize: false,
            lists_tools: false,
        }
    }

    fn add(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(name, value);
        }
    }
}
