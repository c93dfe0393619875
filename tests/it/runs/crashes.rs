//! The gateway is killed in the middle of a script, and another one goes on with the run.

use airlock_tests::wait;
use serde_json::{Value, json};

use super::{Recorded, calls};

/// Fifty calls, alone and in blocks. Their arguments are the numbers from 1 to 50.
const SCRIPT: &str = "
out = []
for b in range(0, 50, 10):
    out.append(rec.read(n = b + 1))
    out.append(rec.add(n = b + 2))
    out.extend(gather([(rec.read, {'n': b + 3}), (rec.add, {'n': b + 4}), (rec.add, {'n': b + 5})]))
    out.append(rec.read(n = b + 6))
    out.append(rec.add(n = b + 7))
    out.extend(gather([(rec.add, {'n': b + 8}), (rec.read, {'n': b + 9}), (rec.add, {'n': b + 10})]))
print(len(out))
result = [x['n'] for x in out]";

/// Kills the gateway when the server receives the call with each number, and goes on with the run.
/// Each write must reach the server once.
async fn killed_at(numbers: impl Iterator<Item = i64>) {
    for n in numbers {
        let recorded = Recorded::with(&["*"], |setup| setup).await;
        recorded.order(&format!("kill {n}"));
        // Ends without a reply.
        let body = json!({"function": {"name": super::EXECUTE, "arguments": json!({"code": SCRIPT}).to_string()}});
        let request = recorded.gateway.request(reqwest::Method::POST, "/v1/mcp/tool/execute");
        assert!(request.json(&body).send().await.is_err(), "{n}: the gateway was not killed");
        let recorded = Recorded::serve(recorded.gateway.killed().await).await;
        let run = go_on(&recorded, n).await;
        let expected: Vec<i64> = (1..=50).collect();
        assert_eq!(
            (&run["state"], &run["result"]),
            (&json!("completed"), &json!(expected)),
            "{n}: {run:#}"
        );
        let mut written: Vec<_> = recorded.written().into_iter().map(|(_, n)| n).collect();
        written.sort_unstable();
        let writes: Vec<i64> = (1..=50).filter(|n| ![1, 3, 6, 9].contains(&(n % 10))).collect();
        assert_eq!(written, writes, "{n}: each write must be made once");
        let replayed = recorded.replay(run["id"].as_str().expect("an id")).await;
        assert_eq!(replayed["identical"], true, "{n}: {replayed:#}");
    }
}

/// Goes on with the only run until it ends. A call in doubt that the server has received is skipped
/// with the answer that the server would have given; another one is made again.
async fn go_on(recorded: &Recorded, n: i64) -> Value {
    let listed = recorded.get("", "/v1/runs").await.ok();
    let Some(id) = listed["data"][0]["id"].as_str() else {
        // Nothing but reads was made, so nothing is stored and the script starts again.
        assert_eq!((n, recorded.written().len()), (1, 0), "{listed:#}");
        recorded.execute("", SCRIPT).await;
        let listed = recorded.get("", "/v1/runs").await.ok();
        let id = listed["data"][0]["id"].as_str().expect("an id");
        return recorded.get("", &format!("/v1/runs/{id}")).await.ok();
    };
    let path = format!("/v1/runs/{id}/resume");
    let mut run = wait::until("the lease to expire", async || {
        let reply = recorded.post("", &path, &json!({})).await;
        (reply.body["error"]["code"] != "run_running").then(|| reply.ok())
    })
    .await;
    while run["state"] == "suspended" {
        let received = recorded.received();
        let in_doubt = run["in_doubt"].as_array().expect("a list");
        assert!(!in_doubt.is_empty(), "{n}: {run:#}");
        let decisions = in_doubt.iter().map(|call| &call["position"]).map(|position| {
            let all = run["calls"].as_array().expect("a list");
            let call = all.iter().find(|call| call["position"] == *position).expect("the call");
            let argument = call["arguments"]["n"].as_i64().expect("n");
            let is_received = received.iter().any(|(_, n)| *n == argument);
            if is_received {
                json!({"position": position, "action": "skip", "value": {"n": argument}})
            } else {
                json!({"position": position, "action": "retry"})
            }
        });
        let calls: Value = decisions.collect();
        let body = json!({"calls": calls, "request_state": run["request_state"]});
        run = recorded.post("", &format!("/v1/runs/{id}/resolve"), &body).await.ok();
    }
    run
}

#[tokio::test]
async fn a_gateway_killed_at_a_call_up_to_10_repeats_no_write() {
    killed_at(1..=10).await;
}

#[tokio::test]
async fn a_gateway_killed_at_a_call_up_to_20_repeats_no_write() {
    killed_at(11..=20).await;
}

#[tokio::test]
async fn a_gateway_killed_at_a_call_up_to_30_repeats_no_write() {
    killed_at(21..=30).await;
}

