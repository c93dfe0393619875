//! Sessions of the legacy era: they belong to one account, are bounded, and expire.

use airlock_tests::{
    Reply, Setup,
    mcp::{Endpoint, LEGACY, McpRequest, McpSession},
    wait,
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};

use super::{ANN, BOB, begun, plain, text, upstream::Upstream, usage};

/// Returns a configuration with one tool and the keys of two accounts. Requests need none.
fn two_accounts() -> Setup {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let guest = plain(&setup, "guest");
    let rows: [(&str, &[&str]); 1] = [("guest", &["*"])];
    setup.client(guest).key("ann", ANN, &rows).key("bob", BOB, &rows)
}

fn list(session: &McpSession) -> McpRequest {
    session.request("tools/list", json!({}))
}

async fn is_alive(session: &McpSession) -> bool {
    let Reply { status, body, text } = list(session).reply().await;
    match status {
        200 => assert_eq!(body["result"]["tools"][0]["name"], "guest-run", "{text}"),
        404 => assert_eq!(body["jsonrpc"], "2.0", "{text}"),
        _ => panic!("{status}: {text}"),
    }
    status == 200
}

#[tokio::test]
async fn a_session_of_another_key_looks_like_one_that_never_was() {
    let gateway = two_accounts().serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let ann = endpoint.clone().key(ANN);
    let bob = endpoint.clone().key(BOB);
    let session = ann.session().await;
    let requests = |session: &McpSession| {
        [
            list(session).member("/id", 7),
            session.request("ping", json!({})).member("/id", 7),
            session.request("tools/call", json!({"name": "guest-run"})).member("/id", 7),
            session.notify("notifications/cancelled", json!({"requestId": 1})),
            session.respond(&json!("airlock-0"), json!({"action": "accept"})),
            session.listen(),
            session.resume("1-0"),
            session.delete(),
        ]
    };
    for other in [&bob, &endpoint] {
        let stolen = session.named_by(other);
        let mut expected = None;
        for (index, request) in requests(&stolen).into_iter().enumerate() {
            let unknown = "00000000-0000-4000-8000-000000000000";
            let foreign = request.clone().reply().await;
            let unknown = request.set("mcp-session-id", unknown).reply().await;
            assert_eq!(foreign.status, 404, "request {index}: {}", foreign.text);
            assert_eq!(foreign, unknown, "request {index}");
            // All of them are refused alike.
            assert_eq!(*expected.get_or_insert(foreign.text.clone()), foreign.text);
        }
    }
    for odd in ["", " ", "x", "\u{e9}", &"a".repeat(4_000)] {
        let reply = list(&session).set("mcp-session-id", odd).reply().await;
        assert_eq!(reply.status, 404, "{odd:?}: {}", reply.text);
    }
    assert!(is_alive(&session).await, "the owner's session");
}

