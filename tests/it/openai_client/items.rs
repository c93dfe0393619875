//! Every input item of OpenAI's own schema, as the types of the `openai` package have it.

use serde_json::{Value, json};
use tokio::process::Command;

use super::*;

/// Samples that are refused, by the beginning of their paths, each with its reason.
const REFUSED: [&str; 0] = [];

/// Returns the samples: the path of what is special in one, and the item.
async fn samples() -> Vec<(String, Value)> {
    let program = airlock_tests::root().join("tests/fixtures/clients/items.py");
    let mut command = Command::new(peers::python());
    let output = command.arg(program).env("PYTHONDONTWRITEBYTECODE", "1").output().await;
    let output = output.expect("Python runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it prints samples")
}

/// Returns an input with the item, and with what belongs to it: a call has a result, and a result a
/// call.
fn input(item: &Value) -> Value {
    let call = item["call_id"].as_str().unwrap_or_default();
    let mut input = vec![json!({"role": "user", "content": "hello"})];
    let kind = item["type"].as_str().unwrap_or_default();
    let is_custom = kind.starts_with("custom");
    let result = json!({"type": "function_call_output", "call_id": call, "output": "done"});
    let (name, arguments) =
        if is_custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    let called = json!({"type": name, "call_id": call, "name": "f", arguments: "{}"});
    match kind {
        "function_call" | "custom_tool_call" => input.extend([item.clone(), result]),
        "function_call_output" | "custom_tool_call_output" if !call.is_empty() => {
            input.extend([called, item.clone()]);
        }
        _ => input.push(item.clone()),
    }
    input.into()
}

#[tokio::test]
async fn every_input_item_of_openais_schema_is_accepted_or_refused_for_a_known_reason() {
    let turns = json!({"turns": [{"answer": {"content": "hello yourself"}}]});
    let gateway = Setup::new().scripted("script", &turns).serve_connected().await;
    let samples = samples().await;
    assert!(samples.len() > 300, "{} samples", samples.len());
    let mut unexpected = Vec::new();
    let mut unused: Vec<&str> = REFUSED.to_vec();
    for (path, item) in &samples {
        let body = json!({"model": "script/m", "input": input(item)});
        let reply = gateway.post("/v1/responses", &body).await;
        let reason = REFUSED.iter().find(|refused| path.starts_with(**refused));
        unused.retain(|refused| Some(refused) != reason);
        let is_refused = reply.status != 200;
        if is_refused != reason.is_some() {
            unexpected.push(format!("{path}: {} {}", reply.status, reply.body["error"]["message"]));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert!(unused.is_empty(), "no sample is refused for {unused:?}");
}
