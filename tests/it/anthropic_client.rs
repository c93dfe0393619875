//! Anthropic's own clients, for Python and for Node.js, against the gateway with a scripted model and a
//! real MCP server behind it. `tests/fixtures/anthropic_clients` has their programs.

use std::{path::PathBuf, process::Stdio};

use airlock_tests::{Gateway, Setup, peers};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::openai_client::{WAITING, script};

/// Types of the events of a message with one block.
const ONE_BLOCK: [&str; 6] = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
];

async fn gateway() -> Gateway {
    let mut script = script();
    let thinking = json!({"when": {"role": "user", "contains": "think"},
        "answer": {"reasoning": "let me think", "content": "four"}});
    script["turns"].as_array_mut().expect("a list").push(thinking);
    let preferred = json!({"turns": [{"answer": {"content": "from the preferred one"}}]});
    Setup::new()
        .scripted("script", &script)
        .scripted("anthropic", &preferred)
        .client(peers::everything("everything").auto(&["get-sum"]).set("/trust", "trusted"))
        .serve_connected()
        .await
}

/// Returns what the clients saw: `sync` and `async` from Python, and `node`.
async fn seen(gateway: &Gateway) -> Map<String, Value> {
    let programs = airlock_tests::root().join("tests/fixtures/anthropic_clients/messages");
    let node = peers::node_with("@anthropic-ai/sdk");
    let (python, node) = tokio::join!(
        run(peers::python(), programs.with_extension("py"), gateway),
        run(node.into(), programs.with_extension("mjs"), gateway),
    );
    python.into_iter().chain(node).collect()
}

async fn run(interpreter: PathBuf, program: PathBuf, gateway: &Gateway) -> Map<String, Value> {
    let mut command = Command::new(&interpreter);
    command.arg(program).arg(format!("{}/anthropic", gateway.address()));
    // A proxy of this machine must not come between two local processes.
    command.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", interpreter.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints a JSON object")
}

/// Returns the three views of one message. `calls` are the names in its `airlock` object.
fn conversation(content: &[Value], stop_reason: &str, calls: &Value) -> Value {
    let helper = json!({
        "type": "message", "role": "assistant", "content": content, "stop_reason": stop_reason, "usage": true,
    });
    let mut plain = helper.clone();
    plain["calls"] = calls.clone();
    let [start, block @ .., delta, stop] = &ONE_BLOCK;
    let blocks = content.iter().flat_map(|_| block);
    let types: Vec<_> = [start].into_iter().chain(blocks).chain([delta, stop]).collect();
    json!({"plain": plain, "helper": helper, "raw": {"types": types, "calls": calls}})
}

fn error(status: Option<u16>, kind: &str, message: &str, code: &str) -> Value {
    json!({"status": status, "type": kind, "message": message, "code": code, "has_id": true, "calls": null})
}

#[tokio::test]
async fn every_client_gets_the_same_messages_whole_and_streamed() {
    let gateway = gateway().await;
    let seen = seen(&gateway).await;
    assert_eq!(seen.keys().collect::<Vec<_>>(), ["sync", "async", "node"]);
    for (client, seen) in &seen {
        check_messages(client, seen);
        check_errors(client, &seen["errors"]);
    }
    assert_eq!((&seen["sync"], &seen["sync"]), (&seen["async"], &seen["node"]));
}

fn check_messages(client: &str, seen: &Value) {
    let text = |text: &str| json!(["text", text]);
    let environment = json!(["tool_use", "everything-get-env", {}]);
    let sum = json!(["everything-get-sum"]);
    let mixed = "The Output from allowed tools calls is - {\"everything-get-sum\":\"The sum of 20 and 22 is 42.\"}\n\n\
                 Now I shall call these tools next...";
    let auto = text("It says: The sum of 1 and 2 is 3.");
    let own =
        json!({"call": ["get_weather", {"city": "Bern"}], "final": [text("It says: 12 degrees")]});
    for (member, expected) in [
        ("hello", conversation(&[text("hello yourself")], "end_turn", &Value::Null)),
        ("auto", conversation(std::slice::from_ref(&auto), "end_turn", &sum)),
        ("waiting", conversation(&[text(WAITING), environment.clone()], "tool_use", &json!([]))),
        ("mixed", conversation(&[text(mixed), environment], "tool_use", &sum)),
        (
            "thinking",
            conversation(
                &[json!(["thinking", "let me think", ""]), text("four")],
                "end_turn",
                &Value::Null,
            ),
        ),
        ("models", json!(["anthropic/script", "script/script"])),
        ("own_tool", json!({"plain": own, "helper": own})),
        ("bare", json!([text("from the preferred one")])),
        ("events", json!([auto])),
        ("count", json!(true)),
    ] {
        assert_eq!(seen[member], expected, "{client}: {member}");
    }
}

fn check_errors(client: &str, errors: &Value) {
    let slow = error(Some(429), "rate_limit_error", "slow down", "scripted");
    let broken = error(Some(500), "api_error", "broken", "scripted");
    let bad_key =
        error(Some(401), "authentication_error", "virtual key not found", "invalid_api_key");
    let died = error(None, "api_error", "died", "scripted");
    let mut died_after_a_tool = died.clone();
    died_after_a_tool["calls"] = json!(["everything-get-sum"]);
    for (name, expected) in [
        ("rate_limit", &slow),
        ("rate_limit_streamed", &slow),
        ("server_error", &broken),
        ("server_error_streamed", &broken),
        ("bad_key", &bad_key),
        ("midway", &died),
        ("midway_after_a_tool", &died_after_a_tool),
    ] {
        assert_eq!(errors[name], *expected, "{client}: {name}");
    }
    let bad = &errors["bad_request"];
    assert_eq!(
        (&bad["status"], &bad["type"], &bad["code"]),
        (&json!(400), &json!("invalid_request_error"), &json!("invalid_type")),
        "{client}"
    );
}
