//! The real `openai` clients, for Python and for Node.js, against the gateway with a scripted model
//! and a real MCP server behind it. `tests/fixtures/openai_clients` has their programs.

mod chat;
mod items;
mod responses;

use std::{path::PathBuf, process::Stdio};

use airlock_tests::{Gateway, Setup, peers};
use serde_json::{Map, Value, json};
use tokio::process::Command;

/// Text of an answer whose call waits for an approval.
pub(crate) const WAITING: &str = "[Note of the gateway: `everything-get-env` needs an approval, so nothing was run. A program approves a call by \
                       sending it to /v1/mcp/tool/execute. A client that cannot do that sends the header `x-airlock-approval: wait`, \
                       or the operator sets `approval` to `wait`: a person then decides with `airlock approvals`.]";

/// Returns the script of the model.
pub(crate) fn script() -> Value {
    let user = |contains: &str, answer: Value| json!({"when": {"role": "user", "contains": contains}, "answer": answer});
    let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
    let sum = |a: u32, b: u32| call("everything-get-sum", json!({"a": a, "b": b}));
    let environment = || call("everything-get-env", json!({}));
    let died = |after: u32| json!({"status": 500, "message": "died", "after": after});
    json!({"turns": [
        user("hello", json!({"content": "hello yourself"})),
        user("add 1 and 2", json!({"tool_calls": [sum(1, 2)]})),
        user("add 3 and 4", json!({"tool_calls": [sum(3, 4)]})),
        user("read the environment", json!({"tool_calls": [environment()]})),
        user("do both", json!({"tool_calls": [sum(20, 22), environment()]})),
        user("weather", json!({"tool_calls": [call("get_weather", json!({"city": "Bern"}))]})),
        user("count slowly", json!({"content": "one two three four five six", "pace": "20ms"})),
        user("describe this", json!({"content": "a picture"})),
        user("too fast", json!({"error": {"status": 429, "message": "slow down", "retry_after": 7}})),
        user("break", json!({"error": {"status": 500, "message": "broken"}})),
        // The first chunk is the role.
        user("fail midway", json!({"content": "Once upon a", "error": died(3)})),
        {"when": {"role": "tool", "contains": "sum of 3 and 4"}, "answer": {"content": "It says", "error": died(2)}},
        {"when": {"role": "tool", "tool_results": 1}, "answer": {"content": "It says: {{last_tool_result}}"}},
    ]})
}

async fn gateway() -> Gateway {
    Setup::new()
        .scripted("script", &script())
        .client(peers::everything("everything").auto(&["get-sum"]).set("/trust", "trusted"))
        .serve_connected()
        .await
}

/// Returns what the clients saw of one API: `sync` and `async` from Python, and `node`.
async fn seen(gateway: &Gateway, api: &str) -> Map<String, Value> {
    let programs = airlock_tests::root().join("tests/fixtures/openai_clients");
    let program = |extension: &str| programs.join(api).with_extension(extension);
    let (python, node) = tokio::join!(
        run(peers::python(), program("py"), gateway),
        run(peers::node().into(), program("mjs"), gateway),
    );
    python.into_iter().chain(node).collect()
}

async fn run(interpreter: PathBuf, program: PathBuf, gateway: &Gateway) -> Map<String, Value> {
    let mut command = Command::new(&interpreter);
    command.arg(program).arg(format!("{}/v1", gateway.address()));
    // A proxy of this machine must not come between two local processes.
    command.env("NO_PROXY", "*").env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", interpreter.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints a JSON object")
}
