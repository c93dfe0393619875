//! Approvals of the calls of scripts in the audit log: who has given each, and for what.

use std::path::Path;

use airlock_tests::{Airlock, Reply, Setup, commitment, mcp::Endpoint, misbehaving};
use reqwest::Method;
use serde_json::{Value, json};

use super::{audited_with, events};

const EXECUTE: &str = "executeToolCode";
const SCRIPT: &str = "result = server.note(text = \"a\")";
/// Setting of approvals of a script's calls.
const APPROVAL: &str = "/mcp/tool_manager_config/code_mode_approval";

/// Returns the configuration of a gateway with an audit log and a server whose tool `note` needs an approval.
fn audited_scripts(directory: &Path) -> Setup {
    let mode = format!("notes={}", directory.join("notes").display());
    let server = misbehaving("server", [mode.as_str()]).execute(&["note"]).auto(&[]).code_mode();
    audited_with(directory, server)
}

fn audited_manifests(directory: &Path) -> Setup {
    audited_scripts(directory).set(APPROVAL, "manifest")
}

/// Returns the approvals and denials of an audit log that are about calls of scripts.
fn decisions(directory: &Path) -> Vec<Value> {
    let kinds = ["approval_granted", "approval_denied"];
    let events = events(&directory.join("audit")).into_iter();
    events
        .filter(|event| event["run"].is_string())
        .filter(|event| kinds.contains(&event["kind"].as_str().unwrap_or_default()))
        .collect()
}

/// Returns the parameters of a call of the script.
fn params() -> Value {
    json!({"name": EXECUTE, "arguments": {"code": SCRIPT}})
}

#[tokio::test]
async fn the_user_of_a_client_and_a_caller_that_sends_the_state_back_are_recorded() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = audited_scripts(directory.path()).serve_connected().await;
    let asking = Endpoint::new(&gateway).with_elicitation();
    for action in ["decline", "cancel", "accept"] {
        let question = asking.modern("tools/call", params()).result().await;
        assert_eq!(question["resultType"], "input_required", "{question}");
        let answer = json!({"approval": {"action": action, "content": {}}});
        let answered = asking
            .modern("tools/call", params())
            .member("/params/requestState", question["requestState"].clone())
            .member("/params/inputResponses", answer);
        let _ = answered.reply().await;
    }
    let endpoint = Endpoint::new(&gateway);
    let stopped = endpoint.modern("tools/call", params()).result().await;
    let state = stopped["_meta"]["airlock/run"]["request_state"].clone();
    let again = endpoint.modern("tools/call", params()).member("/params/requestState", state);
    let _ = again.reply().await;
    let arguments = json!({"code": SCRIPT});
    let stopped = gateway.execute(EXECUTE, &arguments).await.ok();
    let call = json!({
        "function": {"name": EXECUTE, "arguments": arguments.to_string()},
        "request_state": stopped["airlock"]["run"]["request_state"],
    });
    let _ = gateway.post("/v1/mcp/tool/execute", &call).await.ok();
    gateway.terminate();
    gateway.ended().await;

    let decisions = decisions(directory.path());
    let shown = decisions.iter().map(|event| (event["kind"].as_str(), event["by"].as_str()));
    assert_eq!(
        shown.collect::<Vec<_>>(),
        [
            (Some("approval_denied"), Some("user")),
            (Some("approval_granted"), Some("user")),
            (Some("approval_granted"), Some("caller")),
            (Some("approval_granted"), Some("caller")),
        ],
        "to dismiss a question decides nothing: {decisions:#?}"
    );
    for event in &decisions {
        assert_eq!(event["actor"], "anonymous", "{event}");
        assert_eq!((&event["tool"], &event["position"]), (&json!("server-note"), &json!("1")));
        assert_eq!(event["object"], event["run"]);
        assert!(event.get("manifest").is_none(), "{event}");
    }
}

/// Returns the first `arguments` in a JSON text, unchanged.
fn first_arguments(text: &str) -> &str {
    const MEMBER: &str = "\"arguments\":";
    let from = text.find(MEMBER).expect("arguments") + MEMBER.len();
    let mut values = serde_json::Deserializer::from_str(&text[from..]).into_iter::<Value>();
    values.next().expect("a value").expect("JSON");
    &text[from..from + values.byte_offset()]
}

#[tokio::test]
async fn the_approval_of_a_manifest_has_its_digest_over_http_and_in_the_terminal() {
    let directory = tempfile::tempdir().expect("a directory");
    let gateway = audited_manifests(directory.path()).serve_connected().await;
    let stopped = gateway.execute(EXECUTE, &json!({"code": SCRIPT})).await.ok();
    let id = stopped["airlock"]["run"]["id"].as_str().expect("it waits");
    let shown = Reply::fetch(gateway.request(Method::GET, &format!("/v1/runs/{id}"))).await;
    let digest = format!("sha256:{}", commitment(&json!(""), first_arguments(&shown.text)));
    let body = json!({"calls": ["1"]});
    let run = gateway.post(&format!("/v1/runs/{id}/approve"), &body).await.ok();
    assert_eq!(run["state"], "completed", "{run:#}");
    gateway.terminate();
    gateway.ended().await;

    let setup = audited_manifests(directory.path());
    let config = setup.write();
    let file = setup.file("script.star", SCRIPT);
    let mut runs = Vec::new();
    for action in ["deny", "approve"] {
        let waits = setup.airlock("run").arg(&file).arg("--json").run().await;
        let run = waits.json()["run"].as_str().expect("a run").to_owned();
        let command = Airlock::new().arg("runs").arg(action).arg(&run);
        let _ = command.arg("--config").arg(&config).run().await;
        runs.push(run);
    }
    let decisions = decisions(directory.path());
    let [http, denied, approved] = &decisions[..] else { panic!("{decisions:#?}") };
    for event in [http, denied, approved] {
        assert_eq!((&event["tool"], &event["manifest"]), (&json!(EXECUTE), &json!(digest)));
    }
    assert_eq!((&http["actor"], &http["run"]), (&json!("anonymous"), &json!(id)));
    let kinds = [&denied["kind"], &approved["kind"]];
    assert_eq!(kinds, ["approval_denied", "approval_granted"]);
    for (event, run) in [denied, approved].into_iter().zip(&runs) {
        assert_eq!(event["actor"], "operator \"command line\"", "{event}");
        assert_eq!(event["run"], *run);
    }
}
