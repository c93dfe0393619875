//! Reload of the whole configuration: it is taken as a whole or not at all, and no request under way
//! notices.

use std::{fs, sync::Arc};

use airlock_tests::{
    Airlock, Client, Gateway, OPERATOR, Reply, Service, Setup, guests,
    mcp::{Endpoint, McpClient},
    misbehaving, service, wait,
};
use futures_util::{
    StreamExt as _,
    future::{join, join_all},
    stream,
};
use reqwest::Method;
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};
use service::Answer;
use tokio::sync::Notify;

use super::live_settings::edit;

const ANN: &str = "sk-bf-ann-0123456789abc";
/// Clients that send requests at the same time while the configuration is reloaded.
const WORKERS: usize = 6;
/// Requests of each of them.
const REQUESTS: usize = 25;
/// Reloads meanwhile.
const RELOADS: usize = 40;
/// A request of the model `fake/m`.
const STREAMED: &str =
    r#"{"model":"fake/m","stream":true,"messages":[{"role":"user","content":"go"}]}"#;

/// Reloads the configuration by the API.
async fn reload(gateway: &Gateway) -> Reply {
    gateway.post("/api/config/reload", &json!({})).await
}

/// Reloads the configuration, which must be good.
async fn reloaded(gateway: &Gateway) {
    let reply = reload(gateway).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
}

async fn logged(gateway: &Gateway, text: &str) -> String {
    let line = async || gateway.said().lines().find(|line| line.contains(text)).map(str::to_owned);
    wait::until(text, line).await
}

/// Returns a provider of the kind `openai`.
fn provider(service: &Service) -> Value {
    json!({"kind": "openai", "base_url": service.base_url(), "api_key": "sk-test"})
}

fn content(reply: Reply) -> String {
    reply.ok()["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
}

fn chunk(text: &str) -> String {
    let choice = json!({"index": 0, "delta": {"content": text}, "finish_reason": null});
    json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]})
        .to_string()
}

#[tokio::test]
async fn a_stream_ends_at_its_provider_and_the_next_request_goes_to_the_new_one() {
    let released = Arc::new(Notify::new());
    let gate = released.clone();
    let old = Service::start(move |_| {
        let gate = gate.clone();
        let rest = stream::once(async move {
            gate.notified().await;
            service::events([chunk("end"), "[DONE]".to_owned()])
        });
        Answer::stream(stream::iter([service::events([chunk("begin")])]).chain(rest))
    })
    .await;
    let new = Service::saying([service::text("new")]).await;
    let other = Service::saying([service::text("other")]).await;
    let gateway = Setup::new().openai("fake", old.base_url()).serve().await;
    let mut running = gateway.stream(STREAMED).await;
    running.until(|event| event["choices"][0]["delta"]["content"] == "begin").await;

    edit(&gateway, |config| config["providers"]["fake"]["base_url"] = json!(new.base_url()));
    kill_process(gateway.pid(), Signal::HUP).expect("it runs");
    let taken = logged(&gateway, "changed settings applied").await;
    assert!(taken.contains("settings=\"providers.fake.base_url\""), "{taken}");
    assert_eq!(content(gateway.chat("fake/m", "go").await), "new");
    edit(&gateway, |config| config["providers"]["other"] = provider(&other));
    reloaded(&gateway).await;
    assert_eq!(content(gateway.chat("other/m", "go").await), "other");
    edit(&gateway, |config| {
        config["providers"].as_object_mut().expect("an object").remove("fake");
    });
    reloaded(&gateway).await;
    assert_eq!(content(gateway.chat("fake/m", "go").await), "other", "it is the first one now");

    released.notify_one();
    let rest = running.data().await.concat();
    assert!(rest.contains("end") && rest.ends_with("[DONE]"), "{rest}");
    assert_eq!((old.asked().len(), old.cut_off()), (1, 0));
    assert_eq!(new.asked().len(), 1);
}

/// Lists the clients with these headers. Returns the status.
async fn listed(gateway: &Gateway, headers: &[(&str, &str)]) -> u16 {
    let request = gateway.request(Method::GET, "/api/mcp/clients");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    Reply::fetch(request).await.status
}

