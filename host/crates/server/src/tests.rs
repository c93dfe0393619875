mod admission;
mod audit_key;
mod chat;
mod clients;
mod ends;
mod execute;
pub(super) mod hooks;
mod http2;
mod https;
mod limits;
mod listeners;
mod messages;
mod model_control;
mod native;
mod operator;
mod parity;
mod reload;
mod responses;
mod service;
mod sse;
mod stream;
mod through_socket;

use std::{
    future::Future,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use http::{HeaderMap, HeaderValue, Method, header};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

use super::*;
use airlock_agent as agent;
use airlock_core::{
    door::{Keys, LiveKeys, VirtualKey},
    tool::Allowlist,
};
use airlock_egress::tls;
use airlock_fakes as fake;
use airlock_ingress::{MIN_HEADER_BYTES, socket::SocketListener};
use airlock_model::Models;
use airlock_operator_api::ManagementSettings;
use airlock_replicas::ReplicaTls;
use airlock_responses::BuiltinTools;
use airlock_store::{self as store, responses::ResponseBounds};

/// Time limit for events that should happen at once.
const SOON: Duration = Duration::from_secs(10);
/// Time limit that a test lets end. Long enough for what has to happen before on a busy machine,
/// such as the first request of a connection.
const SHORT: Duration = Duration::from_millis(200);

/// Settings of the agent loop.
pub(crate) const SETTINGS: agent::Settings = agent::Settings {
    max_depth: 3,
    parallel_calls: 4,
    calls_per_answer: 6,
    max_tool_bytes: 1 << 20,
    timeout: Duration::from_secs(30),
    disable_auto_tool_inject: false,
    results_as_text: agent::ResultsAsText::Auto,
    approval: airlock_core::door::ApprovalChoice::Return,
    approval_wait: Duration::from_secs(30),
    tool_mode: None,
};

struct Gateway {
    address: SocketAddr,
    client: reqwest::Client,
    happened: mpsc::UnboundedReceiver<&'static str>,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::io::Result<()>>,
    live: Arc<LiveApp>,
}

pub(super) fn settings() -> Settings {
    Settings {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        require_virtual_key: false,
        tls: None,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
        external_url: None,
        max_body_bytes: 10_000,
        max_request_memory_bytes: 16 << 20,
        max_header_bytes: MIN_HEADER_BYTES,
        read_timeout: SOON,
        write_timeout: SOON,
        idle_timeout: SOON,
        drain_timeout: SOON,
        max_connections: 64,
        max_connections_per_peer: 64,
        responses: None,
        builtin_tools: BuiltinTools::Drop,
        startup_wait: Duration::ZERO,
        mcp: airlock_mcp_server::Settings::default(),
        replica_url: None,
        replica_tls: ReplicaTls::default(),
        debug_requests: None,
        management: ManagementSettings::default(),
    }
}

impl Gateway {
    async fn start(settings: Settings) -> Self {
        Self::with(settings, &turns(), None).await
    }

    /// Starts a gateway that serves on this socket too.
    async fn with_socket(settings: Settings, socket: SocketListener) -> Self {
        Self::launch(settings, fake::scripted(&turns()), hooks::hooks(None), Some(socket)).await
    }

    /// Starts a gateway whose model follows these turns.
    async fn with_turns(settings: Settings, turns: &Value) -> Self {
        Self::with(settings, turns, None).await
    }

    /// Starts a gateway with a model that follows these turns, and with a store.
    async fn with(settings: Settings, turns: &Value, store: Option<store::Settings>) -> Self {
        Self::with_models(settings, fake::scripted(turns), store).await
    }

    /// Starts a gateway with these models.
    async fn with_models(
        settings: Settings,
        models: Models,
        store: Option<store::Settings>,
    ) -> Self {
        Self::with_hooks(settings, models, hooks::hooks(store)).await
    }

    /// Starts a gateway with these models and these other parts.
    async fn with_hooks(settings: Settings, models: Models, hooks: Hooks) -> Self {
        Self::launch(settings, models, hooks, None).await
    }

    async fn launch(
        settings: Settings,
        models: Models,
        hooks: Hooks,
        socket: Option<SocketListener>,
    ) -> Self {
        let (catalog, happened) = fake::catalog();
        if !settings.startup_wait.is_zero() {
            // Else requests could use none of its tools, and would not miss it.
            let away = airlock_core::tool::ClientName::parse("away").expect("a good name");
            let policy =
                airlock_core::tool::Policy { execute: Allowlist::All, ..Default::default() };
            catalog.set_policy(&away, policy);
        }
        let desk = airlock_core::tool::ClientName::parse("desk").expect("a good name");
        let rows: std::collections::BTreeMap<_, _> =
            [(desk, Allowlist::parse(&["echo", "hang"]).expect("a good list"))].into();
        let keys = Keys::new([
            VirtualKey::new("ann", "sk-bf-ann", rows.clone()),
            VirtualKey::new("dan", "sk-bf-dan", rows.clone()),
            VirtualKey::new("eve", "sk-bf-eve", rows.clone()),
            VirtualKey::new("cid", "sk-bf-cid", rows.clone()),
            VirtualKey::new("tia", "sk-bf-tia", rows)
                .with_certificates([https::certificate_of_tia()].into()),
        ]);
        let listener = TcpListener::bind(settings.listen).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel::<()>();
        let hooks = Hooks { catalog, keys: LiveKeys::new(keys), ..hooks };
        let live = LiveApp::new(hooks, hooks::request_settings(settings, models));
        let shutdown = async { drop(stopped.await) };
        let running = tokio::spawn(serve(listener, socket, live.clone(), shutdown));
        // Each request has a connection of its own, as if it came from another program.
        let client = tls::client().no_proxy().pool_max_idle_per_host(0).build().expect("a client");
        Self { address, client, happened, stop, running, live }
    }

    async fn standard() -> Self {
        Self::start(settings()).await
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> (u16, Value) {
        let reply = self.send(method, path, headers, body).await;
        (reply.status().as_u16(), reply.json().await.unwrap_or_default())
    }

    async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&'static str, &str)],
        body: &str,
    ) -> reqwest::Response {
        let url = format!("http://{}{path}", self.address);
        let mut request = self.client.request(method, url).body(body.to_owned());
        let mut sent = HeaderMap::from_iter([(
            header::CONTENT_TYPE,
            HeaderValue::from_static("application/json"),
        )]);
        for (name, value) in headers {
            sent.insert(
                header::HeaderName::from_static(name),
                value.parse().expect("a good value"),
            );
        }
        request = request.headers(sent);
        request.send().await.expect("an answer")
    }

    async fn get(&self, path: &str, headers: &[(&'static str, &str)]) -> (u16, Value) {
        self.ask(Method::GET, path, headers, "").await
    }

    async fn chat(&self, message: &str, headers: &[(&'static str, &str)]) -> (u16, Value) {
        let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": message}]});
        self.ask(Method::POST, "/v1/chat/completions", headers, &body.to_string()).await
    }

    async fn execute(&self, tool: &str, headers: &[(&'static str, &str)]) -> (u16, Value) {
        let call = json!({"id": "c1", "type": "function", "function": {"name": tool, "arguments": r#"{"code":"files-write"}"#}});
        self.ask(Method::POST, "/v1/mcp/tool/execute", headers, &call.to_string()).await
    }

    /// Opens a connection and sends `text`.
    async fn connect(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).await.expect("a connection");
        stream.write_all(text.as_bytes()).await.expect("it is read");
        stream
    }

    async fn next_event(&mut self) -> &'static str {
        soon(self.happened.recv()).await.expect("the tools live")
    }

    async fn stop(self) {
        self.stop.send(()).expect("it runs");
        soon(self.running).await.expect("no panic").expect("no error");
    }
}

/// Returns the turns of the model.
fn turns() -> Value {
    json!([
        {"when": {"role": "user", "contains": "echo"}, "answer": {"tool_calls": [{"name": "desk-echo"}]}},
        {"when": {"role": "user", "contains": "hang"}, "answer": {"tool_calls": [{"name": "desk-hang"}]}},
        {"when": {"role": "user", "contains": "flood"}, "answer": {"tool_calls": flood()}},
        {"when": {"role": "tool"}, "answer": {"content": "done: {{last_tool_result}}"}},
    ])
}

/// Returns calls of a model that take more than half of the smallest request memory.
fn flood() -> Value {
    let call = json!({"name": "desk-fail", "arguments": {"text": "x".repeat(100_000)}});
    vec![call; SETTINGS.calls_per_answer].into()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(SOON, future).await.expect("it happens soon")
}

/// Reads until the other side closes the connection.
async fn rest_of(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset after the response counts as an end.
    let _ = soon(stream.read_to_end(&mut text)).await;
    String::from_utf8_lossy(&text).into_owned()
}

fn post(path: &str, body: &str) -> String {
    let head = "host: localhost\r\ncontent-type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn hanging_chat() -> String {
    let body = json!({"model": "demo/m", "messages": [{"role": "user", "content": "hang"}]});
    post("/v1/chat/completions", &body.to_string())
}
