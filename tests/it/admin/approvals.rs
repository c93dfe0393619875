//! Decisions about calls: of what was shown, with a reason, of several calls, and by two operators.

use airlock_tests::{Airlock, Gateway, Reply, wait};
use serde_json::{Value, json};

use super::{ANN, BOB, DAN, VIEWER, get, plugin, post, setup, setup_with, text, tried, waiting};
use crate::records::events;

async fn decide(gateway: &Gateway, call: &Value, action: &str, token: &str, body: Value) -> Reply {
    post(gateway, &format!("/v1/approvals/{}/{action}", text(call, "id")), token, body).await
}

fn refusal(reply: &Reply) -> (u16, &str) {
    (reply.status, reply.code())
}

#[tokio::test]
async fn an_approval_is_for_what_was_shown() {
    let gateway = setup().serve_connected().await;
    let call = waiting(&gateway, "a").await;
    let other = waiting(&gateway, "b").await;
    assert_eq!(call["arguments"], json!({"text": "a"}).to_string());
    assert_eq!((text(&call, "definition"), &call["approvals_required"]), ("current", &json!(1)));
    assert_ne!(call["shown"], other["shown"]);
    let path = format!("/v1/approvals/{}", text(&call, "id"));
    let seen = get(&gateway, &path, DAN).await.ok();
    assert_eq!((&seen["tool"], &seen["arguments"]), (&call["tool"], &Value::Null));
    assert_eq!(seen["shown"], Value::Null, "short arguments could be guessed by it");
    for shown in [text(&other, "shown"), "", "sha256:00"] {
        let refused = decide(&gateway, &call, "approve", BOB, json!({"shown": shown})).await;
        assert_eq!(refusal(&refused), (409, "run_changed"), "{shown}");
    }
    let unseen = decide(&gateway, &call, "approve", BOB, json!({})).await;
    assert_eq!(refusal(&unseen), (400, "missing_field"));
    let unknown = decide(&gateway, &call, "approve", BOB, json!({"show": ""})).await;
    assert_eq!(refusal(&unknown), (400, "invalid_json"));
    let listed = get(&gateway, "/v1/approvals", BOB).await.ok();
    assert!(listed["data"].as_array().is_some_and(|calls| {
        calls.len() == 2 && calls.iter().all(|call| call["state"] == "pending")
    }));
    let first = get(&gateway, "/v1/approvals?limit=1", BOB).await.ok();
    let data = first["data"].as_array().map(Vec::len);
    assert_eq!((data, &first["waiting_count"]), (Some(1), &json!(2)), "all, whatever the limit");
    let decided = decide(&gateway, &call, "approve", BOB, json!({"shown": call["shown"]})).await;
    assert_eq!(decided.ok()["state"], "approved");
    let rest = get(&gateway, "/v1/approvals?limit=1", BOB).await.ok();
    assert_eq!(rest["waiting_count"], 1, "the other one is decided");
    let again = decide(&gateway, &call, "approve", ANN, json!({"shown": call["shown"]})).await;
    assert_eq!(refusal(&again), (404, "approval_not_found"));
    assert_eq!(tried(&gateway, "a").await["state"], "completed");
    let viewer = get(&gateway, "/v1/approvals", VIEWER).await;
    assert_eq!(refusal(&viewer), (403, "role_insufficient"));
}

