//! Limits of requests, calls and money: refusals on every face, gateways that share a store, and what operators
//! change while gateways run.

use airlock::{RequestError, tool::HostCode};
use airlock_test_postgres::TestServer;
use airlock_tests::{
    Client, Embedded, Gateway, Reply, Service, Setup, guests, mcp::Endpoint, misbehaving, service,
    wait,
};
use futures_util::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{KEYS, SharedStore, setup, texts, until_status};

const BUDGETS: &str = "/api/governance/budgets";
pub(super) const RATES: &str = "/api/governance/rate-limits";
const QUOTA: &str = "/api/governance/virtual-keys/quota";
const MODELS: &str = "/api/governance/model-configs";
const PRICES: &str = "/api/governance/pricing-overrides";

/// A response that is refused, with its time to wait in seconds.
pub(super) struct Refused {
    pub(super) status: u16,
    pub(super) retry_after: Option<u64>,
    pub(super) body: Value,
}

pub(super) async fn refused(request: RequestBuilder) -> Refused {
    let response = request.send().await.expect("a response");
    let status = response.status().as_u16();
    let wait = response.headers().get("retry-after").and_then(|wait| wait.to_str().ok());
    let retry_after = wait.and_then(|wait| wait.parse().ok());
    let body = response.json().await.expect("JSON");
    Refused { status, retry_after, body }
}

/// Returns limits of so many calls of tools a minute.
fn calls(most: u64) -> Value {
    json!({"tool_call_max_limit": most, "tool_call_reset_duration": "1m"})
}

/// Returns limits of so many requests to models a minute.
fn requests(most: u64) -> Value {
    json!({"request_max_limit": most, "request_reset_duration": "1m"})
}

/// Makes a key for all tools of a client, with these members beside its name. Returns its value.
pub(super) async fn key(gateway: &Gateway, name: &str, client: &str, mut members: Value) -> String {
    members["name"] = name.into();
    members["mcp_configs"] = json!([{"mcp_client_name": client, "tools_to_execute": ["*"]}]);
    let made = gateway.post(KEYS, &members).await.ok();
    made["virtual_key"]["value"].as_str().expect("the value is shown once").to_owned()
}

/// Returns whether a time to wait is that of a window of a minute: an amount counts for up to a 64th of it
/// longer.
fn is_within_a_minute(seconds: u64) -> bool {
    (1..=61).contains(&seconds)
}

/// Calls the tool of the plugin.
pub(super) async fn call(gateway: &Gateway, key: &str) -> Reply {
    let arguments = json!({"text": "one two"});
    gateway.execute_with(&[("x-bf-vk", key)], "text-word_count", &arguments).await
}

/// Builds a request of one of the model APIs.
fn ask(gateway: &Gateway, key: &str, path: &str) -> RequestBuilder {
    let body = match path {
        "/v1/responses" => json!({"model": "fake/model", "input": "hi", "store": false}),
        _ => json!({
            "model": "fake/model", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}],
        }),
    };
    gateway.request(Method::POST, path).header("x-bf-vk", key).json(&body)
}

#[tokio::test]
async fn a_call_beyond_the_limit_of_a_key_is_429_with_the_time_to_wait_and_data_for_mcp_clients() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let ann = key(&gateway, "ann", "text", json!({"rate_limit": calls(3)})).await;
    let bob = key(&gateway, "bob", "text", json!({})).await;
    for _ in 0..3 {
        assert_eq!(call(&gateway, &ann).await.status, 200);
    }
    let request = gateway.request(Method::POST, "/v1/mcp/tool/execute").header("x-bf-vk", &ann);
    let function = json!({"name": "text-word_count", "arguments": "{\"text\": \"x\"}"});
    let fourth = refused(request.json(&json!({"type": "function", "function": function}))).await;
    assert_eq!(fourth.status, 429, "{}", fourth.body);
    assert!(fourth.retry_after.is_some_and(is_within_a_minute));
    let error = &fourth.body["error"];
    assert_eq!(
        (&error["type"], &error["code"]),
        (&json!("rate_limit_error"), &json!("limit_reached"))
    );
    assert_eq!(call(&gateway, &bob).await.status, 200, "another key has another limit");
    for client in Endpoint::new(&gateway).key(&ann).both().await {
        let result = client.call("text-word_count", &json!({"text": "x"})).result().await;
        assert_eq!(result["isError"], true, "{client:?}");
        let failure = &result["_meta"]["airlock/error"];
        assert_eq!(failure["code"], "airlock.limit_reached", "{client:?}: {failure}");
        assert!(failure["retry_after_ms"].as_u64().is_some_and(|wait| wait > 0), "{failure}");
    }
}

