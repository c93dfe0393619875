//! Decisions about the calls of a run, and what stands in the way of resuming it.

use airlock_tests::{Client, guests, wait};
use reqwest::Method;
use serde_json::{Value, json};

use super::{LEASE, Recorded, calls, pending};

impl Recorded {
    /// Approves a call in a request that sees the tools of these clients alone.
    async fn approve_with(&self, clients: &str, run: &str) -> airlock_tests::Reply {
        let request = self.gateway.request(Method::POST, &format!("/v1/runs/{run}/approve"));
        let request = request.header("x-bf-mcp-include-clients", clients);
        airlock_tests::Reply::fetch(request.json(&json!({"calls": ["1"]}))).await
    }

    async fn run(&self, id: &str) -> Value {
        self.get("", &format!("/v1/runs/{id}")).await.ok()
    }

    /// Executes a script that stops, and returns the identifier of its run.
    async fn stopped(&self, script: &str) -> String {
        let reply = self.execute("", script).await;
        reply["airlock"]["run"]["id"].as_str().expect("it has stopped").to_owned()
    }
}

/// Returns the states of a run's calls.
fn states(run: &Value) -> Vec<&str> {
    let calls = run["calls"].as_array().expect("a list");
    calls.iter().map(|call| call["state"].as_str().expect("a state")).collect()
}

#[tokio::test]
async fn a_decision_of_a_request_that_cannot_resume_the_run_is_not_stored() {
    let recorded = Recorded::start().await;
    let id = recorded.stopped("rec.drop(n = 1)").await;
    let refused = recorded.approve_with("none", &id).await;
    assert_eq!((refused.status, refused.code()), (409, "run_refused"), "{}", refused.text);
    assert_eq!(states(&recorded.run(&id).await), ["pending"]);
    let run = recorded.decide(&id, "approve", json!(["1"])).await;
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(recorded.written(), calls([("drop", 1)]));
}

#[tokio::test]
async fn a_run_waits_for_the_tool_of_an_approved_call() {
    let recorded = Recorded::with(&["read"], |setup| {
        setup.client(Client::wasm("noop", guests::NOOP).auto(&["*"]).code_mode())
    })
    .await;
    let id = recorded.stopped("rec.drop(n = 1)\nresult = 'done'").await;
    // The request sees code mode, and not the tool of the call.
    let postponed = recorded.approve_with("noop", &id).await;
    assert_eq!((postponed.status, postponed.code()), (503, "tool_absent"), "{}", postponed.text);
    let run = recorded.run(&id).await;
    assert_eq!((&run["state"], states(&run)), (&json!("suspended"), vec!["approved"]), "{run:#}");
    let run = recorded.post("", &format!("/v1/runs/{id}/resume"), &json!({})).await.ok();
    assert_eq!((&run["state"], &run["result"]), (&json!("completed"), &json!("done")), "{run:#}");
    assert_eq!(recorded.written(), calls([("drop", 1)]));
}

#[tokio::test]
async fn an_approval_that_was_not_used_can_be_given_again_and_taken_back() {
    let recorded = Recorded::start().await;
    let script = "result = gather([(rec.drop, {'n': n}) for n in range(3)], attempt = True)[0].ok";
    let id = recorded.stopped(script).await;
    let run = recorded.decide(&id, "approve", json!(["1.1", "1.2"])).await;
    assert_eq!(pending(&run), ["1.3"]);
    let run = recorded.decide(&id, "approve", json!(["1.2"])).await;
    assert_eq!(states(&run), ["approved", "approved", "pending"]);
    let run = recorded.decide(&id, "deny", json!(["1.1"])).await;
    assert_eq!(states(&run), ["denied", "approved", "pending"]);
    let again = json!({"calls": ["1.1"]});
    let refused = recorded.post("", &format!("/v1/runs/{id}/approve"), &again).await;
    assert_eq!((refused.status, refused.code()), (409, "run_refused"), "a denial stays");
    let run = recorded.decide(&id, "approve", json!(["1.3"])).await;
    assert_eq!((&run["state"], &run["result"]), (&json!("completed"), &json!(false)), "{run:#}");
    let mut written = recorded.written();
    written.sort_unstable();
    assert_eq!(written, calls([("drop", 1), ("drop", 2)]));
}

#[tokio::test]
async fn a_run_is_finished_although_its_approver_has_disconnected() {
    let recorded = Recorded::with(&["read", "add"], |setup| setup.set(LEASE, "1m")).await;
    let id = recorded.stopped("rec.drop(n = 1)\nrec.add(n = 2)\nresult = 'done'").await;
    recorded.order("wait 1");
    let approving = recorded.decide(&id, "approve", json!(["1"]));
    tokio::select! {
        run = approving => panic!("the call has no answer yet: {run:#}"),
        () = wait::until("the call to be made", async || {
            (recorded.written() == calls([("drop", 1)])).then_some(())
        }) => {}
    }
    recorded.order("go on");
    let run = wait::until("the run to end", async || {
        let run = recorded.run(&id).await;
        (run["state"] != "running").then_some(run)
    })
    .await;
    assert_eq!((&run["state"], &run["result"]), (&json!("completed"), &json!("done")), "{run:#}");
    assert_eq!(recorded.written(), calls([("drop", 1), ("add", 2)]));
}

#[tokio::test]
async fn a_call_is_made_again_only_as_it_was_shown() {
    let recorded = Recorded::start().await;
    let id = recorded.stopped("rec.drop(n = 1)").await;
    for action in ["retry", "approve"] {
        let body = json!({"calls": [{"position": "1", "action": action}]});
        let refused = recorded.post("", &format!("/v1/runs/{id}/resolve"), &body).await;
        assert_eq!((refused.status, refused.code()), (400, "missing_request_state"), "{action}");
    }
    assert_eq!(states(&recorded.run(&id).await), ["pending"]);
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_whose_arguments_do_not_fit() {
    let recorded = Recorded::start().await;
    for arguments in ["{'texd': 'a'}", "{'text': 7}", "{}", "{'text': 'a', 'txt': 'b'}"] {
        let script =
            format!("e = attempt(rec.put, {arguments}).error\nresult = [e.kind, e.message]");
        let reply = recorded.execute("", &script).await;
        if arguments.contains("txt") {
            // The schema does not exclude other names, and nothing is missing.
            assert_eq!(pending(&reply["airlock"]["run"]), ["1"], "{reply:#}");
            continue;
        }
        let text = reply["content"].as_str().expect("text");
        assert!(text.contains("invalid-input") && text.contains("Parameters: text"), "{text}");
    }
    assert_eq!(recorded.received(), []);
}
