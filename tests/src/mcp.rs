//! The client's side of the gateway's MCP endpoint, as raw HTTP: a test can change every header and
//! every member of a message.

use std::{
    fmt,
    sync::atomic::{AtomicU64, Ordering},
};

use reqwest::{
    Method, RequestBuilder, Response,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};

use crate::{EventStream, Gateway, Reply, gateway::http_client, wait};

/// Newest revision of the legacy era.
pub const LEGACY: &str = "2025-11-25";
/// Revision of the modern era.
pub const MODERN: &str = "2026-07-28";

/// The endpoint as one client reaches it, with the headers of all its requests.
#[derive(Clone)]
pub struct Endpoint {
    http: reqwest::Client,
    url: String,
    headers: HeaderMap,
    capabilities: Value,
}

impl Endpoint {
    /// Returns the endpoint of a gateway, for a client without a key and without capabilities.
    pub fn new(gateway: &Gateway) -> Self {
        Self::at(gateway.address())
    }

    /// Returns the endpoint of a gateway with this address, which begins with `http://`.
    pub fn at(address: &str) -> Self {
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
        ];
        let endpoint = Self {
            http: http_client(),
            url: format!("{address}/mcp"),
            headers: HeaderMap::new(),
            capabilities: json!({}),
        };
        headers.into_iter().fold(endpoint, |endpoint, (name, value)| endpoint.header(name, value))
    }

    /// Selects the tools of one source.
    #[must_use]
    pub fn source(mut self, name: &str) -> Self {
        self.url = format!("{}/{name}", self.url);
        self
    }

    /// Sets a header of every request.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        set(&mut self.headers, name, value);
        self
    }

    /// Sends a virtual key with every request.
    #[must_use]
    pub fn key(self, key: &str) -> Self {
        self.header("authorization", &format!("Bearer {key}"))
    }

    /// Declares that the client can ask its user with a form.
    #[must_use]
    pub fn with_elicitation(self) -> Self {
        self.with_capabilities(json!({"elicitation": {}}))
    }

    /// Declares capabilities.
    #[must_use]
    pub fn with_capabilities(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// Builds a POST request with this body.
    pub fn post(&self, body: impl Into<Body>) -> McpRequest {
        self.request(Method::POST, body.into())
    }

    /// Builds a request of the modern era, with everything that the revision requires.
    pub fn modern(&self, method: &str, params: Value) -> McpRequest {
        let mut body = with("params", params, json!({"id": 1, "method": method}));
        let meta = &mut body["params"]["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
        meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
        meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
        let member = match method {
            "resources/read" => "uri",
            "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
            _ => "name",
        };
        let name = body["params"][member].as_str().map(str::to_owned);
        let request = self.post(body).set("mcp-protocol-version", MODERN).set("mcp-method", method);
        match name {
            Some(name) => request.set("mcp-name", &name),
            None => request,
        }
    }

    /// Builds the request that opens a session.
    pub fn initialize(&self, version: &str) -> McpRequest {
        let params = json!({"protocolVersion": version, "capabilities": self.capabilities, "clientInfo": {"name": "test", "version": "1"}});
        self.post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
    }

    /// Opens a session of the newest legacy revision.
    pub async fn session(&self) -> McpSession {
        self.session_of(LEGACY).await
    }

    /// Opens a session of a revision.
    pub async fn session_of(&self, version: &str) -> McpSession {
        let response = self.initialize(version).send().await;
        let id = response.headers().get("mcp-session-id").cloned();
        let text = response.text().await.expect("the answer is whole");
        let id = id.unwrap_or_else(|| panic!("no session: {text}"));
        let answer: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(answer["result"]["protocolVersion"], version, "{text}");
        let id = id.to_str().expect("ASCII").to_owned();
        let session =
            McpSession { endpoint: self.clone(), id, version: version.to_owned(), next: 1.into() };
        let accepted = session.notify("notifications/initialized", json!({})).reply().await;
        assert_eq!(accepted.status, 202, "{}", accepted.text);
        session
    }

    /// Returns one client of each era.
    pub async fn both(&self) -> [McpClient; 2] {
        [McpClient::Modern(self.clone()), McpClient::Legacy(self.session().await)]
    }

    fn request(&self, method: Method, body: Body) -> McpRequest {
        let http = self.http.clone();
        let url = self.url.clone();
        let headers = self.headers.clone();
        McpRequest { http, method, url, headers, body }
    }
}

/// A session of the legacy era.
pub struct McpSession {
    endpoint: Endpoint,
    id: String,
    version: String,
    next: AtomicU64,
}

impl McpSession {
    /// Returns its identifier.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Builds a request with a new identifier.
    pub fn request(&self, method: &str, params: Value) -> McpRequest {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.post(with("params", params, json!({"id": id, "method": method})))
    }

    /// Builds a notification.
    pub fn notify(&self, method: &str, params: Value) -> McpRequest {
        self.post(with("params", params, json!({"method": method})))
    }

    /// Builds the response to a request of the gateway.
    pub fn respond(&self, id: &Value, result: Value) -> McpRequest {
        self.post(with("result", result, json!({"id": id})))
    }

    /// Builds the request for the stream of notifications.
    pub fn listen(&self) -> McpRequest {
        self.within(self.endpoint.request(Method::GET, Body::Empty)).set("accept", EVENTS)
    }

    /// Builds the request that goes on with a stream after the event with this identifier.
    pub fn resume(&self, last_event: &str) -> McpRequest {
        self.listen().set("last-event-id", last_event)
    }

    /// Builds the request that ends the session.
    pub fn delete(&self) -> McpRequest {
        self.within(self.endpoint.request(Method::DELETE, Body::Empty))
    }

    /// Returns the session as another client names it.
    #[must_use]
    pub fn named_by(&self, other: &Endpoint) -> Self {
        let id = self.id.clone();
        let version = self.version.clone();
        Self { endpoint: other.clone(), id, version, next: 1_000.into() }
    }

    fn post(&self, body: Value) -> McpRequest {
        self.within(self.endpoint.post(body))
    }

    fn within(&self, request: McpRequest) -> McpRequest {
        request.set("mcp-session-id", &self.id).set("mcp-protocol-version", &self.version)
    }
}

const EVENTS: &str = "text/event-stream";

/// A client of one era.
pub enum McpClient {
    /// Of the modern era: every request is complete in itself.
    Modern(Endpoint),
    /// Of the legacy era: requests belong to a session.
    Legacy(McpSession),
}

impl McpClient {
    /// Builds a request.
    pub fn request(&self, method: &str, params: Value) -> McpRequest {
        match self {
            Self::Modern(endpoint) => endpoint.modern(method, params),
            Self::Legacy(session) => session.request(method, params),
        }
    }

    /// Builds a call of a tool.
    pub fn call(&self, name: &str, arguments: &Value) -> McpRequest {
        self.request("tools/call", json!({"name": name, "arguments": arguments}))
    }

    /// Lists the tools, which must fit on one page.
    pub async fn tools(&self) -> Vec<Value> {
        let mut result = self.request("tools/list", json!({})).result().await;
        assert_eq!(result["nextCursor"], Value::Null, "{self:?}");
        serde_json::from_value(result["tools"].take()).expect("a list")
    }

    /// Lists the names of the tools.
    pub async fn names(&self) -> Vec<String> {
        let name = |tool: &Value| tool["name"].as_str().expect("a name").to_owned();
        self.tools().await.iter().map(name).collect()
    }
}

impl fmt::Debug for McpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Modern(_) => "modern",
            Self::Legacy(_) => "legacy",
        })
    }
}