#[tokio::test]
async fn limits_and_the_need_for_a_key_are_in_force_and_what_waits_for_a_restart_is_named() {
    let setup = Setup::new().client(Client::wasm("text", guests::TEXT)).key("ann", ANN, &[]);
    let gateway = setup.set("/server/require_virtual_key", false).serve_connected().await;
    let large = json!({"model": "m", "messages": [], "user": "x".repeat(2_000)});
    assert_ne!(gateway.post("/v1/chat/completions", &large).await.status, 413);
    let page = ("origin", "https://tools.example.com");
    assert_eq!((listed(&gateway, &[]).await, listed(&gateway, &[page]).await), (200, 403));
    edit(&gateway, |config| {
        config["server"]["require_virtual_key"] = json!(true);
        config["server"]["max_body"] = json!("1KiB");
        config["server"]["allowed_origins"] = json!([page.1]);
        config["server"]["listen"] = json!("127.0.0.1:1");
        config["mcp"]["tool_manager_config"]["max_call_depth"] = json!(2);
    });
    let answer = reload(&gateway).await.ok();
    assert_eq!(answer["status"], "success", "{answer:#}");
    let waiting = json!(["mcp.tool_manager_config.max_call_depth", "server.listen"]);
    assert_eq!(answer["restart"], waiting, "{answer:#}");
    let taken = logged(&gateway, "changed settings applied").await;
    let live = "server.allowed_origins, server.max_body, server.require_virtual_key\"";
    assert!(taken.contains(live), "{taken}");
    let shown = gateway.get("/api/config").await.ok();
    assert_eq!(shown["client_config"]["enforce_auth_on_inference"], true, "{shown:#}");
    assert_ne!(shown["mcp"]["tool_manager_config"]["max_call_depth"], 2, "it waits");
    let key = ("x-bf-vk", ANN);
    assert_eq!((listed(&gateway, &[]).await, listed(&gateway, &[key, page]).await), (401, 200));
    let request = gateway.request(Method::POST, "/v1/chat/completions").header(key.0, key.1);
    assert_eq!(Reply::fetch(request.json(&large)).await.status, 413);
    let again = reload(&gateway).await.ok();
    assert_eq!((&again["settings"], &again["restart"]), (&json!([]), &waiting));
    edit(&gateway, |config| config["server"]["require_virtual_key"] = json!(false));
    reloaded(&gateway).await;
    assert_eq!(listed(&gateway, &[]).await, 200);
    logged(&gateway, "requests need no virtual key any more").await;
}

/// Reloads a file that opens the gateway and changes its provider, and that is refused because of a further
/// change. Returns the reason.
async fn refused(gateway: &Gateway, change: impl FnOnce(&mut Value)) -> String {
    edit(gateway, |config| {
        config["server"]["require_virtual_key"] = json!(false);
        config["governance"]["virtual_keys"] = json!([]);
        config["providers"]["fake"]["base_url"] = json!("http://127.0.0.1:9/v1");
        change(config);
    });
    let refused = reload(gateway).await;
    assert_eq!(
        (refused.status, refused.code()),
        (400, "configuration_invalid"),
        "{}",
        refused.body
    );
    let open = gateway.request(Method::GET, "/v1/models");
    assert_eq!(Reply::fetch(open).await.status, 401);
    let chat = gateway.request(Method::POST, "/v1/chat/completions").header("x-bf-vk", ANN);
    let body = json!({"model": "fake/m", "messages": [{"role": "user", "content": "go"}]});
    assert_eq!(content(Reply::fetch(chat.json(&body)).await), "old");
    refused.body["error"]["message"].as_str().expect("a text").to_owned()
}

#[tokio::test]
async fn a_file_that_is_invalid_or_cannot_be_used_changes_nothing_and_the_response_says_why() {
    let model = Service::saying([service::text("old")]).await;
    let setup = Setup::new().openai("fake", model.base_url()).key("ann", ANN, &[]);
    let gateway = setup.set("/server/require_virtual_key", true).serve().await;
    let good = fs::read_to_string(gateway.directory().join("airlock.json")).expect("a file");
    let good: Value = serde_json::from_str(&good).expect("JSON");
    let message = refused(&gateway, |config| {
        config["server"]["lisen"] = json!(true);
        config["server"]["max_body"] = json!("1PiB");
    })
    .await;
    let path = gateway.directory().join("airlock.json");
    let check = Airlock::new().arg("check").arg("--config").arg(&path);
    let said = check.run().await.failed().stderr;
    assert!(said.contains(&message) && message.contains("2 errors"), "{message}\n{said}");
    edit(&gateway, |config| config.clone_from(&good));
    let message = refused(&gateway, |config| {
        config["providers"]["fake"]["ca"] = json!("no-such-file.pem");
    })
    .await;
    assert!(message.contains("airlock.json: providers: "), "{message}");
    edit(&gateway, |config| config.clone_from(&good));
    reloaded(&gateway).await;
}

#[tokio::test]
async fn a_gateway_on_all_addresses_does_not_open_because_a_file_for_the_next_start_would() {
    let setup = Setup::new().key("ann", ANN, &[]).set("/server/listen", "0.0.0.0:0");
    let gateway = setup.set("/server/require_virtual_key", true).serve().await;
    edit(&gateway, |config| {
        config["server"]["listen"] = json!("127.0.0.1:0");
        config["server"]["require_virtual_key"] = json!(false);
    });
    let refused = reload(&gateway).await;
    assert_eq!(
        (refused.status, refused.code()),
        (400, "configuration_invalid"),
        "{}",
        refused.body
    );
    assert_eq!(Reply::fetch(gateway.request(Method::GET, "/v1/models")).await.status, 401);
}

