//! Messages of a call before its response: progress, and partial results.

use airlock_tests::{Client, Setup, mcp::Endpoint, wait, wat::Text};
use serde_json::{Value, json};

use super::{STEPS, is_done, plain, text, upstream::Upstream};

#[tokio::test]
async fn a_client_that_accepts_one_form_of_response_gets_it() {
    let setup = Setup::new();
    let guest = plain(&setup, "guest");
    let (upstream, gateway) = {
        let upstream = Upstream::start().await;
        let setup = setup.client(upstream.client("up")).client(guest);
        (upstream, setup.serve_connected().await)
    };
    for client in Endpoint::new(&gateway).both().await {
        let quick = client.call("guest-run", &json!({})).set("accept", "text/event-stream");
        let messages = quick.stream().await.rest().await;
        assert_eq!(messages.len(), 1, "{client:?}: {messages:?}");
        assert_eq!(messages[0]["result"]["content"], text("ok"), "{client:?}");
        let slow = client.call(STEPS, &json!({})).with_progress().set("accept", "application/json");
        let calls = upstream.calls("steps").len() + 1;
        let slow = tokio::spawn(slow.reply());
        wait::until("the call to begin", async || {
            (upstream.calls("steps").len() >= calls).then_some(())
        })
        .await;
        upstream.proceed_to(3);
        let reply = slow.await.expect("no panic in it");
        assert!(is_done(&reply.body), "{client:?}: {}", reply.text);
        upstream.proceed_to(1);
    }
}

#[tokio::test]
async fn progress_that_does_not_increase_is_left_out() {
    const BACK: Text = Text::run(
        "(call $progress (local.get $context) (f64.const 2) (i32.const 0) (f64.const 0)
           (i32.const 0) (i32.const 0) (i32.const 0))
         (call $progress (local.get $context) (f64.const 1) (i32.const 0) (f64.const 0)
           (i32.const 0) (i32.const 0) (i32.const 0))
         (call $progress (local.get $context) (f64.const 2) (i32.const 0) (f64.const 0)
           (i32.const 0) (i32.const 0) (i32.const 0))
         (call $progress (local.get $context) (f64.const 2.5) (i32.const 1) (f64.const 2)
           (i32.const 0) (i32.const 0) (i32.const 0))
         (call $ok)",
    );
    let setup = Setup::new();
    let back = Client::text(&setup, "back", &BACK).auto(&["*"]);
    let gateway = setup.client(back).serve_connected().await;
    for client in Endpoint::new(&gateway).both().await {
        let call = client.call("back-run", &json!({})).with_progress().stream().await;
        let messages = call.rest().await;
        let progress: Vec<_> =
            messages.iter().map(|message| &message["params"]["progress"]).collect();
        assert_eq!(progress, [&json!(2), &json!(2.5), &Value::Null], "{client:?}");
        // Without a token it is not sent at all.
        let reply = client.call("back-run", &json!({})).reply().await;
        assert_eq!(reply.body["result"]["content"], text("ok"), "{client:?}");
        for token in [json!(null), json!({}), json!(true), json!("x".repeat(300))] {
            let call = client.call("back-run", &json!({})).with_token(token.clone());
            assert_eq!(call.error().await["code"], -32602, "{client:?} {token}");
        }
    }
}

#[tokio::test]
async fn partial_results_are_sent_to_a_client_that_asks_for_log_messages() {
    const PART: Text =
        Text::run("(call $emit (local.get $context) (i32.const 0) (i32.const 2)) (call $ok)");
    let setup = Setup::new();
    let part = Client::text(&setup, "part", &PART).auto(&["*"]);
    let gateway = setup.client(part).serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    let other = endpoint.session().await;
    let call = || session.request("tools/call", json!({"name": "part-run"}));
    let set_level = |level: &str| session.request("logging/setLevel", json!({"level": level}));
    for (level, is_sent) in
        [("", false), ("error", false), ("info", true), ("debug", true), ("notice", false)]
    {
        if !level.is_empty() {
            assert_eq!(set_level(level).result().await, json!({}));
        }
        let sent = call().reply().await.text.contains("notifications/message");
        assert_eq!(sent, is_sent, "{level:?}");
        let level = if level.is_empty() { Value::Null } else { level.into() };
        let modern = endpoint.modern("tools/call", json!({"name": "part-run"}));
        let modern = modern.member("/params/_meta/io.modelcontextprotocol~1logLevel", level);
        assert_eq!(modern.reply().await.text.contains("notifications/message"), is_sent);
    }
    assert_eq!(set_level("debug").result().await, json!({}));
    let elsewhere = other.request("tools/call", json!({"name": "part-run"})).reply().await.text;
    assert!(!elsewhere.contains("notifications/message"), "the level is that of one session");
    for level in [json!("warn"), json!(7), json!(null)] {
        let refused = session.request("logging/setLevel", json!({"level": level.clone()}));
        assert_eq!(refused.error().await["code"], -32602, "{level}");
    }
}
