//! The records name each guard that has changed something about a call, with the digest of its component.

use std::fs;

use airlock_tests::{OPERATOR, Reply, guests, wait};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Guarded, server};

/// Returns the digest of the component of the guard.
fn digest() -> String {
    let bytes = fs::read(guests::WARDEN).expect("the component");
    let digest = Sha256::digest(bytes);
    digest.iter().fold("sha256:".to_owned(), |text, byte| text + &format!("{byte:02x}"))
}

/// Returns the decisions of a row in which the guard has changed something.
fn decided(hook: &str, verdict: &str) -> Value {
    json!([{"guard": "warden", "digest": digest(), "hook": hook, "verdict": verdict}])
}

#[tokio::test]
async fn rows_have_the_decisions_of_guards_that_have_changed_something() {
    let guarded = Guarded::start(|setup| setup.set("/records/call_log/enabled", true)).await;
    let texts =
        ["plain", "before:deny", "before:rewrite secret", "after:rewrite secret", "after:deny"];
    for text in texts {
        let _ = guarded.call("server-echo", text).await;
    }
    let rows = wait::until("the rows to be written", async || {
        let path = "/api/mcp-logs?status=success,error&limit=10";
        let listed = guarded.gateway.get(path).await.ok();
        let rows = listed["logs"].as_array().expect("rows").clone();
        (rows.len() == texts.len()).then_some(rows)
    })
    .await;
    // The latest is the first.
    let found: Vec<_> = rows.iter().rev().map(|row| row["guards"].clone()).collect();
    let expected = [
        Value::Null,
        decided("before", "deny"),
        decided("before", "rewrite"),
        decided("after", "rewrite"),
        decided("after", "deny"),
    ];
    assert_eq!(found, expected);
    assert_eq!(rows[3]["error_details"]["code"], "airlock.guard_denied");
    assert_eq!(rows[3]["outcome"], "refused");
}

#[tokio::test]
async fn a_run_whose_arguments_a_guard_has_rewritten_is_replayed_without_a_call() {
    let operator =
        json!({"name": "tests", "role": "admin", "token": OPERATOR, "sees_payloads": true});
    let guarded = Guarded::start(|setup| {
        let client = server(&setup, "coded").auto(&["note"]).code_mode();
        let setup = setup.client(client).set("/store", "airlock.db");
        setup.set("/management/operators", json!([operator]))
    })
    .await;
    let code = "result = coded.note(text = \"before:rewrite secret\")\n";
    let made = guarded.gateway.execute("executeToolCode", &json!({"code": code})).await;
    assert!(made.text.contains("noted before:rewrite hidden"), "{}", made.text);
    let listed = guarded.gateway.request(Method::GET, "/api/runs").bearer_auth(OPERATOR);
    let listed = Reply::of(listed).await.ok();
    let id = listed["data"][0]["id"].as_str().expect("an identifier");
    let replay = guarded.gateway.request(Method::POST, &format!("/api/runs/{id}/replay"));
    let replayed = Reply::of(replay.bearer_auth(OPERATOR).json(&json!({}))).await.ok();
    assert_eq!(replayed["identical"], true, "{replayed:#}");
    assert_eq!(guarded.noted(), "before:rewrite hidden\n");
}
