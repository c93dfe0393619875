//! The real `openai` client, in Python, against the gateway with a scripted model and a real MCP
//! server behind it.

use airlock_tests::{Gateway, Setup, peers};
use serde_json::{Value, json};
use tokio::process::Command;

/// Returns the script of the model.
fn script() -> Value {
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    json!({"turns": [
        {"when": {"role": "user", "contains": "hello"}, "answer": {"content": "hello yourself"}},
        {"when": {"role": "user", "contains": "add 1 and 2"},
         "answer": {"tool_calls": [call("everything-get-sum", json!({"a": 1, "b": 2}))]}},
        {"when": {"role": "user", "contains": "read the environment"},
         "answer": {"tool_calls": [call("everything-get-env", json!({}))]}},
        {"when": {"role": "user", "contains": "do both"},
         "answer": {"tool_calls": [call("everything-get-sum", json!({"a": 20, "b": 22})), call("everything-get-env", json!({}))]}},
        {"when": {"role": "user", "contains": "too fast"},
         "answer": {"error": {"status": 429, "message": "slow down", "retry_after": 7}}},
        {"when": {"role": "user", "contains": "break"}, "answer": {"error": {"status": 500, "message": "broken"}}},
        {"when": {"role": "tool", "tool_results": 1}, "answer": {"content": "It says: {{last_tool_result}}"}},
    ]})
}

async fn drive(gateway: &Gateway) -> Value {
    let fixture = airlock_tests::root().join("tests/fixtures/openai_client.py");
    let mut python = Command::new(peers::python());
    python.arg(fixture).arg(format!("{}/v1", gateway.address())).kill_on_drop(true);
    // A proxy of this machine must not come between two local processes.
    python.env("NO_PROXY", "*");
    let output = python.output().await.expect("python can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints JSON")
}

#[tokio::test]
async fn the_openai_client_gets_answers_pending_calls_and_its_own_exceptions() {
    let gateway = Setup::new()
        .scripted("script", &script())
        .client(peers::everything("everything").auto(&["get-sum"]))
        .serve_connected()
        .await;
    let seen = drive(&gateway).await;
    assert_eq!(seen["models"], json!(["script/script"]));
    assert_eq!(seen["plain"], json!(["hello yourself", "stop", "chat.completion"]));
    assert_eq!(seen["auto"], "It says: The sum of 1 and 2 is 3.");
    assert_eq!(seen["auto_calls"], json!(["everything-get-sum"]));
    assert_eq!(
        seen["waiting"],
        json!({"finish_reason": "tool_calls", "content": null, "pending": [["everything-get-env", {}]]})
    );
    assert_eq!(
        seen["mixed"],
        json!({
            "finish_reason": "tool_calls",
            "content": "The Output from allowed tools calls is - {\"everything-get-sum\":\"The sum of 20 and 22 is 42.\"}\n\n\
                        Now I shall call these tools next...",
            "pending": [["everything-get-env", {}]],
        })
    );
    let told = |name: &str| (seen[name]["class"].clone(), seen[name]["status"].clone());
    for (name, class, status) in [
        ("stream", "BadRequestError", 400),
        ("bad_request", "BadRequestError", 400),
        ("rate_limit", "RateLimitError", 429),
        ("server_error", "InternalServerError", 500),
        ("bad_key", "AuthenticationError", 401),
        ("unknown_path", "NotFoundError", 404),
    ] {
        assert_eq!(told(name), (json!(class), json!(status)), "{name}: {seen:#}");
        assert!(
            seen[name]["message"].as_str().is_some_and(|message| !message.is_empty()),
            "{name}: {seen:#}"
        );
    }
    assert_eq!(
        (&seen["rate_limit"]["retry_after"], &seen["rate_limit"]["message"]),
        (&json!("7"), &json!("slow down"))
    );
}