#[tokio::test]
async fn a_deleted_session_is_gone_with_its_streams_and_requests() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let session = Endpoint::new(&gateway).session().await;
    let listening = session.listen().stream().await;
    let call = begun(session.request("tools/call", json!({"name": "up-steps"}))).await;
    assert_eq!(usage(&gateway).await, (1, 1));
    let deleted = session.delete().reply().await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    assert_eq!(listening.rest().await, [Value::Null; 0]);
    assert_eq!(call.rest().await, [Value::Null; 0], "a response of a session that is gone");
    upstream.is_cancelled(&[0]).await;
    for request in [list(&session), session.listen(), session.resume("1-0"), session.delete()] {
        assert_eq!(request.reply().await.status, 404);
    }
    wait::until("the streams to be given back", async || {
        (usage(&gateway).await == (0, 0)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_idle_session_expires_and_one_with_a_stream_or_a_request_does_not() {
    let upstream = Upstream::start().await;
    let setup = two_accounts()
        .set("/mcp_server/session_timeout", "4s")
        .set("/mcp_server/max_sessions_per_key", 3)
        .client(upstream.client("up"));
    let gateway = setup.serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let idle = endpoint.session().await;
    let listening = endpoint.session().await;
    let stream = listening.listen().stream().await;
    let calling = endpoint.session().await;
    let call = begun(calling.request("tools/call", json!({"name": "up-steps"}))).await;
    // Expired sessions are counted until a session is opened. Bob has at most three of them, and the
    // oldest gives way to the newest.
    let bob = endpoint.clone().key(BOB);
    assert_eq!(usage(&gateway).await.0, 3);
    let mut waits = 0;
    wait::until("the idle session to expire", async || {
        let _ = bob.initialize(LEGACY).reply().await.ok();
        waits += 1;
        let expected = 2 + waits.min(3);
        (waits > 3 && usage(&gateway).await.0 == expected).then_some(())
    })
    .await;
    assert!(!is_alive(&idle).await && is_alive(&listening).await);
    upstream.proceed_to(3);
    let rest = call.rest().await;
    assert_eq!(rest.last().expect("a response")["result"]["content"], text("done"));
    assert!(is_alive(&calling).await);
    drop(stream);
}

#[tokio::test]
async fn ten_thousand_sessions_of_one_key_close_only_its_own() {
    let setup = two_accounts().set("/mcp_server/max_sessions_per_key", 50);
    let gateway = setup.serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let ann = endpoint.clone().key(ANN);
    let bob = endpoint.key(BOB);
    let first = ann.session().await;
    let neighbor = bob.session().await;
    let before = gateway.peak_memory();
    for _ in 0..10 {
        let opened = stream::iter(0..1_000).map(|_| ann.initialize(LEGACY).reply());
        let refused = opened.buffer_unordered(8).filter(|reply| {
            let is_refused = reply.status != 200;
            async move { is_refused }
        });
        assert_eq!(refused.count().await, 0);
        assert!(is_alive(&neighbor).await);
    }
    assert_eq!(usage(&gateway).await, (51, 0));
    assert!(!is_alive(&first).await, "the oldest session of the key is closed");
    // Linux counts roughly: its peak may shrink by some pages.
    let taken = gateway.peak_memory().saturating_sub(before);
    assert!(taken < 32 << 20, "it took {taken} bytes");
}

#[tokio::test]
async fn a_session_in_use_is_not_closed_for_a_new_one() {
    let setup = two_accounts().set("/mcp_server/max_sessions_per_key", 2);
    let gateway = setup.serve_connected().await;
    let ann = Endpoint::new(&gateway).key(ANN);
    let first = ann.session().await;
    let second = ann.session().await;
    let one = first.listen().stream().await;
    let two = second.listen().stream().await;
    let refused = ann.initialize(LEGACY).reply().await;
    assert_eq!(refused.status, 429, "{}", refused.text);
    assert_eq!((&refused.body["id"], &refused.body["jsonrpc"]), (&json!(0), &json!("2.0")));
    assert!(is_alive(&first).await && is_alive(&second).await);
    drop(two);
    wait::until("the second session to be idle", async || {
        (ann.initialize(LEGACY).reply().await.status == 200).then_some(())
    })
    .await;
    assert!(is_alive(&first).await && !is_alive(&second).await);
    drop(one);
}

#[tokio::test]
async fn an_id_is_refused_while_a_request_with_it_runs_and_free_afterwards() {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    let call =
        |id: Value| session.request("tools/call", json!({"name": "up-steps"})).member("/id", id);
    let first = begun(call(json!("a"))).await;
    for _ in 0..2 {
        // The same identifier, however it is written.
        let text =
            r#"{"jsonrpc":"2.0","id":"\u0061","method":"tools/call","params":{"name":"up-steps"}}"#;
        let again = endpoint.post(text).set("mcp-session-id", session.id()).error().await;
        assert_eq!(again["code"], -32600, "{again}");
    }
    assert_eq!(upstream.calls("steps").len(), 1);
    // A number is another identifier than a string, and another session has identifiers of its own.
    let other = endpoint.session().await;
    let number = begun(call(json!(1))).await;
    let string = begun(call(json!("1"))).await;
    let elsewhere = other.request("tools/call", json!({"name": "up-steps"})).member("/id", "a");
    let elsewhere = begun(elsewhere).await;
    upstream.proceed_to(3);
    for (stream, id) in
        [(first, json!("a")), (number, json!(1)), (string, json!("1")), (elsewhere, json!("a"))]
    {
        let last = stream.rest().await.pop().expect("a response");
        assert_eq!((&last["id"], &last["result"]["content"]), (&id, &text("done")));
    }
    assert_eq!(call(json!("a")).result().await["content"], text("done"));
    assert_eq!(upstream.cancelled(), [Value::Null; 0]);
}
