//! Decisions of operators about the calls of scripts of all callers.

use airlock_tests::{OPERATOR, Reply, Setup};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ANN, Recorded, calls};

/// Token of an operator who decides about calls and sees arguments.
const APPROVER: &str = "alop_approver-of-scripts-in-the-tests-0123456789";

const SCRIPT: &str = "a = rec.read(n = 1)\nresult = rec.add(n = 2)['n']";

async fn recorded() -> Recorded {
    recorded_with(|setup| setup).await
}

async fn recorded_with(change: impl FnOnce(Setup) -> Setup) -> Recorded {
    let operators = json!([
        {"name": "tests", "role": "admin", "token": OPERATOR},
        {"name": "bob", "role": "approver", "token": APPROVER, "sees_payloads": true},
    ]);
    Recorded::with(&["read"], |setup| change(setup.set("/management/operators", operators))).await
}

async fn get(recorded: &Recorded, path: &str) -> Value {
    let request = recorded.gateway.request(Method::GET, path).bearer_auth(APPROVER);
    Reply::fetch(request).await.ok()
}

async fn decide(recorded: &Recorded, id: &str, action: &str, body: impl Into<Value>) -> Reply {
    let path = format!("/v1/approvals/{id}/{action}");
    let request = recorded.gateway.request(Method::POST, &path).bearer_auth(APPROVER);
    Reply::fetch(request.json(&body.into())).await
}

/// Returns the only call that waits, with its script.
async fn waiting(recorded: &Recorded) -> Value {
    let listed = get(recorded, "/v1/approvals").await;
    assert_eq!(listed["data"].as_array().map(Vec::len), Some(1), "{listed:#}");
    let id = listed["data"][0]["id"].as_str().expect("an identifier");
    get(recorded, &format!("/v1/approvals/{id}")).await
}

#[tokio::test]
async fn an_operator_sees_the_script_of_a_call_and_approves_what_was_shown() {
    let recorded = recorded().await;
    let reply = recorded.execute(ANN, SCRIPT).await;
    let run = reply["airlock"]["run"]["id"].as_str().expect("a run").to_owned();
    let call = waiting(&recorded).await;
    let id = format!("{run}:2");
    assert_eq!(call["id"], id);
    assert_eq!((&call["origin"], &call["key"]), (&json!("script"), &json!("key \"ann\"")));
    assert_eq!(call["arguments"], json!({"n": 2}).to_string());
    assert_eq!((&call["definition"], &call["run"]["lines"]), (&json!("current"), &json!([2])));
    assert_eq!(call["run"]["script"], SCRIPT);
    assert_eq!(
        (&call["run"]["calls"][0]["tool"], &call["run"]["calls"][0]["state"]),
        (&json!("rec-read"), &json!("answered"))
    );
    let of_others = recorded.get(ANN, &format!("/v1/approvals/{id}")).await;
    assert_eq!(of_others.status, 404, "callers have /v1/runs");

    let unseen = decide(&recorded, &id, "approve", json!({})).await;
    assert_eq!((unseen.status, unseen.code()), (400, "missing_field"));
    let refused = decide(&recorded, &id, "approve", json!({"shown": "sha256:00"})).await;
    assert_eq!((refused.status, refused.code()), (409, "run_changed"));
    let decided = decide(&recorded, &id, "approve", json!({"shown": call["shown"]})).await;
    assert_eq!(decided.ok()["state"], "approved");
    assert_eq!(recorded.written(), [], "its caller resumes it");
    let again = decide(&recorded, &id, "approve", json!({"shown": call["shown"]})).await;
    assert_eq!((again.status, again.code()), (404, "approval_not_found"));
    let ended = recorded.post(ANN, &format!("/v1/runs/{run}/resume"), &json!({})).await.ok();
    assert_eq!((&ended["state"], &ended["result"]), (&json!("completed"), &json!(2)), "{ended:#}");
    assert_eq!(recorded.written(), calls([("add", 2)]));
}

