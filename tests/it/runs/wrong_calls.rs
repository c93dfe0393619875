//! Scripts that do not run because of their calls, as stored runs.

use serde_json::json;

use super::Recorded;

#[tokio::test]
async fn a_run_that_is_refused_for_its_calls_is_stored_and_replayed() {
    let recorded = Recorded::with(&["*"], |setup| setup).await;
    let reply = recorded.execute("", "rec.add(n = 1)\nrec.nothing(n = 2)").await;
    let text = reply["content"].as_str().expect("text");
    assert!(text.contains("`rec` has no tool `nothing`"), "{text}");
    assert_eq!(recorded.received(), []);
    let listed = recorded.get("", "/v1/runs").await.ok();
    let id = listed["data"][0]["id"].as_str().expect("an id");
    let run = recorded.get("", &format!("/v1/runs/{id}")).await.ok();
    assert_eq!((&run["state"], &run["error"]["line"]), (&json!("failed"), &json!(2)), "{run:#}");
    let replayed = recorded.replay(id).await;
    assert_eq!(replayed["identical"], true, "{replayed:#}");
}
