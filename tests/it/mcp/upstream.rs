//! An MCP server in the test's own process, behind the gateway.

use airlock_tests::{Client, Service, service, service::Answer, service::Asked, wait};
use bytes::Bytes;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::watch;

/// The server, over HTTP in the legacy era.
///
/// | Tool | Result |
/// |---|---|
/// | `rich` | every kind of content, structured data and metadata |
/// | `steps` | reports progress once; waits for the test; reports again; waits; returns `done` |
/// | `region` | its arguments; its schema asks for headers |
/// | `big` | 900,000 bytes |
/// | `count/all tools` | `counted`; its name is none on the wire |
pub(super) struct Upstream {
    service: Service,
    gate: watch::Sender<u64>,
}

impl Upstream {
    pub(super) async fn start() -> Self {
        let (gate, opened) = watch::channel(1);
        let service = Service::start(move |asked| answer(asked, &opened)).await;
        Self { service, gate }
    }

    /// Returns the source of tools that connects to it. No tool needs an approval.
    pub(super) fn client(&self, name: &str) -> Client {
        Client::http(name, self.service.base_url()).auto(&["*"])
    }

    /// Lets every running and later call of `steps` proceed to a step: 2 is the second progress, 3
    /// the result.
    pub(super) fn proceed_to(&self, step: u64) {
        self.gate.send_replace(step);
    }

    /// Returns the calls of a tool so far.
    pub(super) fn calls(&self, tool: &str) -> Vec<Value> {
        let messages = self.messages("tools/call");
        messages.into_iter().filter(|call| call["params"]["name"] == tool).collect()
    }

    /// Waits until the calls with these indexes, and no others, were cancelled.
    pub(super) async fn is_cancelled(&self, calls: &[usize]) {
        let all = self.calls("steps");
        let expected: Vec<Value> = calls.iter().map(|index| all[*index]["id"].clone()).collect();
        wait::until("the upstream to be told of the cancellation", async || {
            (self.cancelled() == expected).then_some(())
        })
        .await;
    }

    /// Returns the identifiers of the requests that were cancelled.
    pub(super) fn cancelled(&self) -> Vec<Value> {
        let messages = self.messages("notifications/cancelled");
        messages.into_iter().map(|message| message["params"]["requestId"].clone()).collect()
    }

    fn messages(&self, method: &str) -> Vec<Value> {
        let bodies = self.service.asked().into_iter().map(|asked| asked.body);
        bodies.filter(|body| body["method"] == method).collect()
    }
}

/// Returns the tools as the server lists them.
pub(super) fn tools() -> Value {
    let any = json!({"type": "object", "properties": {}});
    json!([
        {
            "name": "rich",
            "title": "Rich",
            "description": "Returns every kind of content.",
            "inputSchema": {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "integer"}}},
            "outputSchema": {"type": "object", "properties": {"n": {"type": "number"}}},
            "annotations": {"title": "R", "readOnlyHint": true, "openWorldHint": false},
            "icons": [{"src": "data:image/png;base64,iVBORw0KGgo=", "mimeType": "image/png"}],
            "_meta": {"vendor/x": {"deep": [1, null]}},
        },
        {"name": "steps", "inputSchema": any},
        {
            "name": "region",
            "inputSchema": {"type": "object", "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
            }},
        },
        {"name": "big", "inputSchema": any},
        {"name": "count/all tools", "inputSchema": any},
    ])
}

/// Returns the result of `rich`.
pub(super) fn rich() -> Value {
    json!({
        "content": [
            {"type": "text", "text": "caf\u{e9}", "annotations": {"audience": ["user"], "priority": 0.5}, "_meta": {"vendor/part": 1}},
            {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a.txt", "name": "a.txt", "title": "A", "size": 7},
            {"type": "resource", "resource": {"uri": "file:///b.txt", "mimeType": "text/plain", "text": "b"}},
            {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "AAEC"}},
        ],
        "structuredContent": {"z": 1.5, "a": {"deep": [true, null, "x"]}},
        "_meta": {"vendor/result": {"k": "v"}},
    })
}

fn answer(asked: &Asked, gate: &watch::Receiver<u64>) -> Answer {
    let id = &asked.body["id"];
    let params = &asked.body["params"];
    let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let result = match asked.body["method"].as_str() {
        // The stream of the legacy era, which this server does not have.
        None => return (405, json!({})).into(),
        Some("initialize") => json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "upstream", "version": "1"},
        }),
        Some("ping") => json!({}),
        Some("tools/list") => json!({"tools": tools()}),
        Some("tools/call") => match params["name"].as_str().unwrap_or_default() {
            "rich" => rich(),
            "steps" => return steps(&asked.body, gate.clone()),
            "region" => text(&params["arguments"].to_string()),
            "big" => text(&"x".repeat(900_000)),
            _ => text("counted"),
        },
        Some(_) if id.is_null() => return (202, json!({})).into(),
        Some(_) => {
            let error = json!({"code": -32601, "message": "unknown method"});
            return (200, json!({"jsonrpc": "2.0", "id": id, "error": error})).into();
        }
    };
    (200, json!({"jsonrpc": "2.0", "id": id, "result": result})).into()
}

fn steps(call: &Value, gate: watch::Receiver<u64>) -> Answer {
    let id = call["id"].clone();
    let token = call["params"]["_meta"]["progressToken"].clone();
    let parts = stream::unfold((1, gate), move |(step, mut gate)| {
        let id = id.clone();
        let token = token.clone();
        async move {
            if step > 3 {
                return None;
            }
            // The sender is part of the server, which the stream does not outlive.
            gate.wait_for(|open| *open >= step).await.ok()?;
            let message = if step < 3 {
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3}})
            } else {
                let result = json!({"content": [{"type": "text", "text": "done"}]});
                json!({"jsonrpc": "2.0", "id": id, "result": result})
            };
            let event: Bytes = service::events([message.to_string()]);
            Some((event, (step + 1, gate)))
        }
    });
    Answer::stream(parts)
}
