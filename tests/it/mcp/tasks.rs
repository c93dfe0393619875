//! Calls that clients follow as tasks, with a server of the legacy era whose tool runs as a task alone. The
//! official conformance suite has the modern extension.

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, McpClient},
    peers, wait,
};
use serde_json::{Value, json};

use super::{ANN, BOB};

const RESEARCH: &str = "up-simulate-research-query";

async fn gateway() -> Gateway {
    let everything = peers::everything("up").auto(&["*"]).set("/allow", ["elicitation"].as_slice());
    let rows: [(&str, &[&str]); 1] = [("up", &["*"])];
    Setup::new()
        .set("/server/require_virtual_key", false)
        .key("ann", ANN, &rows)
        .key("bob", BOB, &rows)
        .client(everything)
        .serve_connected()
        .await
}

fn research(more: &Value) -> Value {
    let mut params = json!({"name": RESEARCH, "arguments": {"topic": "tides"}});
    params
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().cloned().unwrap_or_default());
    params
}

fn extension() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

#[tokio::test]
async fn a_legacy_client_asks_for_a_task_and_waits_for_its_result() {
    let gateway = gateway().await;
    let session = Endpoint::new(&gateway).key(ANN).session().await;
    let tools = McpClient::Legacy(Endpoint::new(&gateway).key(ANN).session().await).tools().await;
    let execution = |name: &str| {
        let tool = tools.iter().find(|tool| tool["name"] == name).expect("the tool");
        tool.get("execution").cloned()
    };
    assert_eq!(execution(RESEARCH), Some(json!({"taskSupport": "optional"})));
    assert_eq!(execution("up-echo"), None);

    let task = json!({"task": {"ttl": 60_000}});
    let created = session.request("tools/call", research(&task)).result().await;
    let id = created["task"]["taskId"].as_str().expect("a task").to_owned();
    assert_eq!(created["task"]["status"], "working", "{created}");
    let of_task = || json!({"taskId": id});
    let other = Endpoint::new(&gateway).key(BOB).session().await;
    assert_eq!(other.request("tasks/get", of_task()).error().await["code"], -32602);
    let result = session.request("tasks/result", of_task()).result().await;
    assert!(
        result["content"][0]["text"].as_str().is_some_and(|text| text.contains("tides")),
        "{result}"
    );
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"], of_task());
    let ended = session.request("tasks/get", of_task()).result().await;
    assert_eq!((&ended["status"], ended.get("result")), (&json!("completed"), None), "{ended}");
    assert_eq!(
        session.request("tasks/cancel", of_task()).error().await["code"],
        -32602,
        "it has ended"
    );

    let plain = json!({"name": "up-echo", "arguments": {"message": "x"}, "task": {}});
    assert_eq!(session.request("tools/call", plain).error().await["code"], -32601);
    let old = Endpoint::new(&gateway).key(ANN).session_of("2025-06-18").await;
    assert_eq!(old.request("tasks/get", of_task()).error().await["code"], -32601);
}

#[tokio::test]
async fn a_modern_client_with_the_extension_follows_the_task_of_a_server_and_cancels_it() {
    let gateway = gateway().await;
    let plain = Endpoint::new(&gateway).key(ANN);
    let endpoint = plain.clone().with_capabilities(extension());
    let discovered = endpoint.modern("server/discover", json!({})).result().await;
    let extensions = &discovered["capabilities"]["extensions"];
    assert_eq!(extensions["io.modelcontextprotocol/tasks"], json!({}), "{discovered}");

    let created = endpoint.modern("tools/call", research(&json!({}))).result().await;
    assert_eq!(created["resultType"], "task", "{created}");
    let id = created["taskId"].as_str().expect("a task").to_owned();
    let of_task = || json!({"taskId": id});
    let refused = plain.modern("tasks/get", of_task()).error().await;
    assert_eq!(refused["code"], -32021, "{refused}");
    assert_eq!(endpoint.modern("tasks/list", json!({})).error().await["code"], -32601);
    let done = endpoint.modern("tasks/cancel", of_task()).result().await;
    assert_eq!((&done["resultType"], done.get("taskId")), (&json!("complete"), None), "{done}");
    let state = endpoint.modern("tasks/get", of_task()).result().await;
    assert_eq!(state["status"], "cancelled", "{state}");
    wait::until("the call to end at the server", async || {
        let client = gateway.client("up").await?;
        (client["in_flight"] == 0).then_some(())
    })
    .await;

    // The gateway follows the task for a client without the extension.
    let whole = plain.modern("tools/call", research(&json!({}))).result().await;
    assert_eq!(whole["resultType"], "complete", "{whole}");
    assert!(
        whole["content"][0]["text"].as_str().is_some_and(|text| text.contains("tides")),
        "{whole}"
    );
}

#[tokio::test]
async fn a_task_asks_its_client_in_both_eras() {
    let gateway = gateway().await;
    let ambiguous = json!({"arguments": {"topic": "tides", "ambiguous": true}});
    let endpoint = Endpoint::new(&gateway).key(ANN).with_capabilities(extension());
    let created = endpoint.modern("tools/call", research(&ambiguous)).result().await;
    let of_task = json!({"taskId": created["taskId"]});
    let get = async || endpoint.modern("tasks/get", of_task.clone()).result().await;
    let asked = wait::until("a question", async || {
        Some(get().await).filter(|state| state["status"] == "input_required")
    })
    .await;
    let keys = asked["inputRequests"].as_object().expect("questions").keys();
    let answers: serde_json::Map<_, _> = keys
        .map(|key| {
            (key.clone(), json!({"action": "accept", "content": {"interpretation": "technical"}}))
        })
        .collect();
    let mut params = of_task.clone();
    params["inputResponses"] = answers.into();
    let done = endpoint.modern("tasks/update", params).result().await;
    assert_eq!(done["resultType"], "complete", "{done}");
    let ended = wait::until("the end", async || {
        Some(get().await).filter(|state| state["status"] == "completed")
    })
    .await;
    assert!(ended["result"]["content"].is_array(), "{ended}");

    let session = Endpoint::new(&gateway).key(ANN).with_elicitation().session().await;
    let mut params = research(&ambiguous);
    params["task"] = json!({});
    let created = session.request("tools/call", params).result().await;
    let of_task = json!({"taskId": created["task"]["taskId"]});
    let mut waiting = session.request("tasks/result", of_task.clone()).stream().await;
    let question = waiting.next().await.expect("a question");
    assert_eq!(question["method"], "elicitation/create", "{question}");
    let related = &question["params"]["_meta"]["io.modelcontextprotocol/related-task"];
    assert_eq!(*related, of_task);
    let answer = json!({"action": "accept", "content": {"interpretation": "technical"}});
    assert_eq!(session.respond(&question["id"], answer).reply().await.status, 202);
    let rest = waiting.rest().await;
    assert!(rest.last().is_some_and(|last| last["result"]["content"].is_array()), "{rest:?}");
}