#[tokio::test]
async fn a_script_gets_the_refusal_of_a_call_as_data() {
    let server = misbehaving("server", []).code_mode().auto(&["*"]);
    let gateway = Setup::new().client(server).serve_connected().await;
    let ann = key(&gateway, "ann", "server", json!({"rate_limit": calls(3)})).await;
    let code = "tried = [attempt(server.echo, {\"text\": \"a\"}) for _ in range(4)]\n\
                last = tried[3].error\n\
                oks = str([t.ok for t in tried])\n\
                result = \" \".join([oks, last.code, str(last.retry_after_ms > 0)])";
    let headers = [("x-bf-vk", ann.as_str())];
    let ran = gateway.execute_with(&headers, "executeToolCode", &json!({"code": code})).await;
    let ran = ran.content();
    let expected = "[True, True, True, False] airlock.limit_reached True";
    assert!(ran.contains(expected), "{ran}");
}

#[tokio::test]
async fn a_request_beyond_the_limit_of_a_key_is_429_in_the_form_of_each_model_api() {
    let model = Service::saying([service::text("hello")]).await;
    let gateway = setup(&SharedStore::all()[0]).openai("fake", model.base_url());
    let gateway = gateway.serve_connected().await;
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        let name = path.replace('/', "-");
        let ann = key(&gateway, &name, "text", json!({"rate_limit": requests(1)})).await;
        let _ = Reply::fetch(ask(&gateway, &ann, path)).await.ok();
        let asked = model.asked().len();
        let second = refused(ask(&gateway, &ann, path)).await;
        assert_eq!(second.status, 429, "{path}: {}", second.body);
        assert!(second.retry_after.is_some_and(is_within_a_minute), "{path}");
        let error = &second.body["error"];
        assert_eq!(error["type"], "rate_limit_error", "{path}: {error}");
        assert!(error.to_string().contains("limit_reached"), "{path}: {error}");
        assert_eq!(model.asked().len(), asked, "{path}: no model was asked");
    }
}

#[tokio::test]
async fn gateways_on_one_store_share_the_limits_of_keys_teams_clients_and_models() {
    for store in SharedStore::all() {
        let first = setup(&store).serve_connected().await;
        let second = setup(&store).serve_connected().await;
        let team = json!({"name": "desk", "rate_limit": calls(5)});
        let _ = first.post("/api/governance/teams", &team).await.ok();
        let limited = json!({"rate_limit": calls(4), "team_id": "desk"});
        let ann = key(&first, "ann", "text", limited).await;
        let bob = key(&first, "bob", "text", json!({"team_id": "desk"})).await;
        until_status(&second, &bob, 200).await;
        for gateway in [&first, &second, &first, &second] {
            assert_eq!(call(gateway, &ann).await.status, 200);
        }
        for gateway in [&first, &second] {
            assert_eq!(call(gateway, &ann).await.code(), "limit_reached", "of the key");
        }
        assert_eq!(call(&second, &bob).await.status, 200, "the fifth of the team");
        assert_eq!(call(&first, &bob).await.code(), "limit_reached", "of the team");

        let rates = second.get(RATES).await.ok();
        let rates = rates["rate_limits"].as_array().expect("a list");
        let of_team = rates.iter().find(|rate| rate["owner_name"] == "desk").expect("it");
        assert_eq!(of_team["tool_call_current_usage"], 5, "{of_team}");
        assert_eq!(of_team["tool_call_reset_duration"], "1m");

        // More is permitted at once where it is changed, and within a second elsewhere.
        let path = format!("{KEYS}/ann");
        let _ = second.put(&path, &json!({"rate_limit": {}, "team_id": null})).await.ok();
        assert_eq!(call(&second, &ann).await.status, 200);
        let is_permitted = async || (call(&first, &ann).await.status == 200).then_some(());
        wait::until("the first gateway to permit it", is_permitted).await;
    }
}