/// Reloads the configuration with the token of an operator. Returns the status.
async fn reload_by(gateway: &Gateway, token: &str) -> u16 {
    let request = gateway.request(Method::POST, "/api/config/reload").bearer_auth(token);
    Reply::fetch(request).await.status
}

#[tokio::test]
async fn an_operator_who_is_removed_from_the_file_is_refused_and_a_lower_role_does_not_reload() {
    let gateway = Setup::new().serve().await;
    let token = "alop_another-operator-of-the-tests";
    edit(&gateway, |config| {
        let operators = config["management"]["operators"].as_array_mut().expect("a list");
        operators.push(json!({"name": "oleg", "role": "operator", "token": token}));
    });
    assert_eq!(reload_by(&gateway, OPERATOR).await, 200);
    assert_eq!(reload_by(&gateway, token).await, 403);
    edit(&gateway, |config| {
        let operators = config["management"]["operators"].as_array_mut().expect("a list");
        operators.remove(1);
    });
    assert_eq!(reload_by(&gateway, OPERATOR).await, 200);
    assert_eq!(reload_by(&gateway, token).await, 401);
}

/// Returns the names of the tools that each of these clients lists.
async fn names(clients: &[McpClient]) -> String {
    join_all(clients.iter().map(McpClient::names)).await.concat().join(" ")
}

#[tokio::test]
async fn lists_of_mcp_clients_and_their_sessions_follow_the_settings() {
    let client = misbehaving("up", []).auto(&["*"]);
    let gateway = Setup::new().client(client).serve_connected().await;
    // A session of the legacy era lasts through all of it.
    let clients = Endpoint::new(&gateway).both().await;
    assert_eq!(names(&clients).await.matches("up-echo").count(), 2);
    edit(&gateway, |config| {
        config["mcp"]["client_configs"][0]["is_code_mode_client"] = json!(true);
        config["mcp"]["tool_manager_config"]["code_mode_search_threshold"] = json!(0);
    });
    reloaded(&gateway).await;
    let listed = names(&clients).await;
    assert_eq!(listed.matches("searchTools").count(), 2, "{listed}");
    assert!(!listed.contains("up-echo"), "{listed}");
    edit(&gateway, |config| {
        config["mcp"]["tool_manager_config"]["code_mode_search_threshold"] = json!(1_000);
    });
    reloaded(&gateway).await;
    let listed = names(&clients).await;
    assert_eq!(listed.matches("executeToolCode").count(), 2, "{listed}");
    assert!(!listed.contains("searchTools"), "{listed}");
    let script = json!({"code": "result = up.pid()"});
    let run = gateway.execute("executeToolCode", &script).await;
    assert_eq!(run.status, 200, "{}", run.body);
}

/// Sends requests one after the other, none of which may be lost.
async fn work(gateway: &Gateway) {
    for _ in 0..REQUESTS {
        assert_eq!(content(gateway.chat("fake/m", "go").await), "done");
    }
}

/// Reloads the configuration several times, each time with another key of the provider and other limits.
async fn change(gateway: &Gateway, times: usize) {
    for number in 0..times {
        edit(gateway, |config| {
            config["providers"]["fake"]["api_key"] = json!(format!("sk-{number}"));
            config["server"]["max_connections"] = json!(1_000 + number);
            let timeout = format!("{}s", 30 + number);
            config["mcp"]["tool_manager_config"]["code_mode_timeout"] = json!(timeout);
        });
        reloaded(gateway).await;
    }
}

#[tokio::test]
async fn reloads_under_load_lose_no_request_and_leave_nothing_behind() {
    let model = Service::saying([service::text("done")]).await;
    let gateway = Setup::new().openai("fake", model.base_url()).serve().await;
    // The first ones open what is kept: connections, threads, the log.
    join(work(&gateway), change(&gateway, 2)).await;
    let files_before = open_files(&gateway);
    let threads_before = threads(&gateway);
    let workers = join_all((0..WORKERS).map(|_| work(&gateway)));
    join(workers, change(&gateway, RELOADS)).await;
    assert_eq!(model.asked().len(), (WORKERS + 1) * REQUESTS);
    // Each worker may have a connection, and the last provider one for each of them. Idle threads of the
    // runtime end after some seconds.
    wait::until("connections and threads of replaced settings to end", async || {
        let has_few_files = open_files(&gateway) <= files_before + 2 * WORKERS;
        (has_few_files && threads(&gateway) <= threads_before + WORKERS).then_some(())
    })
    .await;
}

fn open_files(gateway: &Gateway) -> usize {
    let path = format!("/proc/{}/fd", gateway.pid().as_raw_nonzero());
    fs::read_dir(path).expect("it runs").count()
}

fn threads(gateway: &Gateway) -> usize {
    let path = format!("/proc/{}/task", gateway.pid().as_raw_nonzero());
    fs::read_dir(path).expect("it runs").count()
}
