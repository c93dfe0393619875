//! Manifests: a person approves the calls of a script once, and the script is held to them.

use airlock_tests::{Reply, wait};
use reqwest::Method;
use serde_json::{Value, json};

use super::{EXECUTE, Recorded, calls, pending};

/// The second call has a text of the result of the first.
const SCRIPT: &str = "
a = rec.read(n = 1)
rec.add(n = 2, text = str(a))
rec.drop(n = 3)
result = 'done'";

async fn recorded() -> Recorded {
    Recorded::with(&["read"], |setup| {
        setup.set("/mcp/tool_manager_config/code_mode_approval", "manifest")
    })
    .await
}

/// Executes a script that stops. Returns its run.
async fn stopped(recorded: &Recorded, script: &str) -> Value {
    let reply = recorded.execute("", script).await;
    assert_eq!(reply["is_error"], true, "{reply:#}");
    reply["airlock"]["run"].clone()
}

fn id(run: &Value) -> &str {
    run["id"].as_str().expect("an identifier")
}

#[tokio::test]
async fn a_script_makes_all_its_calls_after_one_approval_of_its_manifest() {
    let recorded = recorded().await;
    let run = stopped(&recorded, SCRIPT).await;
    assert_eq!((pending(&run), &run["pending"][0]["tool"]), (vec!["1"], &json!(EXECUTE)));
    let lines = json!([
        "rec.add(n=2, text=any value (expected from rec.read)): at most once",
        "rec.drop(n=3): at most once",
        "rec.read(n=1): at most once, needs no approval",
    ]);
    assert_eq!(run["pending"][0]["manifest"], lines, "{run:#}");
    let shown = recorded.get("", &format!("/v1/runs/{}", id(&run))).await.ok();
    assert_eq!(shown["pending"][0]["manifest"], lines, "{shown:#}");
    assert_eq!(recorded.received(), [], "nothing runs before the approval");
    let ended = recorded.decide(id(&run), "approve", json!(["1"])).await;
    assert_eq!((&ended["state"], &ended["result"]), (&json!("completed"), &json!("done")));
    assert_eq!(recorded.received(), calls([("read", 1), ("add", 2), ("drop", 3)]));
    assert_eq!(recorded.replay(id(&run)).await["identical"], true);
}

#[tokio::test]
async fn a_denied_manifest_ends_the_run_without_a_call() {
    let recorded = recorded().await;
    let run = stopped(&recorded, SCRIPT).await;
    let ended = recorded.decide(id(&run), "deny", json!(["1"])).await;
    assert_eq!(ended["state"], "failed", "{ended:#}");
    let code = ended["error"]["code"].as_str().expect("a code");
    assert!(code.contains("approval_denied"), "{ended:#}");
    assert_eq!(recorded.received(), []);
    assert_eq!(recorded.replay(id(&run)).await["identical"], true);
}

#[tokio::test]
async fn a_call_outside_of_the_manifest_waits_for_an_approval_of_its_own() {
    let recorded = recorded().await;
    // With the described answers of the plan, it makes other calls.
    let script = "
a = rec.read(n = 1)
if 'undescribed' in str(a):
    rec.add(n = 2)
else:
    rec.read(n = 9)
    rec.add(n = 8)
rec.add(n = 2)
rec.add(n = 2)
result = 'done'";
    let run = stopped(&recorded, script).await;
    let lines = &run["pending"][0]["manifest"];
    assert_eq!(lines[0], "rec.add(n=2): at most 3 times", "{run:#}");
    let run = recorded.decide(id(&run), "approve", json!(["1"])).await;
    assert_eq!((&run["state"], pending(&run)), (&json!("suspended"), vec!["3"]), "{run:#}");
    assert_eq!(run["pending"][0]["tool"], "rec-read", "also if it needs no approval otherwise");
    let run = recorded.decide(id(&run), "approve", json!(["3"])).await;
    assert_eq!((pending(&run), &run["pending"][0]["arguments"]), (vec!["4"], &json!({"n": 8})));
    assert_eq!(recorded.written(), []);
    let run = recorded.decide(id(&run), "approve", json!(["4"])).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(recorded.written(), calls([("add", 8), ("add", 2), ("add", 2)]));
    assert_eq!(recorded.replay(id(&run)).await["identical"], true);
}

