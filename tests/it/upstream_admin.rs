//! State and metrics of MCP servers, and operations on them: the administrative API, `/metrics`, and
//! `airlock upstream` against a running gateway.

mod cli;
mod metrics;

use std::{os::unix::fs::symlink, time::Duration};

use airlock_tests::{
    Client, Gateway, Reply, Setup, binary,
    mcp::{Endpoint, McpClient},
    misbehaving, wait,
};
use reqwest::Method;
use serde_json::{Value, json};

const KEY: &str = "sk-bf-0123456789-ann";
/// All paths for operators, with their methods.
const OPERATOR: [(Method, &str); 4] = [
    (Method::POST, "/api/mcp/client/server/reconnect"),
    (Method::POST, "/api/mcp/client/server/refresh-tools"),
    (Method::GET, "/api/mcp/client/server/logs"),
    (Method::GET, "/metrics"),
];

async fn operate(gateway: &Gateway, client: &str, operation: &str) -> Reply {
    gateway.post(&format!("/api/mcp/client/{client}/{operation}"), &json!({})).await
}

/// Waits until a server is in a phase.
async fn in_phase(gateway: &Gateway, name: &str, phase: &str) -> Value {
    wait::until(&format!("{name} to be {phase}"), async || {
        gateway.client(name).await.filter(|client| client["phase"] == phase)
    })
    .await
}

#[tokio::test]
async fn a_crash_and_the_restart_are_in_the_history_with_their_reasons() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let before = in_phase(&gateway, "server", "ready").await;
    assert_eq!((&before["restarts"], &before["attempts"]), (&json!(0), &json!(0)));
    assert!(before.get("last_failure").is_none(), "{before:#}");
    assert_eq!(before["protocol"]["era"], "legacy");
    let crashed = gateway.execute("server-die", &json!({})).await;
    assert_eq!(crashed.code(), "unavailable");
    let after = wait::until("the server to be back", async || {
        let client = gateway.client("server").await?;
        (client["phase"] == "ready" && client["restarts"] == 1).then_some(client)
    })
    .await;
    let failure = &after["last_failure"];
    assert_eq!(failure["stage"], "transport_lost", "{after:#}");
    let message = failure["message"].as_str().expect("a reason");
    assert!(message.contains("exit status: 4"), "{message}");
    let history = after["history"].as_array().expect("a history");
    let phases: Vec<_> = history.iter().filter_map(|change| change["phase"].as_str()).collect();
    assert_eq!(phases, ["starting", "ready", "restarting", "starting", "ready"]);
    assert!(history.iter().all(|change| change["reason"].is_string() && change["at"].is_string()));
    assert!(after["latency_ms"]["p99"].is_number(), "{after:#}");
    assert_eq!((&after["in_flight"], &after["queued"]), (&json!(0), &json!(0)));
    assert_eq!((&after["stale"], &after["quarantine"]), (&json!(false), &json!([])));
}

#[tokio::test]
async fn a_reconnect_starts_a_new_process_and_revives_a_failed_server() {
    let setup = Setup::new();
    let late = setup.directory().join("late-server");
    let gateway = setup
        .client(misbehaving("server", []))
        .client(Client::stdio("late", &late, Vec::<String>::new()))
        .serve()
        .await;
    gateway.connected("server").await;
    in_phase(&gateway, "late", "failed").await;
    let refused = operate(&gateway, "late", "reconnect").await;
    assert_eq!((refused.status, refused.code()), (502, "upstream_failed"), "{}", refused.text);
    assert!(refused.refusal().1.contains("is not found in the file system"), "{}", refused.text);
    let refused = operate(&gateway, "late", "refresh-tools").await;
    assert_eq!((refused.status, refused.code()), (502, "upstream_failed"), "{}", refused.text);

    symlink(binary("misbehaving-server"), &late).expect("a link");
    let first = gateway.execute("server-pid", &json!({})).await.content();
    let success = json!({
        "status": "success", "message": "MCP client reconnected successfully", "warnings": [],
    });
    for name in ["late", "server"] {
        assert_eq!(operate(&gateway, name, "reconnect").await.ok(), success);
        assert_eq!(gateway.client(name).await.expect("it is listed")["state"], "connected");
    }
    assert_ne!(gateway.execute("server-pid", &json!({})).await.content(), first);
    let revived = gateway.client("late").await.expect("it is listed");
    assert_eq!(revived["last_failure"]["stage"], "connect");
}

#[tokio::test]
async fn one_request_to_reconnect_is_processed_at_a_time() {
    let gateway = Setup::new().client(misbehaving("mute", ["mute"])).serve().await;
    let reply = wait::until("a request to be refused", async || {
        let request = gateway.request(Method::POST, "/api/mcp/client/mute/reconnect");
        let request = request.bearer_auth(airlock_tests::OPERATOR);
        // The first one waits for the server; the operator who sent it leaves.
        request.timeout(Duration::from_millis(500)).send().await.ok()
    })
    .await;
    assert_eq!(reply.status(), 500);
    let body: Value = serde_json::from_str(&reply.text().await.expect("a body")).expect("JSON");
    assert_eq!(body["error"]["message"], "reconnect already in progress for this client");
}

