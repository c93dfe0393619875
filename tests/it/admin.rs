//! The page for operators, and what it needs from a gateway.

mod approvals;
mod definitions;
mod events;
mod page;
mod replays;

use std::os::unix::fs::symlink;

use airlock_tests::{Client, Gateway, OPERATOR, Reply, Setup, guests};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

/// Tokens of two operators who decide about calls and see arguments.
const ANN: &str = "alop_ann-who-approves-in-the-tests-0123456789";
const BOB: &str = "alop_bob-who-approves-in-the-tests-0123456789";
/// Token of an operator who changes settings and sees results, and is no admin.
const EVE: &str = "alop_eve-who-operates-in-the-tests-0123456789";
/// Token of an operator who decides about calls and does not see arguments.
const DAN: &str = "alop_dan-who-approves-in-the-tests-0123456789";
/// Token of an operator who only reads.
const VIEWER: &str = "alop_viewer-who-reads-in-the-tests-0123456789";

/// Returns the configuration of a gateway with these operators, and with one plugin whose tools need an approval.
fn setup() -> Setup {
    setup_with(plugin())
}

/// Returns a plugin, each of whose calls needs an approval.
fn plugin() -> Client {
    Client::wasm("text", guests::TEXT)
}

/// Returns the same configuration with this client alone.
fn setup_with(client: Client) -> Setup {
    let operators = json!([
        {"name": "tests", "role": "admin", "token": OPERATOR},
        {"name": "ann", "role": "admin", "token": ANN, "sees_payloads": true},
        {"name": "bob", "role": "approver", "token": BOB, "sees_payloads": true},
        {"name": "eve", "role": "operator", "token": EVE, "sees_payloads": true},
        {"name": "dan", "role": "approver", "token": DAN},
        {"name": "viewer", "role": "viewer", "token": VIEWER},
    ]);
    Setup::new()
        .set("/server/require_virtual_key", false)
        .set("/management/operators", operators)
        .client(client)
}

fn sent(gateway: &Gateway, method: Method, path: &str, token: &str) -> RequestBuilder {
    gateway.request(method, path).bearer_auth(token)
}

async fn get(gateway: &Gateway, path: &str, token: &str) -> Reply {
    Reply::fetch(sent(gateway, Method::GET, path, token)).await
}

async fn post(gateway: &Gateway, path: &str, token: &str, body: impl Into<Value>) -> Reply {
    Reply::fetch(sent(gateway, Method::POST, path, token).json(&body.into())).await
}

/// Tries a call of a tool as ann. Returns the response.
async fn tried(gateway: &Gateway, text: &str) -> Value {
    let call = json!({"tool": "text-word_count", "arguments": {"text": text}});
    post(gateway, "/api/mcp/try", ANN, call).await.ok()
}

/// Tries a call, which waits for an approval. Returns the call that waits, as ann sees it.
async fn waiting(gateway: &Gateway, text: &str) -> Value {
    let reply = tried(gateway, text).await;
    assert_eq!(reply["state"], "waiting", "{reply}");
    let id = reply["approval"].as_str().expect("an identifier");
    get(gateway, &format!("/v1/approvals/{id}"), ANN).await.ok()
}

fn text<'v>(value: &'v Value, member: &str) -> &'v str {
    value[member].as_str().expect("a text")
}