#[tokio::test]
async fn a_call_in_which_a_constant_part_of_an_argument_differs_waits() {
    let recorded = recorded().await;
    let script = "
a = rec.read(n = 1)
rec.add(n = 2, mail = {'to': 'ann', 'body': str(a)})
rec.add(n = 3, mail = {'to': 'ann' if 'undescribed' in str(a) else 'eve', 'body': str(a)})
result = 'done'";
    let run = stopped(&recorded, script).await;
    let lines = [2, 3].map(|n| {
        format!(
            r#"rec.add(n={n}, mail={{"body":any value,"to":"ann"}} (expected from rec.read)): at most once"#
        )
    });
    let shown = run["pending"][0]["manifest"].as_array().expect("lines");
    assert_eq!(shown[..2], lines.map(Value::from), "{run:#}");
    let run = recorded.decide(id(&run), "approve", json!(["1"])).await;
    assert_eq!((pending(&run), recorded.written()), (vec!["4"], calls([("add", 2)])), "{run:#}");
    assert_eq!(run["pending"][0]["arguments"]["mail"]["to"], "eve", "{run:#}");
    let run = recorded.decide(id(&run), "approve", json!(["4"])).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(recorded.replay(id(&run)).await["identical"], true);
}

#[tokio::test]
async fn a_call_that_is_made_more_often_than_the_manifest_has_it_waits() {
    let recorded = recorded().await;
    let script = "
a = rec.read(n = 1)
for i in range(1 if 'undescribed' in str(a) else 2):
    rec.add(n = 2)
result = 'done'";
    let run = stopped(&recorded, script).await;
    let run = recorded.decide(id(&run), "approve", json!(["1"])).await;
    assert_eq!((pending(&run), recorded.written()), (vec!["4"], calls([("add", 2)])), "{run:#}");
    let run = recorded.decide(id(&run), "deny", json!(["4"])).await;
    assert_eq!((&run["state"], recorded.written()), (&json!("failed"), calls([("add", 2)])));
}

#[tokio::test]
async fn a_script_whose_calls_are_not_bounded_stops_at_each_call() {
    let recorded = recorded().await;
    // The texts of the two rehearsals differ in their numbers.
    let script = "
a = rec.read(n = 1)
if '-1 ' in str(a):
    rec.add(n = 2)
rec.drop(n = 3)";
    let run = stopped(&recorded, script).await;
    assert_eq!((pending(&run), &run["pending"][0]["tool"]), (vec!["2"], &json!("rec-drop")));
    assert_eq!(run["pending"][0]["manifest"], Value::Null);
    // The plan ends where the script needs a part of a result that nothing describes.
    let run = stopped(&recorded, "rec.add(n = rec.read(n = 4)['n'])").await;
    assert_eq!((pending(&run), &run["pending"][0]["arguments"]), (vec!["2"], &json!({"n": 4})));
}

#[tokio::test]
async fn a_gateway_that_is_killed_holds_the_run_to_the_same_manifest_afterwards() {
    let recorded = recorded().await;
    let run = stopped(&recorded, SCRIPT).await;
    let recorded = Recorded::serve(recorded.gateway.kill().await).await;
    recorded.order("kill 2");
    let path = format!("/v1/runs/{}/approve", id(&run));
    let request = recorded.gateway.request(Method::POST, &path).json(&json!({"calls": ["1"]}));
    assert!(request.send().await.is_err(), "the gateway was not killed");
    let recorded = Recorded::serve(recorded.gateway.killed().await).await;
    let path = format!("/v1/runs/{}/resume", id(&run));
    let run = wait::until("the lease to expire", async || {
        let reply: Reply = recorded.post("", &path, &json!({})).await;
        (reply.body["error"]["code"] != "run_running").then(|| reply.ok())
    })
    .await;
    assert_eq!(run["in_doubt"][0]["position"], "3", "{run:#}");
    let run = recorded.resolve(&run, "3", "retry").await;
    assert_eq!(run["state"], "completed", "the last call needs no further approval: {run:#}");
    assert_eq!(recorded.received(), calls([("read", 1), ("add", 2), ("add", 2), ("drop", 3)]));
}
