//! A guard that was built for version 0.1.0 of `airlock:guard`. It loads for as long as there is an
//! Airlock, and decides as it did when the version was released.
//!
//! `tests/golden/guard-0.1.0` never changes. `guard.wasm` is the component as its author shipped
//! it, built once from the source beside it, because a component is never built again. It has every
//! hook and makes every verdict. The cases in `expected` have what a caller gets, and the fields
//! that the guard got: in the reasons of its denials.

use std::{fs, path::PathBuf};

use airlock_tests::{Gateway, Reply, Setup, mcp::Endpoint, misbehaving, root};
use serde_json::{Value, json};

const KEY: &str = "sk-bf-ann-0123456789abcdef";

fn golden(path: &str) -> PathBuf {
    root().join("tests/golden/guard-0.1.0").join(path)
}

/// Returns what the version released.
fn expected(name: &str) -> Value {
    let file = golden("expected").join(format!("{name}.json"));
    serde_json::from_str(&fs::read_to_string(file).expect("a golden file")).expect("JSON")
}

/// Returns the cases of a file of which each is one request.
fn cases(name: &str) -> Vec<Value> {
    serde_json::from_value(expected(name)).expect("a list")
}

/// Returns a string member of a case.
fn text<'c>(case: &'c Value, member: &str) -> &'c str {
    case[member].as_str().unwrap_or_else(|| panic!("no {member} in {case}"))
}

/// Adds the guard.
fn guarded(setup: Setup, settings: &Value) -> Setup {
    let component = golden("guard.wasm").display().to_string();
    // A hook of a busy machine waits for a processor longer than the default time.
    let limits = json!({"time": "1s"});
    let guard =
        json!({"name": "golden", "component": component, "settings": settings, "limits": limits});
    setup.set("/guards", json!([guard]))
}

/// Returns a tool whose description says how the guard decides.
fn tool(name: &str, description: &str) -> Value {
    json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": {
        "text": {"type": "string", "description": description},
    }}})
}

/// Starts a gateway with two servers and a model, which are guarded.
async fn started() -> Gateway {
    let setup = Setup::new();
    let tools = json!([
        tool("plain", "plain secret"),
        tool("rewritten", "definition:rewrite my secret"),
        tool("denied", "definition:deny"),
    ]);
    let tools = format!("tools={}", setup.file("tools.json", tools.to_string()).display());
    let notes = format!("notes={}", setup.directory().join("notes").display());
    // It has no turn with the address.
    let script = json!({"turns": [
        {"when": {"contains": "mail [EMAIL_1]"}, "answer": {"content": "wrote to [EMAIL_1]"}},
        {"when": {"contains": "mail "}, "answer": {"content": "it was not hidden"}},
        {"answer": {"content": "you said {{last_user_message}}"}},
    ]});
    let setup = setup
        .scripted("fake", &script)
        .key("ann", KEY, &[("server", &["*"])])
        .set("/server/require_virtual_key", false)
        .client(misbehaving("server", [notes.as_str()]).auto(&["*"]))
        .client(misbehaving("listed", [tools.as_str()]).auto(&["*"]));
    guarded(setup, &json!({"replacement": "hidden"})).serve_connected().await
}

/// Compares a reply, and the content that it has if the guard denies nothing, with a case.
fn assert_is_as_released(case: &Value, reply: &Reply, content: &Value) {
    if case.get("denied").is_some() {
        assert_denied(reply, text(case, "denied"));
    } else {
        assert_eq!(content.as_str(), Some(text(case, "returned")), "{case}: {}", reply.text);
    }
}

/// Checks that the guard has denied something with this reason, which its code follows.
fn assert_denied(reply: &Reply, reason: &str) {
    let (status, message) = reply.refusal();
    assert_eq!((status, reply.code()), (403, "guard_denied"), "{}", reply.text);
    let released = format!("the guard \"golden\": {reason}");
    assert!(message.ends_with(&released), "{message}\nhas not {released}");
}

#[tokio::test]
async fn a_guard_that_was_built_for_0_1_0_decides_as_it_did() {
    let gateway = started().await;
    for case in cases("calls") {
        let headers: &[(&str, &str)] = if case["key"] == true { &[("x-bf-vk", KEY)] } else { &[] };
        let arguments = json!({"text": case["text"]});
        let reply = gateway.execute_with(headers, text(&case, "tool"), &arguments).await;
        assert_is_as_released(&case, &reply, &reply.body["content"]);
    }
    for case in cases("models") {
        let reply = gateway.chat("fake/m", text(&case, "text")).await;
        let content = &reply.body["choices"][0]["message"]["content"];
        assert_is_as_released(&case, &reply, content);
    }
    asks_as_released(&gateway).await;
    offers_as_released(&gateway).await;
}

/// Checks that the guard asks the user of an MCP client.
async fn asks_as_released(gateway: &Gateway) {
    let case = expected("asked");
    let endpoint = Endpoint::new(gateway).with_elicitation();
    let call = json!({"name": case["tool"], "arguments": {"text": case["text"]}});
    let question = endpoint.modern("tools/call", call).result().await;
    let message = question["inputRequests"]["approval"]["params"]["message"].as_str();
    let reason = format!("The guard \"golden\" asks: {}", text(&case, "reason"));
    assert!(message.is_some_and(|message| message.ends_with(&reason)), "{question:#}");
}

/// Checks the tools that the guard leaves, and the one that it denies.
async fn offers_as_released(gateway: &Gateway) {
    let case = expected("definitions");
    let list = Endpoint::new(gateway).modern("tools/list", json!({})).result().await;
    let tools = list["tools"].as_array().expect("a list");
    for offered in case["offered"].as_array().expect("a list") {
        let tool = tools.iter().find(|tool| tool["name"] == offered["name"]);
        let tool = tool.unwrap_or_else(|| panic!("{offered} is not offered: {list:#}"));
        let description = text(offered, "description");
        assert_eq!(tool["description"], description, "{tool:#}");
        assert_eq!(tool["inputSchema"]["properties"]["text"]["description"], description);
    }
    assert!(tools.iter().all(|tool| tool["name"] != "listed-denied"), "{list:#}");
    let reply = gateway.execute("listed-denied", &json!({"text": "plain"})).await;
    assert_denied(&reply, text(&case, "denied"));
}

#[tokio::test]
async fn a_guard_that_was_built_for_0_1_0_refuses_the_settings_that_it_refused() {
    for case in cases("settings") {
        let setup = guarded(Setup::new(), &case["settings"]);
        let checked = setup.airlock("check").arg("--json").run().await.failed().json();
        let error = &checked["errors"][0];
        assert_eq!(error["key"], "guards[0].settings", "{checked:#}");
        let message = format!("the guard refuses them: {}", text(&case, "refused"));
        assert_eq!(error["message"], message, "{checked:#}");
    }
}
