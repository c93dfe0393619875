//! A minimal MCP client over HTTP.

use anyhow::{Context as _, bail, ensure};
use reqwest::RequestBuilder;
use serde_json::{Value, json};

use airlock_wire::sse::{Dialect, Item, SseDecoder};

/// Maximum data of one event, in bytes. The longest of the demo, a list of tools, has some thousand.
pub(super) const MAX_EVENT_BYTES: usize = 1 << 20;
const SESSION: &str = "mcp-session-id";
const MODERN: &str = "2026-07-28";

/// An MCP client.
pub(super) struct Agent {
    http: reqwest::Client,
    url: String,
    session: Option<String>,
    next_id: u32,
}

impl Agent {
    pub(super) fn new(http: reqwest::Client, url: String) -> Self {
        Self { http, url, session: None, next_id: 1 }
    }

    /// Sends a request in the session, which `initialize` opens. Returns its result.
    pub(super) async fn ask(&mut self, method: &str, params: &Value) -> anyhow::Result<Value> {
        self.ask_with(method, params, |_, _| Value::Null).await
    }

    /// Sends a request in the session. `answer` gets the method and the parameters of each request
    /// of the gateway, and returns its result.
    pub(super) async fn ask_with(
        &mut self,
        method: &str,
        params: &Value,
        mut answer: impl FnMut(&str, &Value) -> Value,
    ) -> anyhow::Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let mut response = self.post(&request).send().await?.error_for_status()?;
        if let Some(session) = response.headers().get(SESSION) {
            self.session = Some(session.to_str()?.to_owned());
        }
        let kind = response.headers().get("content-type");
        let is_stream = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
        if !is_stream {
            return result(response.json().await.context("the response is not a message")?);
        }
        let mut decoder = SseDecoder::new(Dialect::Mcp, MAX_EVENT_BYTES);
        while let Some(chunk) = response.chunk().await? {
            let mut bytes = &chunk[..];
            while let Some(item) = decoder.next(&mut bytes) {
                let Item::Event(event) = item else { bail!("an event is too long") };
                let Some(message) = event.message() else { continue };
                let message: Value = serde_json::from_slice(message)?;
                if let Some(method) =
                    message["method"].as_str().filter(|_| message["id"] != Value::Null)
                {
                    let result = answer(method, &message["params"]);
                    let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
                    self.post(&reply).send().await?.error_for_status()?;
                } else if message["id"] == id {
                    return result(message);
                }
            }
        }
        bail!("the stream has ended without the response")
    }

    /// Sends a request of the modern era, which needs no session. Returns its result.
    pub(super) async fn ask_once(&self, method: &str, params: &Value) -> anyhow::Result<Value> {
        let mut params = params.clone();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let sent =
            self.http.post(&self.url).header("accept", "application/json, text/event-stream");
        let sent = sent.header("mcp-protocol-version", MODERN).header("mcp-method", method);
        let name = params["name"].as_str().unwrap_or_default();
        result(sent.header("mcp-name", name).json(&request).send().await?.json().await?)
    }

    fn post(&self, message: &Value) -> RequestBuilder {
        let request = self.http.post(&self.url).json(message);
        let request = request.header("accept", "application/json, text/event-stream");
        match &self.session {
            Some(session) => request.header(SESSION, session),
            None => request,
        }
    }
}

fn result(mut message: Value) -> anyhow::Result<Value> {
    ensure!(
        message["error"].is_null(),
        "the gateway responded with an error: {}",
        message["error"]
    );
    Ok(message["result"].take())
}
