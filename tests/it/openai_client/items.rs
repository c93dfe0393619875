//! Every input item of OpenAI's own schema, as the types of the `openai` package have it.

use serde_json::{Value, json};
use tokio::process::Command;

use super::*;

/// Parts of the errors that refuse samples.
const REFUSALS: [&str; 13] = [
    // A result of no call, an image and a file without contents say nothing to a model.
    "Missing required parameter: 'input[1].call_id'",
    ".image_url'",
    ".file_data'",
    // The sample names an item that is not stored, and has another service's state.
    "Item with id 'text' not found",
    "it was not made by this gateway",
    // Nothing of chat completions stands for them.
    "Invalid value: 'compaction",
    "Invalid value: 'configuration_update'",
    "Invalid value: 'mcp_approval_re",
    "Calls cannot be asynchronous.",
    "Only calls by the model itself are supported.",
    "Chat completions have no detail of files.",
    "Chat completions take no URLs of files.",
    // There are no uploaded files.
    "Images of uploaded files are not available.",
];

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
    let mut unused: Vec<&str> = REFUSALS.to_vec();
    for (path, item) in &samples {
        let body = json!({"model": "script/m", "input": input(item)});
        let reply = gateway.post("/v1/responses", &body).await;
        if reply.status == 200 {
            continue;
        }
        let message = reply.body["error"]["message"].as_str().unwrap_or_default();
        unused.retain(|part| !message.contains(part));
        if !REFUSALS.iter().any(|part| message.contains(part)) {
            unexpected.push(format!("{path}: {} {message}", reply.status));
        }
    }
    assert!(unexpected.is_empty(), "{}", unexpected.join("\n"));
    assert!(unused.is_empty(), "no sample is refused for {unused:?}");
}