#[tokio::test]
async fn the_reason_of_a_denial_reaches_the_caller_and_is_in_the_call_log() {
    let logged = setup().set("/store", "airlock.db").set("/records/call_log/contents", true);
    let gateway = logged.serve_connected().await;
    let call = waiting(&gateway, "a").await;
    let long = json!({"reason": "x".repeat(1_001)});
    let refused = decide(&gateway, &call, "deny", BOB, long).await;
    assert_eq!(refusal(&refused), (400, "invalid_value"));
    let wrong = decide(&gateway, &call, "approve", BOB, json!({"reason": "fine"})).await;
    assert_eq!(refusal(&wrong), (400, "invalid_value"));
    let denied = decide(&gateway, &call, "deny", BOB, json!({"reason": "not on a Friday"})).await;
    assert_eq!(denied.ok()["state"], "denied");
    let path = format!("/v1/approvals/{}", text(&call, "id"));
    let seen = get(&gateway, &path, ANN).await.ok();
    assert_eq!((text(&seen, "state"), text(&seen, "reason")), ("denied", "not on a Friday"));
    assert_eq!((text(&seen, "denied_by"), &seen["approved_by"]), ("operator \"bob\"", &json!([])));
    let failed = tried(&gateway, "a").await;
    assert_eq!(failed["error"]["code"], "airlock.declined");
    assert!(text(&failed["error"], "message").contains("not on a Friday"), "{failed}");
    let row = wait::until("the row of the denied call", async || {
        let listed = get(&gateway, "/api/mcp-logs?status=refused", ANN).await.ok();
        let rows = listed["logs"].as_array().expect("rows").clone();
        rows.into_iter().find(|row| row["error_details"]["code"] == "airlock.declined")
    })
    .await;
    let path = format!("/api/mcp-logs/{}", text(&row, "id"));
    let shown = get(&gateway, &path, ANN).await.ok();
    assert_eq!(
        (text(&shown, "tool_name"), text(&shown, "origin")),
        ("text-word_count", "operator")
    );
    assert!(text(&shown, "result").contains("not on a Friday"), "{shown}");
    let unseen = get(&gateway, &path, DAN).await.ok();
    assert_eq!((text(&unseen, "contents"), unseen.get("result")), ("hidden", None));
}