#[tokio::test]
async fn a_gateway_killed_at_a_call_up_to_40_repeats_no_write() {
    killed_at(31..=40).await;
}

#[tokio::test]
async fn a_gateway_killed_at_a_call_up_to_50_repeats_no_write() {
    killed_at(41..=50).await;
}

#[tokio::test]
async fn a_gateway_that_is_killed_while_a_run_waits_for_an_approval_loses_nothing() {
    let script =
        "a = rec.read(n = 1)\nb = rec.add(n = 2)\nresult = [a['n'], b['n'], rec.add(n = 3)['n']]";
    let recorded = Recorded::start().await;
    let reply = recorded.execute("", script).await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id").to_owned();
    let recorded = Recorded::serve(recorded.gateway.kill().await).await;
    let run = recorded.decide(&id, "approve", json!(["2"])).await;
    assert_eq!(super::pending(&run), ["3"]);
    let recorded = Recorded::serve(recorded.gateway.kill().await).await;
    let run = recorded.decide(&id, "approve", json!(["3"])).await;
    assert_eq!((&run["state"], &run["result"]), (&json!("completed"), &json!([1, 2, 3])));
    assert_eq!(recorded.received(), calls([("read", 1), ("add", 2), ("add", 3)]));
    assert_eq!(recorded.replay(&id).await["identical"], true);
}

#[tokio::test]
async fn a_run_that_is_resumed_later_sees_the_time_at_which_it_began() {
    let script = "\
from datetime import date, datetime, timezone
before = datetime.now().isoformat()
rec.add(n = 1)
result = [before == datetime.now().isoformat(), date.today().isoformat(), datetime.now(timezone.utc).isoformat(), datetime.now(timezone.utc).timestamp()]";
    let recorded = Recorded::with(&["read"], |setup| {
        setup
            .set("/mcp/tool_manager_config/code_mode_language", "python")
            .set("/mcp/tool_manager_config/code_mode_clock", true)
    })
    .await;
    let reply = recorded.execute("", script).await;
    let id = reply["airlock"]["run"]["id"].as_str().expect("an id").to_owned();
    let setup = recorded.gateway.kill().await;
    // The run keeps its clock, whatever scripts that begin now have.
    let recorded =
        Recorded::serve(setup.set("/mcp/tool_manager_config/code_mode_clock", false)).await;
    let run = recorded.decide(&id, "approve", json!(["1"])).await;
    let created = run["created_at_ms"].as_i64().expect("a time");
    let result = run["result"].as_array().unwrap_or_else(|| panic!("{run:#}"));
    assert_eq!(result[0], true, "{run:#}");
    let now = result[2].as_str().expect("a text");
    assert!(now.starts_with(result[1].as_str().expect("a text")), "{now}");
    let seen = result[3].as_f64().expect("a number");
    #[expect(
        clippy::cast_precision_loss,
        reason = "a time of this century in milliseconds is exact"
    )]
    let apart = created as f64 / 1000.0 - seen;
    assert!((0.0..60.0).contains(&apart), "{run:#}");
    assert_eq!(recorded.replay(&id).await["identical"], true);
    let refused = recorded.execute("", script).await;
    assert!(refused["content"].as_str().expect("text").contains("a run has no clock"));
}

#[tokio::test]
async fn a_call_in_doubt_can_be_made_again_or_end_the_run() {
    for (action, state, times) in [("retry", "completed", 2), ("abort", "cancelled", 1)] {
        let recorded = Recorded::with(&["*"], |setup| setup).await;
        recorded.order("kill 2");
        let body = json!({"function": {"name": super::EXECUTE, "arguments": json!({"code": "rec.add(n = 1)\nrec.add(n = 2)"}).to_string()}});
        let request = recorded.gateway.request(reqwest::Method::POST, "/v1/mcp/tool/execute");
        assert!(request.json(&body).send().await.is_err());
        let recorded = Recorded::serve(recorded.gateway.killed().await).await;
        let listed = recorded.get("", "/v1/runs").await.ok();
        let id = listed["data"][0]["id"].as_str().expect("an id");
        let shown = recorded.get("", &format!("/v1/runs/{id}")).await.ok();
        let decisions = json!({
            "calls": [{"position": "2", "action": action}],
            "request_state": shown["request_state"],
        });
        let run = wait::until("the lease to expire", async || {
            let reply = recorded.post("", &format!("/v1/runs/{id}/resolve"), &decisions).await;
            let is_running = reply.body["error"]["code"] == "run_running"
                || reply.body["cancel_requested"] == true;
            (!is_running).then(|| reply.ok())
        })
        .await;
        assert_eq!(run["state"], state, "{run:#}");
        let written = recorded.written().into_iter().filter(|(_, n)| *n == 2).count();
        assert_eq!(written, times, "{action}");
    }
}
