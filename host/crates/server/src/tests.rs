mod audit_key;
mod clients;
pub(super) mod hooks;
mod http2;
mod https;
mod limits;
mod messages;
mod model_control;
mod native;
mod operator;
mod parity;
mod reload;
mod responses;
mod service;
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
const SHORT: Duration = Duration::from_millis(50);

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

#[tokio::test]
async fn a_chat_runs_tools_and_reports_them() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.chat("echo", &[]).await;
    assert_eq!(
        (status, &answer["choices"][0]["message"]["content"]),
        (200, &json!("done: echo {}"))
    );
    assert_eq!(answer["airlock"]["rounds"], 1);
    let (_, narrowed) = gateway.chat("echo", &[("x-bf-mcp-include-tools", "desk-fail")]).await;
    assert_eq!(narrowed["airlock"]["calls"][0]["error"]["code"], "airlock.not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn a_chat_response_names_the_provider_that_answered() {
    let gateway = Gateway::standard().await;
    for is_streamed in [false, true] {
        let body = json!({
            "model": "demo/m", "messages": [{"role": "user", "content": "echo"}],
            "stream": is_streamed, "fallbacks": ["demo/other"],
        });
        let body = body.to_string();
        let reply = gateway.send(Method::POST, "/v1/chat/completions", &[], &body).await;
        assert_eq!(reply.headers()["x-airlock-provider"], "demo");
        reply.text().await.expect("a whole response");
    }
    let body = r#"{"model": "demo/m", "messages": [], "fallbacks": ["demo/x", "nowhere/x"]}"#;
    let (status, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], body).await;
    assert_eq!((status, &answer["error"]["param"]), (400, &json!("fallbacks[1]")));
    gateway.stop().await;
}