#[tokio::test]
async fn tools_are_listed_again_on_the_operators_request() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let listed = async || gateway.execute("server-listed", &json!({})).await.content();
    let before: u32 = listed().await.parse().expect("a number");
    let done = operate(&gateway, "server", "refresh-tools").await.ok();
    let tools = gateway.client("server").await.expect("it is listed")["tools"].clone();
    assert_eq!(done["tools_count"], tools.as_array().map_or(0, Vec::len));
    assert_eq!(done["message"], "MCP client tools refreshed successfully");
    assert_eq!(listed().await, (before + 1).to_string());
}

#[tokio::test]
async fn unknown_and_disabled_clients_and_plugins_cannot_be_operated() {
    let gateway = Setup::new()
        .client(misbehaving("server", []))
        .client(misbehaving("off", []).set("/disabled", true))
        .serve()
        .await;
    for name in ["nobody", "off"] {
        for what in ["reconnect", "refresh-tools"] {
            let refused = operate(&gateway, name, what).await;
            assert_eq!((refused.status, refused.code()), (400, "unknown_client"), "{name} {what}");
        }
        let refused = gateway.get(&format!("/api/mcp/client/{name}/logs")).await;
        assert_eq!((refused.status, refused.code()), (404, "unknown_client"), "{name}");
    }
    let off = gateway.client("off").await.expect("it is listed");
    assert_eq!((&off["phase"], &off["state"]), (&json!("disabled"), &json!("disconnected")));
    let metrics = gateway.get("/metrics").await.text;
    assert!(
        metrics.contains("airlock_upstream_state{client=\"off\",state=\"disabled\"} 1"),
        "{metrics}"
    );
    assert_eq!(gateway.get("/api/mcp/clients?search=of").await.ok()["total_count"], 1);
    let health = gateway.get("/health").await.ok();
    assert!(!health.to_string().contains("off"), "{health}");
    let wrong = gateway.get("/api/mcp/client/server/reconnect").await;
    assert_eq!(wrong.status, 405, "{}", wrong.text);
}