#[tokio::test]
async fn an_operator_calls_a_tool_with_the_tools_of_a_key_and_the_same_approvals() {
    let none: [(&str, &[&str]); 1] = [("text", &[])];
    let setup = setup().key("holder", "sk-bf-holder0123456789abcdef", &none);
    let gateway = setup.serve_connected().await;
    let call = waiting(&gateway, "a b").await;
    assert_eq!((text(&call, "origin"), text(&call, "decided_by")), ("operator", "operators"));
    let path = format!("/v1/approvals/{}/approve", text(&call, "id"));
    let of_caller = Reply::fetch(gateway.request(Method::POST, &path)).await;
    assert_eq!((of_caller.status, of_caller.code()), (403, "operator_required"));
    let _ = post(&gateway, &path, BOB, json!({"shown": call["shown"]})).await.ok();
    let other = json!({"tool": "text-word_count", "arguments": {"text": "a b"}});
    let other = post(&gateway, "/api/mcp/try", EVE, other).await.ok();
    assert_eq!(other["state"], "waiting", "the approval is that of ann's call");
    let completed = tried(&gateway, "a b").await;
    assert_eq!(completed["state"], "completed", "{completed}");
    assert!(completed["result"]["content"].is_array() && completed["duration_ms"].is_number());
    assert_eq!(tried(&gateway, "a b").await["state"], "waiting", "the approval counts once");

    let hidden = json!({"key": "holder", "tool": "text-word_count", "arguments": {"text": "a"}});
    let failed = post(&gateway, "/api/mcp/try", ANN, hidden).await.ok();
    assert_eq!(failed["error"]["code"], "airlock.not_found", "{failed}");
    let wrong = json!({"tool": "text-word_count", "arguments": "[1]"});
    let failed = post(&gateway, "/api/mcp/try", ANN, wrong).await.ok();
    assert_eq!(failed["error"]["code"], "airlock.bad_arguments", "{failed}");
    let unknown = json!({"key": "nobody", "tool": "text-word_count"});
    let unknown = post(&gateway, "/api/mcp/try", ANN, unknown).await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_key"));
    for token in [VIEWER, BOB] {
        let refused =
            post(&gateway, "/api/mcp/try", token, json!({"tool": "text-word_count"})).await;
        assert_eq!((refused.status, refused.code()), (403, "role_insufficient"));
    }
    let as_holder = json!({"key": "holder", "tool": "text-word_count"});
    let refused = post(&gateway, "/api/mcp/try", EVE, as_holder).await;
    assert_eq!((refused.status, refused.code()), (403, "role_insufficient"));
    let calls = get(&gateway, "/api/calls", VIEWER).await.ok();
    assert_eq!((&calls["data"], &calls["total_count"]), (&json!([]), &json!(0)));
}

#[tokio::test]
async fn a_dry_connection_shows_the_problem_and_keeps_nothing() {
    let gateway = setup().serve_connected().await;
    let path = "/api/mcp/clients/dry-run";
    let missing = json!({
        "name": "absent", "connection_type": "stdio",
        "stdio_config": {"command": "/no/such/program", "args": []},
    });
    let failed = post(&gateway, path, ANN, missing).await.ok();
    assert_eq!(failed["state"], "failed", "{failed}");
    assert!(failed["reason"].is_string(), "{failed}");
    for element in [
        json!({"name": "p", "connection_type": "wasm"}),
        json!({"name": "x", "connection_type": "stdio", "colour": "red"}),
    ] {
        let refused = post(&gateway, path, ANN, element).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_request"), "{}", refused.text);
    }
    let refused = post(&gateway, path, BOB, json!({"name": "x"})).await;
    assert_eq!((refused.status, refused.code()), (403, "role_insufficient"));
    assert!(gateway.client("absent").await.is_none());
    let settings = get(&gateway, "/api/changes", ANN).await.ok();
    assert_eq!(settings["changes"].as_array().map(Vec::len), Some(0), "{settings}");
}

#[tokio::test]
async fn reports_are_the_documents_of_a_directory() {
    let setup = setup();
    let directory = setup.directory().join("reports");
    std::fs::create_dir(&directory).expect("it is made");
    let report = json!({"heading": "chaos", "tables": [], "checks": [], "good": true});
    std::fs::write(directory.join("chaos.json"), report.to_string()).expect("written");
    std::fs::write(directory.join("hostile.json"), "no JSON").expect("written");
    symlink(directory.join("chaos.json"), directory.join("linked.json")).expect("it is made");
    std::fs::write(directory.join("other.json"), r#"{"token": "hunter2"}"#).expect("written");
    let gateway = setup.set("/management/reports", "reports").serve_connected().await;
    let reports = get(&gateway, "/api/reports", ANN).await.ok();
    let [chaos, hostile, linked, other] = reports["data"].as_array().expect("a list").as_slice()
    else {
        panic!("{reports}")
    };
    assert!(linked["problem"].is_string() && linked["document"].is_null(), "{linked}");
    assert_eq!((text(chaos, "name"), &chaos["document"]), ("chaos.json", &report));
    assert!(text(other, "problem").contains("not the report of a test suite"), "{other}");
    assert!(!reports.to_string().contains("hunter2"), "{reports}");
    assert!(hostile["problem"].is_string() && hostile["document"].is_null(), "{hostile}");
    let hidden = get(&gateway, "/api/reports", VIEWER).await.ok();
    assert_eq!(text(&hidden["data"][0], "name"), "chaos.json");
    assert!(text(&hidden["data"][0], "problem").contains("sees_payloads"), "{hidden}");
    assert_eq!(hidden["data"][0]["document"], Value::Null);
    let refused = gateway.request(Method::GET, "/api/reports");
    assert_eq!(Reply::fetch(refused).await.code(), "operator_required");
}