#[tokio::test]
async fn an_invalid_chat_request_is_an_openai_error() {
    let gateway = Gateway::standard().await;
    for (body, status, code, param) in [
        ("{", 400, "invalid_json", Value::Null),
        ("[]", 400, "invalid_json", Value::Null),
        ("{}", 400, "invalid_type", "messages".into()),
        (r#"{"messages": [], "stream": "yes"}"#, 400, "invalid_type", "stream".into()),
        (r#"{"messages": [], "airlock": {"x": 1}}"#, 400, "invalid_value", "airlock".into()),
        (r#"{"messages": [], "stream": true}"#, 400, "missing_model", "model".into()),
        (r#"{"messages": []}"#, 400, "missing_model", "model".into()),
        (r#"{"messages": [], "model": "m"}"#, 400, "no_matching_turn", "messages".into()),
    ] {
        let (found, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], body).await;
        assert_eq!(
            (found, &answer["error"]["code"], &answer["error"]["param"]),
            (status, &code.into(), &param),
            "{body}"
        );
    }
    let (_, answer) = gateway.ask(Method::POST, "/v1/chat/completions", &[], "{\n  x").await;
    insta::assert_snapshot!(
        answer["error"]["message"].as_str().expect("a text"),
        @"the request body is not a JSON object: key must be a string at line 2 column 3"
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_tool_is_executed_in_both_formats_and_its_failure_is_a_result() {
    let gateway = Gateway::standard().await;
    let (status, mut answer) = gateway.execute("desk-write", &[]).await;
    assert!(answer["airlock"]["duration_ms"].take().is_number());
    let content = r#"write {"code":"files-write"}"#;
    let result = json!({"content": [{"type": "text", "text": content}]});
    let airlock = json!({"duration_ms": null, "fuel": 7, "calls": [], "result": result});
    assert_eq!(
        answer,
        json!({"role": "tool", "content": content, "tool_call_id": "c1", "airlock": airlock})
    );
    assert_eq!(status, 200);

    let (status, answer) = gateway.execute("desk-fail", &[]).await;
    assert_eq!(
        (status, &answer["content"], &answer["is_error"]),
        (200, &json!("Error executing tool desk-fail: no luck"), &json!(true))
    );
    let (_, answer) = gateway.execute("executeToolCode", &[]).await;
    let names: Vec<_> = answer["airlock"]["calls"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|call| &call["name"])
        .collect();
    // The second call of the script needs an approval of its own.
    assert_eq!(names, ["files-read"]);

    let call = r#"{"type":"function_call","call_id":"c2","name":"desk-echo","arguments":""}"#;
    let (_, answer) =
        gateway.ask(Method::POST, "/v1/mcp/tool/execute?format=responses", &[], call).await;
    assert_eq!(
        (&answer["type"], &answer["output"], &answer["call_id"]),
        (&json!("function_call_output"), &json!("echo {}"), &json!("c2"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_header_shortens_the_time_of_a_call_and_of_a_chat() {
    let gateway = Gateway::standard().await;
    let short = [("x-airlock-timeout", "50ms")];
    let (status, answer) = gateway.execute("desk-hang", &short).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("deadline")), "{answer}");
    let message = answer["error"]["message"].as_str().expect("a text");
    assert!(message.contains("ms deadline"), "{message}");
    let (status, answer) = gateway.chat("hang", &short).await;
    assert_eq!((status, &answer["error"]["code"]), (504, &json!("agent_timeout")), "{answer}");
    let (status, answer) = gateway.chat("echo", &[("x-airlock-timeout", "soon")]).await;
    assert_eq!((status, &answer["error"]["code"]), (400, &json!("bad_header")), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_call_that_cannot_be_executed_is_an_openai_error() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.execute("desk-nothing", &[]).await;
    assert_eq!(
        (status, &answer["error"]["message"]),
        (400, &json!("tool 'desk-nothing' is not available or not permitted"))
    );
    let busy = gateway
        .send(Method::POST, "/v1/mcp/tool/execute", &[], r#"{"function":{"name":"desk-busy"}}"#)
        .await;
    assert_eq!(
        (busy.status().as_u16(), busy.headers()["retry-after"].as_bytes()),
        (503, &b"1"[..])
    );
    let (status, answer) =
        gateway.ask(Method::POST, "/v1/mcp/tool/execute?format=xml", &[], "{}").await;
    assert_eq!(
        (status, &answer["error"]["message"]),
        (400, &json!("Invalid format value, must be 'chat' or 'responses'"))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn a_panic_is_an_error_and_the_next_request_is_answered() {
    let gateway = Gateway::standard().await;
    let (status, answer) = gateway.execute("desk-panic", &[]).await;
    assert_eq!((status, &answer["error"]["code"]), (500, &json!("internal_error")));
    assert_eq!(gateway.execute("desk-echo", &[]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn models_clients_and_health_are_listed() {
    let gateway = Gateway::standard().await;
    let (_, models) = gateway.get("/v1/models", &[]).await;
    assert_eq!(
        (&models["object"], &models["data"][0]["id"]),
        (&json!("list"), &json!("demo/script"))
    );
    let as_viewer = [("authorization", "Bearer alop_viewer")];
    let (_, clients) = gateway.get("/api/mcp/clients", &as_viewer).await;
    assert_eq!(
        (&clients["count"], &clients["total_count"], &clients["offset"]),
        (&json!(3), &json!(3), &json!(0))
    );
    assert_eq!(
        (&clients["clients"][0]["state"], &clients["clients"][0]["tools"]),
        (&json!("connecting"), &json!([]))
    );
    let files = &clients["clients"][2];
    let config = json!({"name": "files", "client_id": "files", "connection_type": "internal", "is_code_mode_client": true,
                        "tools_to_execute": ["*"], "tools_to_exclude": [], "tools_to_auto_execute": ["read"], "tools_to_approve_twice": []});
    assert_eq!((&files["config"], &files["tools"][0]["name"]), (&config, &json!("read")));
    let (_, health) = gateway.get("/health", &[]).await;
    assert_eq!(
        (&health["status"], &health["clients"]),
        (&json!("ok"), &json!({"connected": 2, "starting": 1, "total": 3}))
    );
    gateway.stop().await;
}

#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_are_405() {
    let gateway = Gateway::standard().await;
    assert_eq!(gateway.get("/v1/completions", &[]).await.0, 404);
    let reply = gateway.send(Method::GET, "/v1/chat/completions", &[], "").await;
    assert_eq!((reply.status().as_u16(), reply.headers()["allow"].as_bytes()), (405, &b"POST"[..]));
    assert_eq!(gateway.send(Method::HEAD, "/health", &[], "").await.status().as_u16(), 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_required_key_must_be_sent_and_permits_only_its_own_tools() {
    let gateway = Gateway::start(Settings { require_virtual_key: true, ..settings() }).await;
    for path in ["/v1/models", "/api/mcp/clients"] {
        assert_eq!(gateway.get(path, &[]).await.0, 401);
        assert_eq!(gateway.get(path, &[("authorization", "Bearer sk-bf-ann")]).await.0, 200);
    }
    let (status, answer) = gateway.chat("echo", &[("x-bf-vk", "sk-bf-bob")]).await;
    assert_eq!((status, &answer["error"]["message"]), (401, &json!("virtual key not found")));
    assert_eq!(gateway.get("/health", &[]).await.0, 200);
    let ann = [("x-api-key", "sk-bf-ann")];
    assert_eq!(gateway.execute("desk-echo", &ann).await.0, 200);
    assert_eq!(gateway.execute("desk-write", &ann).await.1["error"]["code"], "not_found");
    gateway.stop().await;
}

#[tokio::test]
async fn requests_of_web_pages_of_other_origins_are_refused() {
    let gateway = Gateway::standard().await;
    assert_eq!(gateway.get("/health", &[("host", "evil.example")]).await.0, 403);
    assert_eq!(gateway.execute("desk-echo", &[("origin", "http://evil.example")]).await.0, 403);
    assert_eq!(
        gateway.execute("desk-echo", &[("origin", "http://localhost:3000")]).await.0,
        403,
        "another port is another program"
    );
    let own = format!("http://{}", gateway.address);
    assert_eq!(gateway.execute("desk-echo", &[("origin", &own)]).await.0, 200);
    assert_eq!(gateway.get("/health", &[("sec-fetch-site", "cross-site")]).await.0, 403);
    gateway.stop().await;
    let listed = vec!["http://localhost:3000".to_owned()];
    let gateway = Gateway::start(Settings { allowed_origins: listed, ..settings() }).await;
    assert_eq!(gateway.execute("desk-echo", &[("origin", "http://localhost:3000")]).await.0, 200);
    gateway.stop().await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused() {
    let gateway = Gateway::standard().await;
    let fits = format!("{:<10000}", r#"{"function":{"name":"desk-echo"}}"#);
    assert_eq!(gateway.ask(Method::POST, "/v1/mcp/tool/execute", &[], &fits).await.0, 200);
    assert_eq!(
        gateway.ask(Method::POST, "/v1/mcp/tool/execute", &[], &format!("{fits} ")).await.0,
        413
    );
    let chunked = "POST /v1/mcp/tool/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2711\r\n";
    let stream = gateway.connect(&format!("{chunked}{fits} \r\n0\r\n\r\n")).await;
    assert!(rest_of(stream).await.starts_with("HTTP/1.1 413 "));
    gateway.stop().await;
}

#[tokio::test]
async fn a_head_that_is_too_large_is_refused() {
    let gateway = Gateway::standard().await;
    let head = format!(
        "GET /health HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n",
        "x".repeat(MIN_HEADER_BYTES)
    );
    let answer = rest_of(gateway.connect(&head).await).await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");
    gateway.stop().await;
}

#[tokio::test]
async fn a_request_that_arrives_too_slowly_is_ended() {
    let gateway = Gateway::start(Settings { read_timeout: SHORT, ..settings() }).await;
    let body = "POST /v1/mcp/tool/execute HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{";
    assert!(rest_of(gateway.connect(body).await).await.starts_with("HTTP/1.1 408 "));
    for head in ["", "P", "GET /health HTTP/1.1\r\nhost:", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"] {
        let answer = rest_of(gateway.connect(head).await).await;
        assert!(!answer.contains(" 200 "), "{head:?}: {answer}");
    }
    gateway.stop().await;
}

#[tokio::test]
async fn closing_the_connection_stops_the_tool() {
    let mut gateway = Gateway::standard().await;
    let stream = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    drop(stream);
    assert_eq!(gateway.next_event().await, "dropped");
    gateway.stop().await;
}

#[tokio::test]
async fn a_connection_beyond_the_cap_gets_the_state_of_the_gateway_and_nothing_else() {
    let mut gateway = Gateway::start(Settings { max_connections: 1, ..settings() }).await;
    let first = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    let head = " HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let health = gateway.connect(&format!("GET /health{head}")).await;
    assert!(rest_of(health).await.starts_with("HTTP/1.1 200 "));
    // The connection is closed, although the client would keep it.
    let models = gateway.connect("GET /v1/models HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let refused = rest_of(models).await;
    assert!(
        refused.starts_with("HTTP/1.1 503 ") && refused.contains("gateway_overloaded"),
        "{refused}"
    );
    drop(first);
    assert_eq!(gateway.next_event().await, "dropped");
    let models = gateway.connect(&format!("GET /v1/models{head}")).await;
    assert!(rest_of(models).await.starts_with("HTTP/1.1 200 "));
    gateway.stop().await;
}

#[tokio::test]
async fn a_drain_sends_finished_responses_and_drops_hanging_requests_at_its_timeout() {
    let mut gateway = Gateway::start(Settings { drain_timeout: SHORT, ..settings() }).await;
    let idle = gateway.connect("GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let hanging = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.stop.send(()).expect("it runs");
    soon(gateway.running).await.expect("no panic").expect("no error");
    assert_eq!(gateway.happened.recv().await, Some("dropped"));
    assert!(rest_of(idle).await.starts_with("HTTP/1.1 200 "));
    assert_eq!(rest_of(hanging).await, "");
    assert!(TcpStream::connect(gateway.address).await.is_err());
}

#[tokio::test]
async fn dropping_the_server_stops_its_connections() {
    let mut gateway = Gateway::standard().await;
    let stream = gateway.connect(&hanging_chat()).await;
    assert_eq!(gateway.next_event().await, "started");
    gateway.running.abort();
    assert_eq!(gateway.next_event().await, "dropped");
    assert_eq!(rest_of(stream).await, "");
}

#[test]
fn a_gateway_open_to_the_network_needs_keys() {
    let open = Settings { listen: SocketAddr::from(([0, 0, 0, 0], 80)), ..settings() };
    assert_eq!(open.check(), Err(BadSettings::Open { listen: open.listen }));
    assert_eq!(Settings { require_virtual_key: true, ..open }.check(), Ok(()));
    assert_eq!(
        Settings { listen: "[::1]:80".parse().expect("an address"), ..settings() }.check(),
        Ok(())
    );
    assert_eq!(
        Settings { max_header_bytes: 1, ..settings() }.check(),
        Err(BadSettings::HeaderBytes { found: 1 })
    );
    assert_eq!(
        Settings { max_connections: 0, ..settings() }.check(),
        Err(BadSettings::Connections)
    );
    assert_eq!(
        Settings { max_connections_per_peer: 0, ..settings() }.check(),
        Err(BadSettings::Connections)
    );
    let least = settings().least_request_memory();
    assert_eq!(Settings { max_request_memory_bytes: least, ..settings() }.check(), Ok(()));
    let small = Settings { max_request_memory_bytes: least - 1, ..settings() };
    assert!(
        matches!(small.check(), Err(BadSettings::RequestMemory { found, .. }) if found == least - 1)
    );
}