#[tokio::test]
async fn each_step_of_an_approval_is_in_the_audit_log_and_both_logs_name_who_has_approved_a_call() {
    // The gateway's own directory is removed with it.
    let log = tempfile::tempdir().expect("a directory");
    let audited = setup().set("/store", "airlock.db").set("/records/audit/enabled", true);
    let audited = audited.set("/records/audit/dir", log.path().display().to_string());
    let gateway = audited.serve_connected().await;
    let call = waiting(&gateway, "a").await;
    let _ = decide(&gateway, &call, "approve", BOB, json!({"shown": call["shown"]})).await.ok();
    assert_eq!(tried(&gateway, "a").await["state"], "completed");
    let row = wait::until("the row of the call", async || {
        let listed = get(&gateway, "/api/mcp-logs?status=success", ANN).await.ok();
        listed["logs"].as_array().expect("rows").first().cloned()
    })
    .await;
    assert_eq!((text(&row, "decision"), text(&row, "decided_by")), ("person", "operator \"bob\""));
    assert!(row["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{row}");
    let other = waiting(&gateway, "b").await;
    let denial = json!({"reason": "not on a Friday"});
    let _ = decide(&gateway, &other, "deny", BOB, denial).await.ok();
    assert_eq!(tried(&gateway, "b").await["state"], "failed");
    gateway.terminate();
    gateway.ended().await;

    let events = events(log.path());
    let steps: Vec<_> = events
        .iter()
        .filter(|event| {
            ["approval_", "call_"].iter().any(|kind| text(event, "kind").starts_with(kind))
        })
        .collect();
    let kinds: Vec<_> = steps.iter().map(|event| text(event, "kind")).collect();
    let approved =
        ["approval_asked", "approval_granted", "approval_used", "call_admitted", "call_ended"];
    let denied = ["approval_asked", "approval_denied", "approval_used", "call_refused"];
    assert_eq!(kinds, [&approved[..], &denied[..]].concat());
    assert_eq!(
        (text(steps[1], "actor"), text(steps[1], "object")),
        ("operator \"bob\"", text(&call, "id"))
    );
    for event in [steps[2], steps[3], steps[7]] {
        assert_eq!(text(event, "decided_by"), "operator \"bob\"", "{event}");
    }
    assert!(steps[4]["memory_bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{}", steps[4]);
    assert_eq!(text(steps[6], "reason"), "not on a Friday");
}

#[tokio::test]
async fn several_calls_of_one_tool_are_approved_each_by_itself() {
    let gateway = setup().serve_connected().await;
    let path = "/v1/approvals/approve";
    let first = waiting(&gateway, "a").await;
    let second = waiting(&gateway, "b").await;
    let calls = json!([
        {"id": first["id"], "shown": first["shown"]},
        {"id": second["id"], "shown": first["shown"]},
        {"id": "call_none", "shown": ""},
    ]);
    let decided = post(&gateway, path, BOB, json!({"calls": calls})).await.ok();
    assert_eq!(decided["data"][0]["state"], "approved", "{decided}");
    assert_eq!(decided["data"][1]["error"]["code"], "run_changed");
    assert_eq!(decided["data"][2]["error"]["code"], "approval_not_found");
    assert_eq!(tried(&gateway, "a").await["state"], "completed");
    assert_eq!(tried(&gateway, "b").await["state"], "waiting");
    let other = json!({"tool": "text-regex_find", "arguments": {"text": "a", "pattern": "a"}});
    let other = post(&gateway, "/api/mcp/try", ANN, other).await.ok();
    let calls = json!([
        {"id": second["id"], "shown": second["shown"]},
        {"id": other["approval"], "shown": ""},
    ]);
    let refused = post(&gateway, path, BOB, json!({"calls": calls})).await;
    assert_eq!(refusal(&refused), (400, "several_tools"), "{other}");
    let unseen = json!({"calls": [{"id": second["id"]}]});
    assert_eq!(refusal(&post(&gateway, path, BOB, unseen).await), (400, "invalid_json"));
    for calls in [json!([]), vec![json!({"id": "x", "shown": ""}); 65].into()] {
        let refused = post(&gateway, path, BOB, json!({"calls": calls})).await;
        assert_eq!(refusal(&refused), (400, "invalid_value"));
    }
}

#[tokio::test]
async fn two_operators_approve_a_call_and_one_denies_it() {
    let twice = plugin().auto(&[]).set("/tools_to_approve_twice", json!(["word_count"]));
    let gateway = setup_with(twice).serve_connected().await;
    let call = waiting(&gateway, "a").await;
    assert_eq!((&call["approvals_required"], &call["approved_by"]), (&json!(2), &json!([])));
    let first = decide(&gateway, &call, "approve", BOB, json!({"shown": call["shown"]})).await.ok();
    assert_eq!(
        (&first["state"], &first["approved_by"]),
        (&json!("pending"), &json!(["operator \"bob\""]))
    );
    let same = decide(&gateway, &call, "approve", BOB, json!({"shown": call["shown"]})).await;
    assert_eq!(refusal(&same), (409, "second_operator_required"));
    let by_socket = Airlock::new().arg("approvals").arg("approve").arg(text(&call, "id"));
    let by_socket = by_socket.arg("--config").arg(gateway.directory().join("airlock.json"));
    let refused = by_socket.run().await.failed().to_string();
    assert!(refused.contains("that of no person"), "{refused}");
    assert_eq!(tried(&gateway, "a").await["state"], "waiting");
    let seen = waiting(&gateway, "a").await;
    assert_eq!((&seen["id"], &seen["shown"]), (&call["id"], &call["shown"]));
    assert_eq!(seen["approved_by"], json!(["operator \"bob\""]));
    let second = decide(&gateway, &call, "approve", ANN, json!({"shown": call["shown"]})).await;
    assert_eq!(second.ok()["state"], "approved");
    assert_eq!(tried(&gateway, "a").await["state"], "completed");

    let call = waiting(&gateway, "b").await;
    let _ = decide(&gateway, &call, "approve", ANN, json!({"shown": call["shown"]})).await.ok();
    let _ = decide(&gateway, &call, "deny", BOB, json!({})).await.ok();
    assert_eq!(tried(&gateway, "b").await["error"]["code"], "airlock.declined");

    let executed = gateway.execute("text-word_count", &json!({"text": "c"})).await;
    assert_eq!(refusal(&executed), (400, "needs_approval"), "the request is no approval");
}

#[tokio::test]
async fn of_two_operators_who_race_one_decides() {
    let gateway = setup().serve_connected().await;
    for round in 0..10 {
        let call = waiting(&gateway, &round.to_string()).await;
        let approving = decide(&gateway, &call, "approve", ANN, json!({"shown": call["shown"]}));
        let denying = decide(&gateway, &call, "deny", BOB, json!({}));
        let (approved, denied) = tokio::join!(approving, denying);
        let mut statuses = [approved.status, denied.status];
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 404], "{} {}", approved.text, denied.text);
        let expected = if approved.status == 200 { "completed" } else { "failed" };
        assert_eq!(tried(&gateway, &round.to_string()).await["state"], expected);
    }
}
