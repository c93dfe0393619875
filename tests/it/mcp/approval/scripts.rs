//! Scripts whose calls need an approval.

use std::fs;

use airlock_tests::{
    Setup,
    mcp::{Endpoint, McpClient},
};
use serde_json::json;

use super::{accepted, asked, noting, response};

#[tokio::test]
async fn a_script_is_asked_about_with_the_tools_that_need_an_approval() {
    let setup = Setup::new();
    let notes = setup.directory().join("notes");
    let client = noting(&setup).code_mode().auto(&["echo"]);
    let gateway = setup.client(client.execute(&["echo", "note"])).serve_connected().await;
    let session = Endpoint::new(&gateway).with_elicitation().session().await;
    let script = json!({"code": "server.note(text = \"x\")\nresult = \"ran\""});
    let params = json!({"name": "executeToolCode", "arguments": script});
    for (action, noted) in [("decline", ""), ("accept", "x\n")] {
        let (stream, question) = asked(&session, params.clone()).await;
        let message = question["params"]["message"].as_str().expect("a text");
        assert!(message.contains("server-note") && !message.contains("server-echo"), "{message}");
        accepted(session.respond(&question["id"], json!({"action": action, "content": {}}))).await;
        response(stream).await;
        assert_eq!(fs::read_to_string(&notes).unwrap_or_default(), noted, "{action}");
    }
    let reading = McpClient::Legacy(session).call("listToolFiles", &json!({})).result().await;
    assert!(reading["content"].is_array(), "{reading}");
}

#[tokio::test]
async fn a_script_of_a_client_that_cannot_ask_waits_and_goes_on_with_its_state() {
    let setup = Setup::new();
    let notes = setup.directory().join("notes");
    let client = noting(&setup).code_mode().auto(&["echo"]);
    let gateway = setup.client(client.execute(&["echo", "note"])).serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let script = json!({"code": "server.note(text = \"x\")\nresult = \"ran\""});
    let params = json!({"name": "executeToolCode", "arguments": script});
    for client in endpoint.both().await {
        let stopped = client.request("tools/call", params.clone()).result().await;
        let run = &stopped["_meta"]["airlock/run"];
        let pending = json!([{"position": "1", "tool": "server-note", "arguments": {"text": "x"}}]);
        assert_eq!((&stopped["isError"], &run["pending"]), (&json!(true), &pending), "{stopped}");
        let text = stopped["content"][1]["text"].as_str().expect("a text");
        let id = run["id"].as_str().expect("an id");
        for part in ["text: \"x\"", &format!("/v1/runs/{id}/approve"), "airlock runs approve"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    let stopped = endpoint.modern("tools/call", params.clone()).result().await;
    let run = &stopped["_meta"]["airlock/run"];
    let again = || {
        let call = endpoint.modern("tools/call", params.clone());
        call.member("/params/requestState", run["request_state"].clone())
    };
    assert_eq!(fs::read_to_string(&notes).unwrap_or_default(), "");
    let ended = again().result().await;
    assert_eq!(ended["structuredContent"]["result"], "ran", "{ended}");
    // The state counts once.
    assert_eq!(again().error().await["code"], -32602);
    assert_eq!(fs::read_to_string(&notes).unwrap_or_default(), "x\n");
}
