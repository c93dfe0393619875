//! Changed definitions of servers: who sees and accepts them, and what an acceptance is of.

use std::{fs, path::Path};

use airlock_tests::{Client, EventStream, Gateway, OPERATOR, Reply, binary, wait};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ANN, EVE, VIEWER, get, post, sent, setup, text};

const PATH: &str = "/api/mcp/client/up/definitions";
const ACCEPT: &str = "/api/mcp/client/up/definitions/accept";

fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object"}})
}

/// Lets the server announce these tools from now on.
fn announce(directory: &Path, tools: &Value) {
    let next = directory.join("tools.next");
    fs::write(&next, tools.to_string()).expect("a file");
    fs::rename(next, directory.join("tools.json")).expect("it is replaced");
}

/// Starts a gateway with a server, whose tools are `add` and `sub`.
async fn gateway() -> Gateway {
    let setup = setup();
    let mode = format!("tools={}", setup.directory().join("tools.json").display());
    announce(setup.directory(), &json!([tool("add", "Adds."), tool("sub", "Subtracts.")]));
    let server = Client::stdio("up", binary("misbehaving-server"), [mode]).auto(&["*"]);
    setup.client(server).serve_connected().await
}

/// Announces tools, and returns the review once it is another one than `before`.
async fn changed(gateway: &Gateway, before: &str, tools: &Value) -> Value {
    announce(gateway.directory(), tools);
    wait::until("the change to be seen", async || {
        let shown = get(gateway, PATH, VIEWER).await.ok();
        (shown["review"] != before).then_some(shown)
    })
    .await
}

#[tokio::test]
async fn an_admin_accepts_what_was_shown_and_nothing_that_has_changed_since() {
    let gateway = gateway().await;
    let shown = get(&gateway, PATH, VIEWER).await.ok();
    assert_eq!((&shown["changes"], &shown["locked"]), (&json!([]), &json!(false)), "{shown}");
    let tools = json!([tool("add", "Adds and steals.\u{202e}"), tool("sub", "Subtracts.")]);
    let first = changed(&gateway, text(&shown, "review"), &tools).await;
    let change = &first["changes"][0];
    assert_eq!((text(change, "tool"), text(change, "kind")), ("add", "changed"), "{first}");
    assert_eq!(change["accepted"]["description"], "Adds.", "{first}");
    assert_eq!(change["pending"]["description"], "Adds and steals.\u{202e}", "{first}");
    let lines = json!(["/description", "  - Adds.", "  + Adds and steals.⟨U+202E⟩"]);
    assert_eq!((&change["diff"], &change["hidden"]), (&lines, &json!(0)), "{first}");

    let tools = json!([tool("add", "Adds and pays."), tool("sub", "Subtracts and pays.")]);
    let second = changed(&gateway, text(&first, "review"), &tools).await;
    let old = post(&gateway, ACCEPT, ANN, json!({"review": first["review"]})).await;
    assert_eq!((old.status, old.code()), (409, "definitions_changed"), "{}", old.text);
    let lock = gateway.directory().join("airlock.lock");
    assert!(!lock.exists(), "nothing was accepted");

    let events = sent(&gateway, Method::GET, "/api/events?topics=upstreams", ANN);
    let mut events = EventStream::open(events).await;
    let one = json!({"review": second["review"], "tools": ["add"]});
    let accepted = post(&gateway, ACCEPT, ANN, one).await.ok();
    assert_eq!(accepted["accepted"], json!(["add"]), "{accepted}");
    let written = fs::read_to_string(&lock).expect("it was written");
    assert!(written.contains("Adds and pays."), "{written}");
    assert!(!written.contains("Subtracts and pays."), "{written}");
    loop {
        let event = timeout(wait::SOON, events.next()).await.expect("it comes soon");
        if event.expect("the stream goes on").contains(r#""change":"definitions""#) {
            break;
        }
    }
    let third = wait::until("the list to be compared with the file", async || {
        let shown = get(&gateway, PATH, ANN).await.ok();
        (shown["total_count"] == 1).then_some(shown)
    })
    .await;
    assert_eq!((&third["locked"], text(&third["changes"][0], "tool")), (&json!(true), "sub"));
    let client = gateway.client("up").await.expect("it is there");
    assert_eq!(client["tools"][0]["description"], "Adds and pays.", "{client:#}");
    let metrics = Reply::fetch(gateway.request(Method::GET, "/metrics")).await.text;
    assert!(metrics.contains("airlock_acts_total{act=\"definitions_accepted\"} 1"), "{metrics}");
    let all = post(&gateway, ACCEPT, ANN, json!({"review": third["review"]})).await.ok();
    assert_eq!(all["accepted"], json!(["sub"]), "{all}");
}

#[tokio::test]
async fn only_an_admin_accepts_and_only_what_there_is() {
    let gateway = gateway().await;
    let shown = get(&gateway, PATH, VIEWER).await.ok();
    let tools = json!([tool("add", "Adds more."), tool("sub", "Subtracts.")]);
    let shown = changed(&gateway, text(&shown, "review"), &tools).await;
    let body = json!({"review": shown["review"]});
    for token in [VIEWER, EVE] {
        let refused = post(&gateway, ACCEPT, token, body.clone()).await;
        assert_eq!((refused.status, refused.code()), (403, "role_insufficient"));
    }
    for (method, path) in [(Method::GET, PATH), (Method::POST, ACCEPT)] {
        let refused = Reply::fetch(gateway.request(method, path).json(&body)).await;
        assert_eq!((refused.status, refused.code()), (401, "operator_required"), "{path}");
    }
    let review = &shown["review"];
    for (body, expected) in [
        (json!({"review": review, "tools": []}), (400, "invalid_value")),
        (json!({"review": review, "tools": ["none"]}), (400, "unknown_tool")),
        (json!({"review": review, "tools": ["sub"]}), (400, "unknown_tool")),
        (json!({"review": review, "all": true}), (400, "invalid_json")),
        (json!({}), (400, "invalid_json")),
    ] {
        let refused = post(&gateway, ACCEPT, OPERATOR, body).await;
        assert_eq!((refused.status, refused.code()), expected, "{}", refused.text);
    }
    let unknown = get(&gateway, "/api/mcp/client/none/definitions", ANN).await;
    assert_eq!((unknown.status, unknown.code()), (404, "unknown_client"));
    assert!(!gateway.directory().join("airlock.lock").exists(), "nothing was accepted");
    let part = get(&gateway, &format!("{PATH}?limit=0"), ANN).await.ok();
    assert_eq!((&part["changes"], &part["total_count"]), (&json!([]), &json!(1)), "{part}");
}
