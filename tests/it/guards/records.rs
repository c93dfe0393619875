//! The records name each guard that has changed something about a call, with the digest of its component.

use std::fs;

use airlock_tests::{Gateway, OPERATOR, Reply, Setup, guests, wait};
use reqwest::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Guarded, notes, server, warden};
use crate::records::events;

/// Returns the digest of the component of the guard.
pub(super) fn digest() -> String {
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
async fn rows_and_lines_of_requests_to_models_have_the_decisions_of_guards() {
    let log = tempfile::tempdir().expect("a directory");
    let script = json!({"turns": [{"answer": {"content": "you said {{last_user_message}}"}}]});
    let guarded = Guarded::start(|setup| {
        let setup = setup.scripted("fake", &script).set("/guards", json!([warden(&json!({}))]));
        setup
            .set("/records/call_log/enabled", true)
            .set("/records/audit/enabled", true)
            .set("/records/audit/dir", log.path().display().to_string())
    })
    .await;
    let texts = [
        "plain",
        "before_model:rewrite secret",
        "before_model:deny",
        "before_model:trap",
        "after_model:rewrite secret",
        "after_model:deny",
    ];
    for text in texts {
        let _ = guarded.gateway.chat("fake/m", text).await;
    }
    let rows = wait::until("the rows to be written", async || {
        let listed = guarded.gateway.get("/api/logs?status=success,error&limit=10").await.ok();
        let rows = listed["logs"].as_array().expect("rows").clone();
        (rows.len() == texts.len()).then_some(rows)
    })
    .await;
    let expected = [
        Value::Null,
        decided("before_model", "rewrite"),
        decided("before_model", "deny"),
        decided("before_model", "fail"),
        decided("after_model", "rewrite"),
        decided("after_model", "deny"),
    ];
    // The latest is the first.
    let found: Vec<_> = rows.iter().rev().map(|row| row["guards"].clone()).collect();
    assert_eq!(found, expected);
    assert_eq!(rows[3]["error_details"]["code"], "guard_denied");
    guarded.gateway.terminate();
    guarded.gateway.ended().await;
    let mut events = events(log.path());
    events.retain(|event| event["kind"] == "model_ended");
    let found: Vec<_> = events.iter().map(|event| event["guards"].clone()).collect();
    assert_eq!(found, expected);
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
    let listed = Reply::fetch(listed).await.ok();
    let id = listed["data"][0]["id"].as_str().expect("an identifier");
    let replay = guarded.gateway.request(Method::POST, &format!("/api/runs/{id}/replay"));
    let replayed = Reply::fetch(replay.bearer_auth(OPERATOR).json(&json!({}))).await.ok();
    assert_eq!(replayed["identical"], true, "{replayed:#}");
    assert_eq!(guarded.noted(), "before:rewrite hidden\n");
}

/// Returns a run after a decision to approve the calls that it shows.
async fn approved(gateway: &Gateway, run: &Value) -> Value {
    let calls = run["pending"].as_array().into_iter().flatten();
    let calls: Vec<_> = calls.map(|call| &call["position"]).collect();
    let body = json!({"calls": calls, "request_state": run["request_state"]});
    let id = run["id"].as_str().expect("an identifier");
    gateway.post(&format!("/v1/runs/{id}/approve"), &body).await.ok()
}

#[tokio::test]
async fn a_run_that_is_resumed_under_a_new_guard_asks_about_the_arguments_that_it_leaves() {
    let setup = Setup::new();
    let notes = notes(&setup);
    // Each call needs an approval.
    let client = server(&setup, "coded").code_mode();
    let setup = setup.client(client).set("/store", "airlock.db");
    let before = setup.set("/server/require_virtual_key", false).serve_connected().await;
    let code = "result = coded.note(text = \"before:rewrite secret\")\n";
    let stopped = before.execute_for_model("executeToolCode", &json!({"code": code})).await;
    let run = stopped.ok()["airlock"]["run"].clone();
    assert_eq!(run["pending"][0]["arguments"]["text"], "before:rewrite secret", "{run:#}");
    let guards = json!([warden(&json!({"clients": ["coded"]}))]);
    let guarded = before.kill().await.set("/guards", guards).serve_connected().await;
    let run = approved(&guarded, &run).await;
    assert_eq!(run["state"], "suspended", "{run:#}");
    assert_eq!(run["pending"][0]["arguments"]["text"], "before:rewrite hidden", "{run:#}");
    assert!(!notes.exists(), "what was approved is not what the guard leaves");
    let run = approved(&guarded, &run).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    let made = fs::read_to_string(&notes).expect("it was made");
    assert_eq!(made, "before:rewrite hidden\n");
}
