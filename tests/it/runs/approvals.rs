//! Approvals of the calls of a script: who may give them, for what, and how often.

use std::time::Duration;

use airlock_tests::{Reply, mcp::Endpoint, wait};
use reqwest::Method;
use serde_json::{Value, json};

use super::{ANN, BOB, LEASE, Recorded, calls, pending};

const SCRIPT: &str = "
print('begin')
a = rec.read(n = 1)
b = rec.add(n = 2)
c = gather([(rec.read, {'n': 3}), (rec.add, {'n': 4}), (rec.drop, {'n': 5})])
result = [x['n'] for x in [a, b] + c]";

#[tokio::test]
async fn a_script_stops_at_each_call_that_needs_an_approval_and_goes_on_with_it() {
    let recorded = Recorded::start().await;
    let reply = recorded.execute("", SCRIPT).await;
    let run = &reply["airlock"]["run"];
    assert_eq!((&reply["is_error"], pending(run)), (&json!(true), vec!["2"]), "{reply:#}");
    assert_eq!(run["completed"][0]["tool"], "rec-read");
    assert_eq!(run["pending"][0]["arguments"], json!({"n": 2}));
    let id = run["id"].as_str().expect("an id");
    assert_eq!(recorded.written(), []);
    let run = recorded.decide(id, "approve", json!(["2"])).await;
    assert_eq!((&run["state"], pending(&run)), (&json!("suspended"), vec!["3.2", "3.3"]));
    assert_eq!(recorded.written(), calls([("add", 2)]), "none of the block has run");
    let run = recorded.decide(id, "approve", json!(["3.3", "3.2"])).await;
    assert_eq!((&run["state"], &run["result"]), (&json!("completed"), &json!([1, 2, 3, 4, 5])));
    assert_eq!(run["output"], "begin");
    assert!(run["content"].as_str().expect("text").contains("Execution completed successfully"));
    let mut written = recorded.written();
    written.sort();
    assert_eq!(written, calls([("add", 2), ("add", 4), ("drop", 5)]));
    assert_eq!(recorded.received().len(), 5, "no read was repeated");
    let again =
        recorded.post("", &format!("/v1/runs/{id}/approve"), &json!({"calls": ["2"]})).await;
    assert_eq!((again.status, again.code()), (409, "run_ended"));
    wait::until("the log to have each decision", async || {
        let said = recorded.gateway.said();
        (said.matches("a call of a script was decided about").count() == 3).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_script_that_is_executed_again_with_its_state_goes_on_with_what_was_shown() {
    let recorded = Recorded::start().await;
    let first = recorded.execute("", SCRIPT).await;
    assert_eq!(pending(&first["airlock"]["run"]), ["2"]);
    // Another run of the same script, which this caller has not been shown.
    let other = recorded.execute("", SCRIPT).await;
    let second = recorded.execute_again("", SCRIPT, &first).await.ok();
    assert_eq!(second["airlock"]["run"]["id"], first["airlock"]["run"]["id"]);
    assert_eq!(pending(&second["airlock"]["run"]), ["3.2", "3.3"]);
    assert_eq!(recorded.written(), calls([("add", 2)]));
    // What was shown before the run went on is worth nothing now, nor with another script or key.
    for (key, script, shown) in
        [("", SCRIPT, &first), ("", "rec.drop(n = 1)", &second), (ANN, SCRIPT, &second)]
    {
        let refused = recorded.execute_again(key, script, shown).await;
        assert_eq!((refused.status, refused.code()), (400, "not_waiting"), "{}", refused.text);
    }
    let last = recorded.execute_again("", SCRIPT, &second).await.ok();
    let content = last["content"].as_str().expect("text");
    assert!(content.contains("Execution completed successfully"), "{last:#}");
    assert_eq!(recorded.written().len(), 3);
    // Without the state, the script starts again and stops at its first call.
    let again = recorded.execute("", SCRIPT).await;
    assert_eq!(pending(&again["airlock"]["run"]), ["2"]);
    let path = format!("/v1/runs/{}", other["airlock"]["run"]["id"].as_str().expect("an id"));
    assert_eq!(recorded.get("", &path).await.ok()["state"], "suspended", "it still waits");
}

#[tokio::test]
async fn an_approval_covers_one_call_of_one_script_of_one_key_once() {
    let recorded = Recorded::start().await;
    let reply = recorded.execute(ANN, "rec.add(n = 1)\nrec.add(n = 1)").await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id").to_owned();
    let path = |action: &str| format!("/v1/runs/{id}/{action}");
    for key in [BOB, ""] {
        let other = recorded.get(key, &format!("/v1/runs/{id}")).await;
        assert_eq!((other.status, other.code()), (404, "run_not_found"));
        for action in ["approve", "deny", "resume", "cancel"] {
            let other = recorded.post(key, &path(action), &json!({"calls": ["1"]})).await;
            assert_eq!((other.status, other.code()), (404, "run_not_found"), "{action}");
        }
        let listed = recorded.get(key, "/v1/runs").await.ok();
        assert_eq!(listed["data"], json!([]));
        // The same script of another key is a run of its own.
        let other = recorded.execute(key, "rec.add(n = 1)\nrec.add(n = 1)").await;
        assert_eq!(pending(&other["airlock"]["run"]), ["1"]);
    }
    for (calls, status, code) in [
        (json!(["2"]), 404, "call_not_found"),
        (json!(["1.1"]), 404, "call_not_found"),
        (json!(["01"]), 400, "invalid_position"),
        (json!([]), 400, "missing_calls"),
        (json!("1"), 400, "invalid_json"),
    ] {
        let refused = recorded.post(ANN, &path("approve"), &json!({"calls": calls})).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{calls}");
    }
    assert_eq!(recorded.written(), []);
    // The second call is the same as the first, and needs an approval of its own.
    let run = recorded.post(ANN, &path("approve"), &json!({"calls": ["1"]})).await.ok();
    assert_eq!((pending(&run), recorded.written()), (vec!["2"], calls([("add", 1)])));
    let again = recorded.post(ANN, &path("approve"), &json!({"calls": ["1"]})).await;
    assert_eq!((again.status, again.code()), (409, "run_refused"), "{}", again.text);
    assert_eq!(recorded.written(), calls([("add", 1)]));
}

#[tokio::test]
async fn a_decision_with_the_state_of_a_run_covers_only_calls_that_were_shown() {
    let recorded = Recorded::start().await;
    let reply = recorded.execute("", SCRIPT).await;
    let shown = reply["airlock"]["run"].clone();
    let id = shown["id"].as_str().expect("an id");
    let decide = async |state: &Value, calls: &[&str]| {
        let body = json!({"calls": calls, "request_state": state});
        recorded.post("", &format!("/v1/runs/{id}/approve"), &body).await
    };
    let run = recorded.get("", &format!("/v1/runs/{id}")).await.ok();
    assert_eq!(run["request_state"], shown["request_state"]);
    for state in ["", "1", "run_1.1", id, &format!("{id}.x")] {
        let refused = decide(&json!(state), &["2"]).await;
        assert_eq!((refused.status, refused.code()), (400, "invalid_request_state"), "{state}");
    }
    let run = decide(&shown["request_state"], &["2"]).await.ok();
    assert_eq!(pending(&run), ["3.2", "3.3"]);
    // Nor does a state that was guessed before the calls were shown.
    for state in [shown["request_state"].clone(), json!(format!("{id}.2"))] {
        let stale = decide(&state, &["3.2", "3.3"]).await;
        assert_eq!((stale.status, stale.code()), (409, "run_changed"), "{}", stale.text);
    }
    assert_eq!(recorded.written(), calls([("add", 2)]));
    let run = decide(&run["request_state"], &["3.2", "3.3"]).await.ok();
    assert_eq!(run["state"], "completed", "{run:#}");
}

#[tokio::test]
async fn an_approval_that_has_expired_is_asked_for_again() {
    let recorded = Recorded::with(&[], |setup| {
        setup.set("/mcp/tool_manager_config/code_mode_approval_expire_after", "4s")
    })
    .await;
    // Two calls wait; one is approved, and the other only after that approval has expired.
    let script = "result = [x['n'] for x in gather([(rec.add, {'n': 1}), (rec.add, {'n': 2})])]";
    let reply = recorded.execute("", script).await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id");
    let run = recorded.decide(id, "approve", json!(["1.1"])).await;
    assert_eq!((pending(&run), recorded.written().len()), (vec!["1.2"], 0));
    let expires = run["calls"][0]["approval_expires_at_ms"].as_u64().expect("a time");
    wait::until("the approval to expire", async || {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        (now > Duration::from_millis(expires)).then_some(())
    })
    .await;
    let run = recorded.decide(id, "approve", json!(["1.2"])).await;
    assert_eq!((pending(&run), recorded.written().len()), (vec!["1.1"], 0), "{run:#}");
    let run = recorded.decide(id, "approve", json!(["1.1"])).await;
    assert_eq!(run["result"], json!([1, 2]), "{run:#}");
    assert_eq!(recorded.written().len(), 2);
}

#[tokio::test]
async fn a_denied_call_is_an_error_that_the_script_can_handle() {
    let recorded = Recorded::start().await;
    let script = "
done = attempt(rec.drop, {'n': 1})
result = [done.ok, str(done.error)]
print(rec.read(n = 2))";
    let reply = recorded.execute("", script).await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id");
    let body = json!({"calls": ["1"], "reason": "not\ntoday"});
    let approved = recorded.post("", &format!("/v1/runs/{id}/approve"), &body).await;
    assert_eq!((approved.status, approved.code()), (400, "invalid_value"));
    let run = recorded.post("", &format!("/v1/runs/{id}/deny"), &body).await.ok();
    assert_eq!(run["state"], "completed", "{run:#}");
    assert_eq!(run["result"][0], false);
    let message = run["result"][1].as_str().expect("text");
    assert!(message.contains("a person has denied this call"), "{message}");
    assert!(message.contains("not⟨U+000A⟩today"), "{message}");
    assert_eq!(run["calls"][0]["error"]["code"], "airlock.approval_denied", "{run:#}");
    assert_eq!(recorded.written(), []);
    // Without `attempt`, the denial ends the script.
    let reply = recorded.execute("", "rec.drop(n = 1)").await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id");
    let run = recorded.decide(id, "deny", json!(["1"])).await;
    assert_eq!((&run["state"], &run["error"]["code"]), (&json!("failed"), &json!("script_tool")));
}

#[tokio::test]
async fn a_cancelled_run_ends_and_its_calls_with_it() {
    // Cancelling is noticed when the lease is renewed, if not before.
    let recorded = Recorded::with(&["read", "add"], |setup| setup.set(LEASE, "6s")).await;
    let reply = recorded.execute("", "rec.drop(n = 1)").await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id");
    let run = recorded.post("", &format!("/v1/runs/{id}/cancel"), &json!({})).await.ok();
    assert_eq!(run["state"], "cancelled");
    let again =
        recorded.post("", &format!("/v1/runs/{id}/approve"), &json!({"calls": ["1"]})).await;
    assert_eq!((again.status, again.code()), (409, "run_ended"));
    // A run whose script waits for a call.
    recorded.order("hold 3");
    let script = "rec.add(n = 2)\nrec.add(n = 3)\nresult = 1";
    let (reply, ()) = tokio::join!(recorded.execute_reply(script), async {
        let id = wait::until("the run to wait for the call", async || {
            let runs = recorded.get("", "/v1/runs").await.ok();
            let is_waiting = recorded.written().contains(&("add".to_owned(), 3));
            let running = runs["data"].as_array()?.iter().find(|run| run["state"] == "running")?;
            is_waiting.then(|| running["id"].as_str().expect("an id").to_owned())
        })
        .await;
        let cancelled = recorded.post("", &format!("/v1/runs/{id}/cancel"), &json!({})).await.ok();
        assert_eq!(cancelled["cancel_requested"], true, "{cancelled}");
    });
    assert_eq!((reply.status, reply.code()), (400, "cancelled"), "{}", reply.text);
    let listed = recorded.get("", "/v1/runs").await.ok();
    assert_eq!(listed["data"][0]["state"], "cancelled", "{listed:#}");
}

impl Recorded {
    async fn execute_reply(&self, script: &str) -> airlock_tests::Reply {
        let arguments = json!({"code": script}).to_string();
        let call = json!({"function": {"name": super::EXECUTE, "arguments": arguments}});
        self.post("", "/v1/mcp/tool/execute", &call).await
    }
}

#[tokio::test]
async fn a_chat_ends_with_the_run_and_the_holder_of_its_key_goes_on_with_it() {
    let turns = json!({"turns": [
        {"when": {"role": "user"}, "answer": {"tool_calls": [{"name": super::EXECUTE, "arguments": {"code": SCRIPT}}]}},
    ]});
    let recorded = Recorded::with(&["read"], |setup| setup.scripted("local", &turns)).await;
    let body = json!({"model": "local/model", "messages": [{"role": "user", "content": "go"}]});
    let answer = recorded.post(ANN, "/v1/chat/completions", &body).await.ok();
    let airlock = &answer["airlock"];
    assert_eq!(airlock["pending"][0]["reason"], "needs_approval", "{answer:#}");
    assert_eq!(airlock["pending"][0]["run"], airlock["run"]);
    assert_eq!(pending(&airlock["run"]), ["2"]);
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], super::EXECUTE);
    // The pending call, executed with the state of the run, approves what was shown.
    let mut call = call.clone();
    call["request_state"] = airlock["run"]["request_state"].clone();
    let reply = recorded.post(ANN, "/v1/mcp/tool/execute", &call).await.ok();
    assert_eq!(reply["airlock"]["run"]["id"], airlock["run"]["id"]);
    assert_eq!(pending(&reply["airlock"]["run"]), ["3.2", "3.3"]);
    assert_eq!(recorded.written(), calls([("add", 2)]));
}

#[tokio::test]
async fn the_user_of_an_mcp_client_is_asked_about_the_calls_of_a_script() {
    let recorded = Recorded::start().await;
    let endpoint = Endpoint::new(&recorded.gateway).with_elicitation();
    let params =
        json!({"name": super::EXECUTE, "arguments": {"code": "result = rec.add(n = 7)['n']"}});
    for (answer, written) in
        [(json!({"action": "decline"}), 0), (json!({"action": "accept", "content": {}}), 1)]
    {
        let question = endpoint.modern("tools/call", params.clone()).result().await;
        assert_eq!(question["resultType"], "input_required", "{question:#}");
        let asked = &question["inputRequests"]["approval"]["params"];
        let message = asked["message"].as_str().expect("text");
        assert!(message.contains("- rec-add\n  n: 7"), "{message}");
        let result = endpoint
            .modern("tools/call", params.clone())
            .member("/params/requestState", question["requestState"].clone())
            .member("/params/inputResponses", json!({"approval": answer}))
            .result()
            .await;
        assert_eq!(
            (recorded.written().len(), result["isError"] == true),
            (written, written == 0),
            "{result:#}"
        );
    }
}

#[tokio::test]
async fn an_answer_to_no_question_of_an_mcp_client_approves_nothing() {
    let script = "result = rec.add(n = 7)['n']";
    let params = json!({"name": super::EXECUTE, "arguments": {"code": script}});
    let accepted = json!({"approval": {"action": "accept", "content": {}}});
    for approval in ["elicit", "never"] {
        let recorded =
            Recorded::with(&["read"], |setup| setup.set("/mcp_server/approval", approval)).await;
        let shown = recorded.execute("", script).await["airlock"]["run"].clone();
        let endpoint = Endpoint::new(&recorded.gateway).with_elicitation();
        // The run of another entry, without an answer where the client cannot be asked; its id alone,
        // which no question has; and an answer that comes before the question.
        let states = [shown["request_state"].clone(), shown["id"].clone(), Value::Null];
        let early = states.into_iter().filter(|state| approval == "never" || !state.is_string());
        for state in early {
            for answer in [&Value::Null, &accepted] {
                let mut request = endpoint.modern("tools/call", params.clone());
                for (member, value) in [("requestState", &state), ("inputResponses", answer)] {
                    if !value.is_null() {
                        request = request.member(&format!("/params/{member}"), value.clone());
                    }
                }
                let reply = request.reply().await;
                assert_eq!(recorded.written(), [], "{approval}, {state}, {answer}: {}", reply.text);
            }
        }
    }
}

#[tokio::test]
async fn long_arguments_of_a_refused_call_are_not_stored() {
    let recorded = Recorded::start().await;
    for (bytes, stored) in [(4_000, json!("error")), (8_000, Value::Null)] {
        let script =
            format!("rec.add(n = 1)\nattempt(rec.read, {{'m': 'x' * {bytes}}})\nrec.add(n = 2)");
        let reply = recorded.execute("", &script).await;
        let id = reply["airlock"]["run"]["id"].as_str().expect("an id");
        // The run is resumed by a request that does not see the tool.
        let path = format!("/v1/runs/{id}/approve");
        let request = recorded.gateway.request(Method::POST, &path).json(&json!({"calls": ["1"]}));
        let run = Reply::fetch(request.header("x-bf-mcp-include-tools", "rec-add")).await.ok();
        assert_eq!(pending(&run), ["3"]);
        let calls = run["calls"].as_array().expect("a list");
        let refused = calls.iter().find(|call| call["position"] == "2");
        let found = refused.map_or(Value::Null, |call| {
            assert_eq!(call["error"]["code"], "airlock.not_found");
            json!("error")
        });
        assert_eq!(found, stored, "{bytes}");
    }
}

#[tokio::test]
async fn a_setting_approves_whole_scripts() {
    let recorded = Recorded::with(&[], |setup| {
        setup.set("/mcp/tool_manager_config/code_mode_approve_whole_scripts", true)
    })
    .await;
    let reply = recorded.execute("", SCRIPT).await;
    assert_eq!(reply["is_error"], Value::Null, "{reply:#}");
    assert_eq!(recorded.written().len(), 3);
}

#[tokio::test]
async fn without_a_journal_a_script_ends_at_a_call_that_needs_an_approval() {
    let recorded = Recorded::with(&["read"], |setup| {
        setup.set("/mcp/tool_manager_config/code_mode_journal", false)
    })
    .await;
    let reply = recorded.execute_reply("rec.read(n = 1)\nrec.add(n = 2)").await;
    assert_eq!((reply.status, reply.code()), (400, "needs_approval"), "{}", reply.text);
    let listed = recorded.get("", "/v1/runs").await;
    assert_eq!((listed.status, listed.code()), (404, "runs_not_kept"));
}
