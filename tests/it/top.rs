//! `airlock top`: one sample of a running gateway.

use std::fs;

use airlock_tests::{Airlock, Gateway, Setup, misbehaving, wait};
use serde_json::{Value, json};

/// Prepares the command for a gateway.
fn top(gateway: &Gateway) -> Airlock {
    Airlock::new().arg("top").arg("--url").arg(gateway.address())
}

/// Returns the entry of a tool.
fn tool<'d>(document: &'d Value, name: &str) -> &'d Value {
    let tools = document["tools"].as_array().expect("a list");
    let found = tools.iter().find(|tool| tool["tool"] == name);
    found.unwrap_or_else(|| panic!("no {name}: {document:#}"))
}

#[tokio::test]
async fn a_call_that_runs_is_shown_with_its_server_as_a_document_and_as_text() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let echoed = gateway.execute("server-echo", &json!({"text": "a-secret-argument"})).await;
    assert_eq!(echoed.content(), "a-secret-argument");
    gateway.execute("server-fail", &json!({})).await;
    let flag = gateway.directory().join("flag");
    let arguments = json!({"file": flag});
    let waiting = gateway.execute("server-wait_for", &arguments);
    let watching = async {
        let document = wait::until("the call to run", async || {
            let document = top(&gateway).arg("--json").run().await.ok().json();
            (document["servers"][0]["in_flight"] == 1).then_some(document)
        })
        .await;
        let server = &document["servers"][0];
        assert_eq!((&server["name"], &server["state"]), (&json!("server"), &json!("ready")));
        let echo = tool(&document, "server-echo");
        assert_eq!((&echo["calls"], &echo["errors"]), (&json!(1), &json!(0)), "{document:#}");
        assert_eq!(tool(&document, "server-fail")["errors"], 1, "{document:#}");
        assert_eq!(document["approvals"]["waiting"], 0, "{document:#}");
        assert!(document["gateway"]["version"].is_string(), "{document:#}");
        let missing = document["missing"].as_array().expect("a list");
        match document["live_calls"].as_array() {
            Some(calls) => assert_eq!(calls[0]["tool"], "server-wait_for", "{document:#}"),
            None => assert!(missing.contains(&json!("live calls")), "{document:#}"),
        }
        let text = top(&gateway).arg("--once").run().await.ok().stdout;
        assert!(!text.contains('\u{1b}') && !text.contains("a-secret-argument"), "{text}");
        let row = text.lines().find(|line| line.starts_with("server ")).expect("the server");
        let cells: Vec<_> = row.split_whitespace().take(3).collect();
        assert_eq!(cells, ["server", "ready", "1"], "{text}");
        fs::write(&flag, "").expect("a file");
    };
    let (reply, ()) = tokio::join!(waiting, watching);
    assert_eq!(reply.status, 200, "{}", reply.text);
}

#[tokio::test]
async fn a_gateway_of_the_configuration_is_found_by_its_socket_and_none_is_an_error() {
    let gateway = Setup::new().client(misbehaving("server", [])).serve_connected().await;
    let config = gateway.directory().join("airlock.json");
    let command = Airlock::new().arg("top").arg("--config").arg(config).arg("--json");
    // The socket needs no token.
    let document = command.env("AIRLOCK_OPERATOR_TOKEN", "").run().await.ok().json();
    assert_eq!(document["servers"][0]["name"], "server", "{document:#}");
    let missing = document["missing"].as_array().expect("a list");
    assert!(!missing.contains(&json!("metrics")), "{document:#}");

    let absent = Setup::new().airlock("top").arg("--once").run().await.failed();
    assert!(!absent.stdout.contains("requests in flight"), "{absent}");
}