/// Body of a request.
#[derive(Clone)]
pub enum Body {
    /// None.
    Empty,
    /// A message, which can be changed.
    Message(Value),
    /// Bytes that may be no message.
    Bytes(Vec<u8>),
}

impl From<Value> for Body {
    fn from(message: Value) -> Self {
        Self::Message(message)
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Self::Bytes(text.into())
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

/// A request that is not sent yet.
#[derive(Clone)]
#[must_use = "it does nothing until it is sent"]
pub struct McpRequest {
    http: reqwest::Client,
    method: Method,
    url: String,
    headers: HeaderMap,
    body: Body,
}

impl McpRequest {
    /// Sets a header, in place of one of that name.
    pub fn set(mut self, name: &'static str, value: &str) -> Self {
        set(&mut self.headers, name, value);
        self
    }

    /// Adds a header, beside those of that name.
    pub fn add(mut self, name: &'static str, value: &str) -> Self {
        self.headers.append(HeaderName::from_static(name), value.parse().expect("a value"));
        self
    }

    /// Removes a header.
    pub fn without(mut self, name: &'static str) -> Self {
        self.headers.remove(name);
        self
    }

    /// Sets a member of the message by its JSON pointer; null removes it.
    pub fn member(mut self, pointer: &str, value: impl Into<Value>) -> Self {
        let Body::Message(message) = &mut self.body else { panic!("it has no message") };
        let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
        let name = name.replace("~1", "/");
        let parent = message.pointer_mut(parent).and_then(Value::as_object_mut);
        let parent = parent.unwrap_or_else(|| panic!("nothing is above {pointer}"));
        match value.into() {
            Value::Null => parent.remove(&name),
            value => parent.insert(name, value),
        };
        self
    }

    /// Requests progress, with `token` as its token.
    pub fn with_progress(self) -> Self {
        self.with_token("token".into())
    }

    /// Requests progress with a token, which may be invalid.
    pub fn with_token(self, token: Value) -> Self {
        let Body::Message(message) = &self.body else { panic!("it has no message") };
        let mut meta = message["params"]["_meta"].clone();
        meta["progressToken"] = token;
        self.member("/params/_meta", meta)
    }

    /// Returns the request for the harness of other endpoints.
    pub fn builder(self) -> RequestBuilder {
        let request = self.http.request(self.method, self.url).headers(self.headers);
        match self.body {
            Body::Empty => request,
            Body::Message(message) => request.body(message.to_string()),
            Body::Bytes(bytes) => request.body(bytes),
        }
    }

    /// Sends it and waits for the head of the response.
    pub async fn send(self) -> Response {
        self.builder().send().await.expect("the gateway answers")
    }

    /// Sends it and reads the whole response.
    pub async fn reply(self) -> Reply {
        Reply::fetch(self.builder()).await
    }

    /// Sends it and reads the response as a stream. Panics unless it is one.
    pub async fn stream(self) -> Messages {
        Messages(EventStream::open(self.builder()).await)
    }

    /// Sends it and reads the response: as a stream, or as the message that is all of it.
    pub async fn stream_or_response(self) -> Result<Messages, Value> {
        let response = self.send().await;
        if response.headers()["content-type"] == "application/json" {
            return Err(response.json().await.expect("JSON"));
        }
        Ok(Messages(EventStream::from(response).await))
    }

    /// Sends it and returns the JSON-RPC response, whether it comes as JSON or at the end of a
    /// stream.
    pub async fn response(self) -> Value {
        let reply = self.reply().await;
        if !reply.body.is_null() {
            return reply.body;
        }
        let data = reply.text.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut messages = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        messages
            .find(|message| message.get("method").is_none())
            .unwrap_or_else(|| panic!("no response in {} {:?}", reply.status, reply.text))
    }

    /// Sends it and returns the result. Panics if there is an error instead.
    pub async fn result(self) -> Value {
        let mut response = self.response().await;
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Sends it and returns the error. Panics if there is a result instead.
    pub async fn error(self) -> Value {
        let mut response = self.response().await;
        assert!(response.get("result").is_none(), "{response}");
        response["error"].take()
    }
}

/// Returns a message with one member more.
fn with(name: &str, value: Value, mut message: Value) -> Value {
    message["jsonrpc"] = "2.0".into();
    message[name] = value;
    message
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    let value = HeaderValue::try_from(value).expect("a value");
    headers.insert(HeaderName::from_static(name), value);
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct McpEvent {
    /// Identifier, to resume the stream after it.
    pub id: Option<String>,
    /// The message; null if the event has none.
    pub message: Value,
}

/// The events of a stream. Dropping it closes the connection.
pub struct Messages(EventStream);

impl Messages {
    /// Returns the next event, with or without a message; `None` at the end of the stream. Panics if
    /// it does not come within [`wait::COMPILED`].
    pub async fn next_event(&mut self) -> Option<McpEvent> {
        loop {
            let text = tokio::time::timeout(wait::COMPILED, self.0.next()).await;
            let text = text.expect("an event, or the end of the stream")?;
            let field = |name: &str| {
                text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
            };
            let id = field("id").map(str::to_owned);
            let data = field("data").unwrap_or_default();
            let message = serde_json::from_str(data).unwrap_or_default();
            let event = McpEvent { id, message };
            // Comments and waiting times are no events.
            if event.id.is_some() || !event.message.is_null() {
                return Some(event);
            }
        }
    }

    /// Returns the next message; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            let event = self.next_event().await?;
            if !event.message.is_null() {
                return Some(event.message);
            }
        }
    }

    /// Returns all messages that are left.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Some(message) = self.next().await {
            rest.push(message);
        }
        rest
    }
}
