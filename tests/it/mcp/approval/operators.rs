//! Calls about which only operators decide: `mcp_server.approval` is `wait`.

use std::fs;

use airlock_tests::{Airlock, Gateway, OPERATOR, Reply, Setup, mcp::Endpoint, wait};
use reqwest::Method;
use serde_json::json;

use super::{ANN, Noting, decide, note, noting, waiting};

/// Returns a run of `airlock approvals` at the address of a gateway.
fn approvals(gateway: &Gateway, arguments: &[&str]) -> Airlock {
    let command = arguments.iter().fold(Airlock::new().arg("approvals"), Airlock::arg);
    command.arg("--url").arg(gateway.address()).env("AIRLOCK_OPERATOR_TOKEN", OPERATOR)
}

#[tokio::test]
async fn with_wait_an_operator_decides_although_the_client_could_ask_its_user() {
    let noting = Noting::start(|setup| {
        let operator =
            json!({"name": "tests", "role": "approver", "token": OPERATOR, "sees_payloads": true});
        let setup = setup.set("/management/operators", json!([operator]));
        setup.set("/mcp_server/approval", "wait").set("/records/call_log/enabled", true)
    })
    .await;
    let gateway = &noting.gateway;
    for (client, act) in noting.asking().key(ANN).both().await.into_iter().zip(["approve", "deny"])
    {
        let mut call = Box::pin(client.request("tools/call", note("quiet")).result());
        let deciding = async {
            let calls = wait::until("the call to wait", async || {
                Some(waiting(gateway, Some(ANN)).await).filter(|calls| calls.len() == 1)
            });
            let call = calls.await.remove(0);
            assert_eq!(call["decided_by"], "operators");
            let id = call["id"].as_str().expect("an identifier");
            for own in ["approve", "deny"] {
                assert_eq!(decide(gateway, Some(ANN), id, own).await, 403, "{own}");
            }
            let listed = approvals(gateway, &["list"]).run().await.ok().stdout;
            assert!(listed.starts_with(&format!("{id}  pending  server-note  ")), "{listed}");
            let _ = approvals(gateway, &[act, id]).run().await.ok();
        };
        let (result, ()) = tokio::join!(&mut call, deciding);
        assert_eq!(result["isError"] == true, act == "deny", "{result}");
    }
    assert_eq!(noting.noted(), "quiet\n");
    let rows = wait::until("the rows to be written", async || {
        let listed = gateway.get("/api/mcp-logs").await.ok();
        let rows = listed["logs"].as_array().expect("rows").clone();
        (rows.len() == 2 && rows[1]["outcome"] == "success").then_some(rows)
    })
    .await;
    let decisions = [&rows[0]["decision"], &rows[1]["decision"]];
    assert_eq!(decisions, ["refused", "person"], "the latest first");
    let asked = "airlock_decisions_total{decision=\"asked\",reason=\"needs_approval\"} 2";
    let metrics = gateway.metrics().await;
    assert!(metrics.lines().any(|line| line == asked), "{metrics}");
    let said = gateway.until_said_times("a call that waits was decided about", 2).await;
    assert_eq!(said.matches("a call that waits was decided about").count(), 2, "{said}");
    assert!(said.contains("operator") && !said.contains("quiet"), "{said}");
}

#[tokio::test]
async fn with_wait_neither_the_state_nor_the_key_of_a_client_approves_its_script() {
    let setup = Setup::new().set("/mcp_server/approval", "wait");
    let notes = setup.directory().join("notes");
    let client = noting(&setup).code_mode().auto(&["echo"]).execute(&["echo", "note"]);
    let setup = setup.client(client).key("ann", ANN, &[("server", &["*"])]);
    let gateway = setup.serve_connected().await;
    let endpoint = Endpoint::new(&gateway).with_elicitation().key(ANN);
    let script = json!({"code": "server.note(text = \"x\")\nresult = \"ran\""});
    let params = json!({"name": "executeToolCode", "arguments": script});
    let stopped = endpoint.modern("tools/call", params.clone()).result().await;
    let run = &stopped["_meta"]["airlock/run"];
    let id = run["id"].as_str().expect("the run, and no question to the user");
    let again = endpoint.modern("tools/call", params);
    let again = again.member("/params/requestState", run["request_state"].clone()).response().await;
    assert_ne!(again["result"]["structuredContent"]["result"], "ran", "{again}");
    let approve = gateway.request(Method::POST, &format!("/v1/runs/{id}/approve"));
    let approve = approve.header("x-bf-vk", ANN).json(&json!({"calls": ["1"]}));
    let refused = Reply::fetch(approve).await;
    assert_eq!((refused.status, refused.code()), (403, "operator_required"), "{}", refused.text);
    let call = json!({
        "function": {"name": "executeToolCode", "arguments": script.to_string()},
        "request_state": run["request_state"],
    });
    let execute = gateway.request(Method::POST, "/v1/mcp/tool/execute").header("x-bf-vk", ANN);
    let refused = Reply::fetch(execute.json(&call)).await;
    assert_eq!((refused.status, refused.code()), (403, "operator_required"), "{}", refused.text);
    assert_eq!(fs::read_to_string(&notes).unwrap_or_default(), "");
}
