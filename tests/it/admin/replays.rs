//! Replays of runs by operators, and the times of runs in the call log.

use airlock_tests::{Client, Gateway, OPERATOR, Setup, guests, wait};
use serde_json::{Value, json};

use super::{ANN, BOB, EVE, VIEWER, get, plugin, post, setup_with, text};

const SCRIPT: &str =
    "counted = text.word_count(text = \"one two\")\nprint(\"a\")\nprint(\"b\")\nresult = [1, 2]\n";

fn setup() -> Setup {
    setup_with(plugin().auto(&["*"]).code_mode())
        .set("/store", "airlock.db")
        .client(Client::wasm("asks", guests::TEXT).code_mode())
}

/// Executes a script. Returns the identifier of its run.
async fn run(gateway: &Gateway, script: &str) -> String {
    let _ = gateway.execute("executeToolCode", &json!({"code": script})).await;
    let runs = get(gateway, "/api/runs", ANN).await.ok();
    text(&runs["data"][0], "id").to_owned()
}

async fn replay(gateway: &Gateway, run: &str, token: &str) -> (u16, Value) {
    let reply = post(gateway, &format!("/api/runs/{run}/replay"), token, json!({})).await;
    (reply.status, reply.body)
}

/// Changes what the store has.
fn edit(gateway: &Gateway, statement: &str) {
    let store = gateway.directory().join("airlock.db");
    let store = rusqlite::Connection::open(store).expect("a database");
    assert_eq!(store.execute(statement, ()).expect("it is changed"), 1, "{statement}");
}

#[tokio::test]
async fn a_replay_is_the_same_or_names_its_first_difference() {
    let gateway = setup().serve_connected().await;
    let id = run(&gateway, SCRIPT).await;
    for token in [ANN, EVE] {
        let (status, same) = replay(&gateway, &id, token).await;
        assert_eq!((status, &same["identical"]), (200, &json!(true)), "{same}");
        assert_eq!((&same["differences"], &same["first_difference"]), (&json!([]), &Value::Null));
        assert!(same["fuel"].as_u64() > Some(0), "{same}");
    }
    edit(
        &gateway,
        "UPDATE run SET outcome = json_set(outcome, '$.output', 'a' || char(10) || 'x')",
    );
    let (_, other) = replay(&gateway, &id, ANN).await;
    assert_eq!((&other["identical"], &other["differences"]), (&json!(false), &json!(["output"])));
    let expected = json!({"part": "output", "line": 2, "stored": "x", "derived": "b"});
    assert_eq!(other["first_difference"], expected, "{other}");

    edit(&gateway, "UPDATE run_call SET arguments = '{\"text\":\"three\"}'");
    let (_, diverged) = replay(&gateway, &id, ANN).await;
    let first = &diverged["first_difference"];
    assert_eq!((text(first, "part"), text(first, "stored")), ("error", ""), "{diverged}");
    assert!(text(first, "derived").starts_with("run_diverged: "), "{diverged}");
    edit(&gateway, "DELETE FROM run_call");
    let (_, alone) = replay(&gateway, &id, ANN).await;
    assert_eq!(alone["identical"], false, "no tool is called: {alone}");
}

#[tokio::test]
async fn a_replay_needs_its_rights_and_a_run_that_has_ended() {
    let gateway = setup().serve_connected().await;
    let id = run(&gateway, "result = 1\n").await;
    for (token, code) in
        [(VIEWER, "role_insufficient"), (BOB, "role_insufficient"), (OPERATOR, "payloads_hidden")]
    {
        let (status, refused) = replay(&gateway, &id, token).await;
        assert_eq!((status, &refused["error"]["code"]), (403, &json!(code)), "{refused}");
    }
    let (status, unknown) = replay(&gateway, "run_none", ANN).await;
    assert_eq!((status, &unknown["error"]["code"]), (404, &json!("run_not_found")), "{unknown}");
    let waiting = run(&gateway, "result = asks.word_count(text = \"a\")\n").await;
    assert_ne!(waiting, id);
    let (status, refused) = replay(&gateway, &waiting, ANN).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (409, &json!("run_not_replayable")),
        "{refused}"
    );
}

#[tokio::test]
async fn the_call_log_has_the_executions_of_a_run_and_their_calls() {
    let gateway = setup().serve_connected().await;
    let id = run(&gateway, SCRIPT).await;
    let path = format!("/api/mcp-logs?run_ids={id}&tool_names=executeToolCode&order=asc");
    let execution = wait::until("the execution to be logged", async || {
        let listed = get(&gateway, &path, VIEWER).await.ok();
        listed["logs"].get(0).filter(|row| row["outcome"] == "success").cloned()
    })
    .await;
    assert_eq!(text(&execution, "run_id"), id, "{execution}");
    let path = format!("/api/mcp-logs?parent_request_ids={}", text(&execution, "id"));
    let calls = get(&gateway, &path, VIEWER).await.ok();
    let call = &calls["logs"][0];
    assert_eq!(text(call, "tool_name"), "text-word_count", "{calls}");
    let began = execution["timestamp_ms"].as_i64().expect("a time");
    assert!(call["timestamp_ms"].as_i64() >= Some(began) && call["latency"].is_number(), "{calls}");
    let none = get(&gateway, "/api/mcp-logs?run_ids=run_none", VIEWER).await.ok();
    assert_eq!(none["logs"], json!([]), "{none}");
}
