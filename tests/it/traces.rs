//! Golden traces: the spans of whole requests, as a collector receives them. Each tree has one line for a span:
//! its kind, its name, some attributes, and whether it is linked to another trace.

mod approvals;
mod callers;
mod chats;
mod faces;
mod scripts;

use std::{fs, path::PathBuf};

use airlock_tests::{
    Client, Collector, Gateway, Reply, Service, Setup,
    collector::{hex, tree},
    peers, root, service, wait,
};
use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use reqwest::Method;
use serde_json::{Value, json};

/// A virtual key. Its name is its identifier.
const ANN: &str = "sk-bf-ann0123456789abcdef";
/// Position in the trace of a caller, with the ids in it.
const SENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const SENT_TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SENT_SPAN: &str = "b7ad6b7169203331";
/// Name of the span of a chat completion.
const CHAT: &str = "POST /v1/chat/completions";

/// A gateway that is traced, with the recording server, of whose tools only `read` needs no approval.
struct Stage {
    gateway: Gateway,
    collector: Collector,
    /// The file with the `_meta` of calls that the server has received.
    metas: PathBuf,
    /// The provider `fake`.
    _model: Service,
}

impl Stage {
    /// Starts a gateway whose model responds with these messages.
    async fn saying(messages: impl IntoIterator<Item = Value>) -> Self {
        Self::with(Service::saying(messages).await, recorded).await
    }

    /// Starts a gateway without a source of tools, whose model responds with a text.
    async fn without_tools() -> Self {
        Self::with(Service::saying([service::text("hello")]).await, keyed).await
    }

    async fn with(model: Service, change: impl FnOnce(Setup) -> Setup) -> Self {
        let collector = Collector::start().await;
        let setup =
            Setup::new().set("/server/require_virtual_key", false).openai("fake", model.base_url());
        let setup = change(setup);
        let metas = setup.directory().join("metas");
        let gateway = setup.serve_with(&collector.variables()).await;
        for name in ["rec", "text"] {
            if gateway.client(name).await.is_some() {
                gateway.connected(name).await;
            }
        }
        Self { gateway, collector, metas, _model: model }
    }

    /// Sends a chat completion request, with these members besides its message.
    async fn chat(&self, headers: &[(&str, &str)], members: Value) -> Reply {
        let mut body =
            json!({"model": "fake/model", "messages": [{"role": "user", "content": "hi"}]});
        let members = members.as_object().cloned().unwrap_or_default();
        body.as_object_mut().expect("an object").extend(members);
        self.post("/v1/chat/completions", headers, &body).await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> Reply {
        let request = self.gateway.request(Method::POST, path).json(body);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        Reply::fetch(request).await
    }

    /// Executes a tool; with `more`, other members of the request.
    async fn execute(&self, name: &str, arguments: &Value, more: &Value) -> Reply {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let mut body = json!({"id": "call_1", "function": function});
        let more = more.as_object().cloned().unwrap_or_default();
        body.as_object_mut().expect("an object").extend(more);
        self.post("/v1/mcp/tool/execute", &[], &body).await
    }

    /// Waits for the span of a request whose trace has a span of this name, and returns the trace.
    async fn trace_with(&self, name: &str) -> Vec<Span> {
        self.trace_where(name, |span| span.name == name).await
    }

    /// Waits for the span of a request whose trace has such a span, and returns the trace.
    async fn trace_where(&self, what: &str, is_wanted: impl Fn(&Span) -> bool) -> Vec<Span> {
        wait::until(&format!("the trace of {what:?}"), async || {
            let spans = self.spans();
            let trace = spans.iter().find(|span| is_wanted(span))?.trace_id.clone();
            let trace: Vec<_> = spans.into_iter().filter(|span| span.trace_id == trace).collect();
            trace.iter().any(is_of_request).then_some(trace)
        })
        .await
    }

    /// Returns every span so far.
    fn spans(&self) -> Vec<Span> {
        self.collector.spans().into_iter().map(|span| span.element).collect()
    }

    /// Returns the `_meta` of the calls that the server has received.
    fn metas(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.metas).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }
}

/// Adds a key that has no tools.
fn keyed(setup: Setup) -> Setup {
    setup.key("ann", ANN, &[])
}

/// Adds the recording server, whose tools models call, and a key for two of them.
fn recorded(setup: Setup) -> Setup {
    let client = recording(&setup);
    setup.client(client).key("ann", ANN, &[("rec", &["read", "add"])])
}

/// Adds the recording server, whose tools scripts call.
fn scripted(setup: Setup) -> Setup {
    let client = recording(&setup).code_mode();
    setup.client(client)
}

fn recording(setup: &Setup) -> Client {
    let server = root().join("tests/fixtures/recording/server.py");
    let [notes, orders, metas] =
        ["notes", "orders", "metas"].map(|name| setup.directory().join(name));
    let arguments = ["-B".into(), server, notes, orders, metas];
    let arguments = arguments.map(|path: PathBuf| path.display().to_string());
    Client::stdio("rec", peers::python(), arguments).auto(&["read"])
}

fn is_of_request(span: &Span) -> bool {
    span.kind == SpanKind::Server as i32
}

/// Returns the span of this name in a trace.
fn named<'s>(trace: &'s [Span], name: &str) -> &'s Span {
    let found = trace.iter().find(|span| span.name == name);
    found.unwrap_or_else(|| panic!("no span {name:?} in\n{}", tree(trace, &[])))
}

/// Returns the id of the trace of some spans.
fn trace_id(trace: &[Span]) -> String {
    hex(&trace[0].trace_id)
}