/// Starts a gateway in this process, with a key that may make a hundred calls a minute.
async fn limited_to_a_hundred(store: &SharedStore, key: &str) -> Embedded {
    let rows = json!([{"mcp_client_name": "noop", "tools_to_execute": ["*"]}]);
    let key = json!({"name": "ann", "value": key, "mcp_configs": rows, "rate_limit": calls(100)});
    let setup = Setup::new()
        .set("/store", store.location())
        .set("/governance/virtual_keys", json!([key]))
        .client(Client::wasm("noop", guests::NOOP).auto(&["*"]));
    Embedded::start(setup).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_the_calls_of_one_key_on_ten_gateways_at_once_exactly_its_limit_is_made() {
    const ANN: &str = "sk-bf-ann-0123456789abcdef";
    for store in SharedStore::all() {
        let gateways = join_all((0..10).map(|_| limited_to_a_hundred(&store, ANN))).await;
        let requests = gateways
            .iter()
            .map(|gateway| gateway.gateway().request().key(ANN).open().expect("the key is known"));
        let requests: Vec<_> = requests.collect();
        let arguments = json!({});
        let made = requests.iter().flat_map(|request| {
            (0..20).map(|_| request.call("noop-ok", &arguments)).collect::<Vec<_>>()
        });
        let mut done = 0;
        for reply in join_all(made).await {
            match reply {
                Ok(_) => done += 1,
                Err(RequestError::Call(error)) if error.code() == HostCode::LimitReached => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(done, 100);
        drop(requests);
        for gateway in gateways {
            gateway.stop().await;
        }
    }
}

#[tokio::test]
async fn a_client_and_a_tool_are_limited_for_all_callers_together() {
    let store = &SharedStore::all()[0];
    let gateway = setup(store).serve_connected().await;
    let limits = json!({"tool_limits": {"word_count": calls(1)}});
    let _ = gateway.put("/api/mcp/client/text", &limits).await.ok();
    let ann = key(&gateway, "ann", "text", json!({})).await;
    let bob = key(&gateway, "bob", "text", json!({})).await;
    assert_eq!(call(&gateway, &ann).await.status, 200);
    assert_eq!(call(&gateway, &bob).await.code(), "limit_reached");
    let limits = json!({"tool_limits": null, "rate_limit": calls(1)});
    let _ = gateway.put("/api/mcp/client/text", &limits).await.ok();
    assert_eq!(call(&gateway, &bob).await.status, 200);
    assert_eq!(call(&gateway, &ann).await.code(), "limit_reached");
    let rates = gateway.get(RATES).await.ok();
    assert_eq!(rates["rate_limits"][0]["mcp_client_name"], "text", "{rates}");
}

/// Returns the budget of a key.
async fn budget(gateway: &Gateway) -> Value {
    gateway.get(BUDGETS).await.ok()["budgets"][0].clone()
}

/// Waits until so much of the budget is used, in dollars, and nothing is reserved.
async fn until_used(gateway: &Gateway, used: f64) {
    let is_used = async || {
        let budget = budget(gateway).await;
        (budget["current_usage"] == json!(used) && budget["reserved"] == json!(0.0)).then_some(())
    };
    wait::until(&format!("{used} dollars to be used"), is_used).await;
}

#[tokio::test]
async fn a_budget_that_is_spent_is_402_until_it_is_raised_or_reset() {
    // 5 tokens of the response cost half a dollar.
    let model = Service::saying([service::text("hello")]).await;
    let gateway = setup(&SharedStore::all()[0]).openai("fake", model.base_url());
    let gateway = gateway.serve_connected().await;
    let prices = json!({"input_cost_per_token": 0, "output_cost_per_token": 0.1});
    let price = json!({"id": "p-1", "pattern": "model", "patch": prices});
    let made = gateway.post(PRICES, &price).await.ok();
    assert_eq!(made["pricing_override"]["id"], "p-1", "{made}");
    let listed = gateway.get(PRICES).await.ok();
    assert_eq!(
        (&listed["count"], &listed["pricing_overrides"][0]["id"]),
        (&json!(1), &json!("p-1"))
    );
    let version = listed["built_in_version"].as_str().and_then(|month| month.split_once('-'));
    assert!(version.is_some_and(|(year, _)| year.parse::<u16>().is_ok()), "{listed}");
    let limit = json!({"budget": {"max_limit": 0.5, "reset_duration": "1d"}});
    let ann = key(&gateway, "ann", "text", limit).await;
    let chat = "/v1/chat/completions";
    let _ = Reply::fetch(ask(&gateway, &ann, chat)).await.ok();
    until_used(&gateway, 0.5).await;
    let second = refused(ask(&gateway, &ann, chat)).await;
    let error = &second.body["error"];
    assert_eq!((second.status, &error["type"]), (402, &json!("budget_exceeded")), "{error}");
    assert!(second.retry_after.is_some_and(|wait| wait > 0), "the budget has an end");

    let id = budget(&gateway).await["id"].as_str().expect("an identifier").to_owned();
    let path = format!("{KEYS}/ann/budgets/{id}/override");
    for body in [
        json!({"amount": 0, "mode": "forever"}),
        json!({"amount": 1, "mode": "cycles"}),
        json!({"amount": 1, "mode": "cycles", "cycles": 0}),
        json!({"amount": 1, "mode": "forever", "cycles": 1}),
        json!({"amount": 1, "mode": "forever", "more": 1}),
    ] {
        assert_eq!(gateway.put(&path, &body).await.status, 400, "{body}");
    }
    let raise = json!({"amount": 0.5, "mode": "cycles", "cycles": 1});
    let raised = gateway.put(&path, &raise).await.ok();
    assert_eq!(raised["effective_max_limit"], 1.0, "{raised}");
    assert_eq!(raised["budget"]["override_mode"], "cycles");
    let _ = Reply::fetch(ask(&gateway, &ann, chat)).await.ok();
    until_used(&gateway, 1.0).await;
    assert_eq!(refused(ask(&gateway, &ann, chat)).await.status, 402);
    let cleared = gateway.delete(&path).await.ok();
    assert_eq!(cleared["effective_max_limit"], 0.5, "{cleared}");

    let _ = gateway.put(&format!("{KEYS}/ann"), &json!({"reset_budget_usage": true})).await.ok();
    until_used(&gateway, 0.0).await;
    let _ = Reply::fetch(ask(&gateway, &ann, chat)).await.ok();
    let other = gateway.put(&format!("{KEYS}/ann/budgets/nix/override"), &raise).await;
    assert_eq!(other.status, 404, "{}", other.text);
    let changes = gateway.get("/api/changes").await.ok();
    let acts = texts(&changes, "changes", "action");
    let expected = ["limit.reset", "limit.override_removed", "limit.override", "key.create"];
    assert_eq!(acts[..4], expected, "{acts:?}");
    let reset = &changes["changes"][0];
    assert_eq!((&reset["kind"], &reset["name"]), (&json!("limit"), &json!(id)), "{reset}");
    let revert = format!("/api/changes/{}/revert", reset["id"]);
    assert_eq!(gateway.post(&revert, &json!({})).await.status, 409);
}

#[tokio::test]
async fn a_key_sees_its_own_limits_and_no_others() {
    let gateway = setup(&SharedStore::all()[0]).serve_connected().await;
    let budgets = json!([{"max_limit": 2, "reset_duration": "1M"}]);
    let ann = json!({"budgets": budgets, "rate_limit": calls(3), "calendar_aligned": true});
    let ann = key(&gateway, "ann", "text", ann).await;
    let bob = key(&gateway, "bob", "text", json!({"rate_limit": calls(7)})).await;
    let model = json!({
        "model_name": "*", "scope": "virtual_key", "scope_id": "ann", "rate_limit": requests(9),
    });
    let made = gateway.post(MODELS, &model).await.ok();
    let id = made["model_config"]["id"].as_str().expect("an identifier").to_owned();
    let _ = call(&gateway, &ann).await.ok();
    let quota = async |key: &str| {
        Reply::fetch(gateway.request(Method::GET, QUOTA).header("x-bf-vk", key)).await
    };
    let shown = quota(&ann).await.ok();
    assert_eq!(shown["virtual_key_name"], "ann");
    let budget = &shown["budgets"][0];
    assert_eq!((&budget["max_limit"], &budget["calendar_aligned"]), (&json!(2.0), &json!(true)));
    assert!(budget["next_reset"].as_str().is_some_and(|end| end.ends_with("-01T00:00:00Z")));
    let text = shown["rate_limits"].to_string();
    assert!(text.contains("\"tool_call_current_usage\":1"), "{text}");
    assert!(text.contains("\"request_max_limit\":9") && !text.contains(":7"), "{text}");
    let shown = quota(&bob).await.ok();
    assert_eq!(
        (&shown["budgets"], shown["rate_limits"].as_array().map(Vec::len)),
        (&json!([]), Some(1))
    );
    assert_eq!(quota("sk-bf-0123456789abcdef01").await.status, 401);
    assert_eq!(gateway.get(QUOTA).await.status, 401, "an operator has no limits");

    // What a limit counts is never changed, and a key is removed whatever limits it has.
    let path = format!("{MODELS}/{id}");
    assert_eq!(gateway.put(&path, &json!({"model_name": "other"})).await.status, 400);
    let _ = gateway.put(&path, &json!({"rate_limit": requests(8)})).await.ok();
    assert_eq!(gateway.delete(&format!("{KEYS}/ann")).await.status, 200);
    assert_eq!(gateway.delete(&path).await.status, 200);
}

#[tokio::test]
async fn limits_in_the_file_are_taken_while_the_gateway_runs() {
    const ANN: &str = "sk-bf-ann-0123456789abcdef";
    let rows = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
    let ann = json!({"name": "ann", "value": ANN, "mcp_configs": rows, "rate_limit": calls(1)});
    let gateway = setup(&SharedStore::all()[0]).set("/governance/virtual_keys", json!([ann]));
    let gateway = gateway.serve_connected().await;
    assert_eq!(call(&gateway, ANN).await.status, 200);
    assert_eq!(call(&gateway, ANN).await.code(), "limit_reached");
    crate::live_settings::edit(&gateway, |config| {
        config["governance"]["virtual_keys"][0]["rate_limit"] = calls(2);
    });
    let reloaded = gateway.post("/api/config/reload", &json!({})).await;
    assert_eq!(reloaded.status, 200, "{}", reloaded.text);
    assert_eq!(call(&gateway, ANN).await.status, 200, "one is counted already");
    assert_eq!(call(&gateway, ANN).await.code(), "limit_reached");
}

#[tokio::test]
async fn a_limit_that_is_removed_from_the_file_begins_anew_when_it_is_added_again() {
    const ANN: &str = "sk-bf-ann-0123456789abcdef";
    for store in SharedStore::all() {
        let rows = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
        let ann = json!({"name": "ann", "value": ANN, "mcp_configs": rows, "rate_limit": calls(1)});
        let gateway = setup(&store).set("/governance/virtual_keys", json!([ann]));
        let gateway = gateway.serve_connected().await;
        assert_eq!(call(&gateway, ANN).await.status, 200);
        assert_eq!(call(&gateway, ANN).await.code(), "limit_reached");
        for limits in [json!({}), calls(1)] {
            crate::live_settings::edit(&gateway, |config| {
                config["governance"]["virtual_keys"][0]["rate_limit"] = limits.clone();
            });
            let reloaded = gateway.post("/api/config/reload", &json!({})).await;
            assert_eq!(reloaded.status, 200, "{}", reloaded.text);
        }
        assert_eq!(call(&gateway, ANN).await.status, 200, "what was counted is forgotten");
        assert_eq!(call(&gateway, ANN).await.code(), "limit_reached");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_that_cannot_be_checked_are_503_on_every_face() {
    const ANN: &str = "sk-bf-ann-0123456789abcdef";
    let Some(mut server) = TestServer::start() else { return };
    let model = Service::saying([service::text("hello")]).await;
    let rows = json!([{"mcp_client_name": "text", "tools_to_execute": ["*"]}]);
    let mut limits = calls(9);
    limits["request_max_limit"] = 9.into();
    limits["request_reset_duration"] = "1m".into();
    let ann = json!({"name": "ann", "value": ANN, "mcp_configs": rows, "rate_limit": limits});
    let setup = Setup::new()
        .set("/store", server.url())
        .client(Client::wasm("text", guests::TEXT).auto(&["*"]))
        .set("/governance/virtual_keys", json!([ann]))
        .openai("fake", model.base_url());
    let gateway = setup.serve_connected().await;
    let clients = Endpoint::new(&gateway).key(ANN).both().await;
    assert_eq!(call(&gateway, ANN).await.status, 200);
    let asked_before = model.asked().len();
    server.crash();
    let request = gateway.request(Method::POST, "/v1/mcp/tool/execute").header("x-bf-vk", ANN);
    let function = json!({"name": "text-word_count", "arguments": "{\"text\": \"x\"}"});
    let called = refused(request.json(&json!({"type": "function", "function": function}))).await;
    assert_eq!((called.status, called.retry_after), (503, Some(1)), "{}", called.body);
    assert_eq!(called.body["error"]["code"], "unavailable");
    for path in ["/v1/chat/completions", "/v1/responses", "/v1/messages"] {
        let asked = refused(ask(&gateway, ANN, path)).await;
        assert_eq!((asked.status, asked.retry_after), (503, Some(1)), "{path}: {}", asked.body);
    }
    for client in clients {
        let result = client.call("text-word_count", &json!({"text": "x"})).result().await;
        assert_eq!(result["_meta"]["airlock/error"]["code"], "airlock.unavailable", "{result}");
    }
    assert_eq!(model.asked().len(), asked_before, "no model was asked");
}