#[tokio::test]
async fn an_operator_sees_the_lines_of_a_manifest_and_approves_them_at_once() {
    let recorded =
        recorded_with(|setup| setup.set("/mcp/tool_manager_config/code_mode_approval", "manifest"))
            .await;
    let reply = recorded.execute(ANN, "rec.read(n = 1)\nrec.add(n = 2)\nrec.add(n = 3)").await;
    let run = reply["airlock"]["run"]["id"].as_str().expect("a run").to_owned();
    let call = waiting(&recorded).await;
    let id = format!("{run}:1");
    assert_eq!((&call["id"], &call["definition"]), (&json!(id), &json!("current")), "{call:#}");
    let lines = json!([
        "rec.add(n=2): at most once",
        "rec.add(n=3): at most once",
        "rec.read(n=1): at most once, needs no approval",
    ]);
    assert_eq!(call["manifest"], lines);
    let once = json!({"id": id, "shown": call["shown"]});
    let request = recorded.gateway.request(Method::POST, "/v1/approvals/approve");
    let several = request.bearer_auth(APPROVER).json(&json!({"calls": [once, once]}));
    let refused = Reply::fetch(several).await;
    assert_eq!((refused.status, refused.code()), (400, "several_tools"), "it has several tools");
    let decided = decide(&recorded, &id, "approve", json!({"shown": call["shown"]})).await;
    assert_eq!(decided.ok()["state"], "approved");
    let ended = recorded.post(ANN, &format!("/v1/runs/{run}/resume"), &json!({})).await.ok();
    assert_eq!(ended["state"], "completed", "{ended:#}");
    assert_eq!(recorded.written(), calls([("add", 2), ("add", 3)]));
}

#[tokio::test]
async fn a_call_that_waits_again_is_not_the_one_that_was_shown() {
    let recorded = recorded().await;
    let script = "rec.add(n = 1)\nrec.add(n = 2)";
    let _ = recorded.execute("", script).await;
    let call = waiting(&recorded).await;
    let run = call["run"]["id"].as_str().expect("a run").to_owned();
    let _ = recorded.decide(&run, "approve", json!(["1"])).await;
    let next = waiting(&recorded).await;
    assert_eq!((&next["id"], &next["key"]), (&json!(format!("{run}:2")), &json!("anonymous")));
    let stale = json!({"shown": call["shown"]});
    let refused = decide(&recorded, &format!("{run}:2"), "approve", stale).await;
    assert_eq!((refused.status, refused.code()), (409, "run_changed"));
    let denied =
        decide(&recorded, &format!("{run}:2"), "deny", json!({"reason": "too late"})).await;
    assert_eq!(denied.ok()["state"], "denied");
    let ended = recorded.post("", &format!("/v1/runs/{run}/resume"), &json!({})).await.ok();
    let error = ended["error"]["message"].as_str().expect("the script does not handle it");
    assert!(error.contains("too late"), "{ended:#}");
    let read = ended["content"].as_str().expect("text for the model");
    assert!(read.contains("too late"), "{read}");
    assert_eq!(recorded.replay(&run).await["identical"], true, "a replay has the same reason");
}

#[tokio::test]
async fn operators_see_the_runs_of_all_callers() {
    let recorded = recorded().await;
    let _ = recorded.execute(ANN, SCRIPT).await;
    let _ = recorded.execute("", "result = 1").await;
    let listed = get(&recorded, "/api/runs").await;
    let keys: Vec<_> =
        listed["data"].as_array().expect("a list").iter().map(|run| &run["key"]).collect();
    assert_eq!(keys, [&json!("anonymous"), &json!("key \"ann\"")]);
    assert_eq!((&listed["total_count"], &listed["has_more"]), (&json!(2), &json!(false)));
    let waiting = get(&recorded, "/api/runs?state=suspended").await;
    let id = waiting["data"][0]["id"].as_str().expect("a run");
    assert_eq!(waiting["data"].as_array().map(Vec::len), Some(1));
    let run = get(&recorded, &format!("/api/runs/{id}")).await;
    assert_eq!((&run["script"], &run["pending"][0]["position"]), (&json!(SCRIPT), &json!("2")));
    let request = recorded.gateway.request(Method::GET, "/api/runs");
    assert_eq!(Reply::fetch(request.bearer_auth("alop_none")).await.code(), "operator_unknown");
}