#[tokio::test]
async fn clients_are_listed_in_pages_with_sorted_tools() {
    let gateway = Setup::new()
        .client(misbehaving("alpha", []))
        .client(misbehaving("beta", []))
        .client(misbehaving("gamma", []))
        .serve_connected()
        .await;
    let page = async |query: &str| {
        let page = gateway.get(&format!("/api/mcp/clients?{query}")).await.ok();
        let clients = page["clients"].as_array().expect("a list").iter();
        let names: Vec<_> = clients
            .map(|client| client["config"]["client_id"].as_str().unwrap_or("").to_owned())
            .collect();
        let numbers = ["count", "total_count", "limit", "offset"].map(|key| page[key].as_u64());
        (names.join(" "), numbers.map(Option::unwrap_or_default))
    };
    assert_eq!(page("").await, ("alpha beta gamma".to_owned(), [3, 3, 100, 0]));
    assert_eq!(page("limit=1&offset=1").await, ("beta".to_owned(), [1, 3, 1, 1]));
    assert_eq!(page("search=MM").await, ("gamma".to_owned(), [1, 1, 100, 0]));
    let refused = gateway.get("/api/mcp/clients?limit=-1").await;
    assert_eq!(refused.refusal(), (400, "Invalid limit parameter: must be non-negative"));
    let client = gateway.client("alpha").await.expect("it is listed");
    let tools = client["tools"].as_array().expect("a list").iter();
    let names: Vec<_> = tools.map(|tool| tool["name"].as_str().unwrap_or_default()).collect();
    assert!(names.is_sorted() && names.contains(&"echo"), "{names:?}");
    let query = "/api/mcp/clients?search=alpha&tools_limit=1&tools_offset=1";
    let page = gateway.get(query).await.ok();
    let alpha = &page["clients"][0];
    assert_eq!(
        (&alpha["tools_total"], &alpha["tools"][0]["name"]),
        (&json!(names.len()), &json!(names[1]))
    );
    assert_eq!(alpha["tools"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn the_holder_of_a_key_is_no_operator() {
    let setup =
        || Setup::new().client(misbehaving("server", [])).key("ann", KEY, &[("server", &["echo"])]);
    let gateway = setup().set("/server/require_virtual_key", false).serve_connected().await;
    for (method, path) in OPERATOR {
        for (header, value) in
            [("x-bf-vk", KEY), ("x-forwarded-for", "10.0.0.1"), ("sec-fetch-site", "none")]
        {
            let request = gateway.request(method.clone(), path).header(header, value);
            let reply = Reply::fetch(request).await;
            assert_eq!((reply.status, reply.code()), (401, "operator_required"), "{path} {header}");
        }
    }
    let request = gateway.request(Method::GET, "/api/mcp/clients").header("x-bf-vk", KEY);
    let shown = Reply::fetch(request).await.ok();
    let members: Vec<_> = shown["clients"][0].as_object().expect("a client").keys().collect();
    assert_eq!(members, ["config", "state", "tools_total", "tools"]);
    assert_eq!(shown["clients"][0]["tools"].as_array().map(Vec::len), Some(1));
    drop(gateway);

    let gateway = setup().serve().await;
    for (method, path) in OPERATOR {
        let reply = Reply::fetch(gateway.request(method, path)).await;
        let expected = if path == "/metrics" { 200 } else { 401 };
        assert_eq!(reply.status, expected, "{path}: {}", reply.text);
    }
    let reply = Reply::fetch(gateway.request(Method::GET, "/metrics").header("x-bf-vk", KEY)).await;
    assert_eq!((reply.status, reply.code()), (401, "operator_required"));
}

#[tokio::test]
async fn no_secret_is_in_the_state_the_logs_or_the_metrics() {
    const SECRET: &str = "hunter2-hunter2-hunter2";
    let script = "echo first line >&2; echo \"the token is $API_TOKEN\" >&2; exit 3";
    let gateway = Setup::new()
        .client(
            Client::stdio("leaky", "/bin/sh", ["-c", script])
                .envs(&[&format!("API_TOKEN={SECRET}")]),
        )
        .serve()
        .await;
    wait::until("the server to fail", async || {
        gateway.client("leaky").await.filter(|client| client["last_failure"].is_object())
    })
    .await;
    let lines = wait::until("its stderr", async || {
        let logs = gateway.get("/api/mcp/client/leaky/logs").await.ok();
        logs["lines"].as_array().filter(|lines| lines.len() >= 2).cloned()
    })
    .await;
    assert_eq!(lines[..2], [json!("first line"), json!("the token is [secret API_TOKEN]")]);
    for path in ["/api/mcp/clients", "/api/mcp/client/leaky/logs", "/metrics"] {
        let reply = gateway.get(path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(!reply.text.contains(SECRET), "{path}: {}", reply.text);
    }
    assert!(!gateway.said().contains(SECRET));
}

#[tokio::test]
async fn a_server_whose_list_keeps_changing_does_not_delay_its_operator() {
    // Each listing is followed by a report of a change, so the delays between listings grow to a
    // minute. Twenty requests that waited for them would take as many minutes.
    let gateway = Setup::new().client(misbehaving("server", ["changing"])).serve_connected().await;
    for _ in 0..20 {
        let reply = operate(&gateway, "server", "refresh-tools").await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    assert_eq!(operate(&gateway, "server", "reconnect").await.status, 200);
}

#[tokio::test]
async fn a_server_that_never_starts_fails_for_good_after_the_attempts_of_the_configuration() {
    for key in ["max_attempts", "maxAttempts"] {
        let restart = json!({key: 2, "backoff": "1ms"});
        let client = misbehaving("server", ["die"]).set("/restart", restart);
        let gateway = Setup::new().client(client).serve().await;
        let failed = in_phase(&gateway, "server", "failed").await;
        assert_eq!(
            (&failed["attempts"], &failed["restarts"]),
            (&json!(2), &json!(1)),
            "{failed:#}"
        );
        assert_eq!(operate(&gateway, "server", "reconnect").await.status, 502);
        let again = in_phase(&gateway, "server", "failed").await;
        let phases: Vec<_> = again["history"].as_array().expect("a history").iter().collect();
        assert!(phases.len() > failed["history"].as_array().expect("a history").len(), "{again:#}");
    }
}

#[tokio::test]
async fn tools_have_the_prefix_of_the_configuration_or_none() {
    let setup = Setup::new().client(misbehaving("server", []).auto(&["*"]).set("/prefix", "other"));
    let gateway = setup.client(misbehaving("plain", []).auto(&["*"]).set("/prefix", ""));
    let gateway = gateway.serve_connected().await;
    for name in ["other-echo", "echo"] {
        let reply = gateway.execute(name, &json!({"text": name})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let client = McpClient::Modern(Endpoint::new(&gateway));
    let names = client.names().await;
    assert!(names.contains(&"other-echo".to_owned()) && names.contains(&"echo".to_owned()));
    assert!(!names.iter().any(|name| name.starts_with("server-") || name.starts_with("plain-")));
}

#[tokio::test]
async fn the_log_names_clients_and_never_has_arguments_or_results() {
    const ARGUMENT: &str = "an-argument-of-a-caller";
    let gateway = Setup::new()
        .client(misbehaving("server", []))
        .serve_with(&[("AIRLOCK_LOG", "trace")])
        .await;
    gateway.connected("server").await;
    let reply = gateway.execute("server-echo", &json!({"text": ARGUMENT})).await;
    assert_eq!(reply.content(), ARGUMENT, "the result has it too");
    gateway.execute("server-fail", &json!({"text": ARGUMENT})).await;
    assert_eq!(
        gateway.execute("server-die", &json!({"text": ARGUMENT})).await.code(),
        "unavailable"
    );
    let said = wait::until("the crash to be logged", async || {
        let said = gateway.said();
        said.contains("upstream server is not connected client=server").then_some(said)
    })
    .await;
    let leak = said.lines().find(|line| line.contains(ARGUMENT));
    assert_eq!(leak, None);
}
