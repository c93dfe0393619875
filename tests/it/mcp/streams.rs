//! Streams: resumed, cancelled, bounded, and ended with the gateway.

use airlock_tests::{
    Gateway, Setup,
    mcp::{Endpoint, McpClient, McpSession, Messages},
    wait,
};
use futures_util::future::join_all;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use super::{
    ANN, BOB, STEPS, begun, hanging, http2::Http2, is_done, plain, text, upstream::Upstream, usage,
};

async fn with_upstream() -> (Upstream, Gateway) {
    let upstream = Upstream::start().await;
    let gateway = Setup::new().client(upstream.client("up")).serve_connected().await;
    (upstream, gateway)
}

fn progress(step: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": "token", "progress": step, "total": 3}})
}

#[tokio::test]
async fn a_call_that_is_not_ready_at_once_is_a_stream_of_numbered_events() {
    let (upstream, gateway) = with_upstream().await;
    let session = Endpoint::new(&gateway).session().await;
    let call = session.request("tools/call", json!({"name": STEPS}));
    let mut stream = call.with_progress().stream().await;
    let mut events = Vec::new();
    for step in [1, 2, 3, 4] {
        events.extend(stream.next_event().await);
        upstream.proceed_to(step);
    }
    assert_eq!(stream.next_event().await, None);
    let ids: std::collections::BTreeSet<_> =
        events.iter().map(|event| event.id.as_deref().expect("an id")).collect();
    assert_eq!((ids.len(), events.len()), (4, 4), "{events:?}");
    let messages: Vec<_> = events.iter().map(|event| &event.message).collect();
    // The first event has no message: it lets a client resume that has received nothing else.
    assert_eq!(messages[..3], [&Value::Null, &progress(1), &progress(2)]);
    assert!(is_done(messages[3]), "{messages:?}");
}

#[tokio::test]
async fn a_stream_that_is_reset_over_http_2_cancels_its_call_and_no_other_of_the_connection() {
    let (upstream, gateway) = with_upstream().await;
    let call = Endpoint::new(&gateway).modern("tools/call", json!({"name": STEPS})).with_progress();
    let mut client = Http2::connect(&gateway).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = client.send(&call).await.into_body();
        let first = stream.frame().await.expect("an event").expect("a frame");
        let first = first.into_data().unwrap_or_default();
        assert!(String::from_utf8_lossy(&first).contains("notifications/progress"), "{first:?}");
        streams.push(stream);
    }
    drop(streams.remove(0));
    upstream.is_cancelled(&[0]).await;
    upstream.proceed_to(3);
    let rest = streams.remove(0).collect().await.expect("it is whole").to_bytes();
    assert!(String::from_utf8_lossy(&rest).contains("\"done\""), "{rest:?}");
    upstream.is_cancelled(&[0]).await;
    client.close().await;
}

#[tokio::test]
async fn a_call_whose_connection_is_cut_is_resumed_after_its_last_event() {
    let (upstream, gateway) = with_upstream().await;
    let session = Endpoint::new(&gateway).session().await;
    let call = session.request("tools/call", json!({"name": STEPS}));
    let mut cut = call.with_progress().stream().await;
    let primer = cut.next_event().await.and_then(|event| event.id).expect("an id");
    let first = cut.next_event().await.expect("progress");
    assert_eq!(first.message, progress(1));
    drop(cut);
    // Resumed while the call runs, and again after it has ended.
    let mut resumed = session.resume(&first.id.expect("an id")).stream().await;
    upstream.proceed_to(2);
    let second = resumed.next_event().await.expect("progress");
    assert_eq!(second.message, progress(2));
    drop(resumed);
    upstream.proceed_to(3);
    let resumed = session.resume(&second.id.expect("an id")).stream().await;
    let last = resumed.rest().await;
    assert!(last.len() == 1 && is_done(&last[0]), "{last:?}");
    let all = session.resume(&primer).stream().await.rest().await;
    assert_eq!(all[..2], [progress(1), progress(2)]);
    assert!(all.len() == 3 && is_done(&all[2]), "{all:?}");
    assert_eq!((upstream.calls("steps").len(), upstream.cancelled().len()), (1, 0));
}

#[tokio::test]
async fn a_stream_that_is_not_kept_or_belongs_to_another_session_ends_at_once() {
    let (upstream, gateway) = with_upstream().await;
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    let other = endpoint.session().await;
    let call = session.request("tools/call", json!({"name": STEPS}));
    let mut running = call.with_progress().stream().await;
    let own = running.next_event().await.and_then(|event| event.id).expect("an id");
    for id in [own.as_str(), "1-0", "99-0", "0-0", "99999999999999999999-0", "-1", "garbage"] {
        let stream = other.resume(id).stream().await;
        assert_eq!(stream.rest().await, [Value::Null; 0], "{id}");
    }
    upstream.proceed_to(3);
    assert!(running.rest().await.iter().any(is_done));
}

#[tokio::test]
async fn cancelled_stops_the_tool_and_no_response_follows() {
    let (upstream, gateway) = with_upstream().await;
    let endpoint = Endpoint::new(&gateway);
    let session = endpoint.session().await;
    let other = endpoint.session().await;
    let call = || session.request("tools/call", json!({"name": STEPS})).member("/id", "c");
    let cancel = |session: &McpSession, id: Value| {
        session.notify("notifications/cancelled", json!({"requestId": id, "reason": "changed"}))
    };
    let stream = begun(call()).await;
    // None of these names the running call.
    let others =
        [cancel(&other, json!("c")), cancel(&session, json!("d")), cancel(&session, json!(null))];
    for cancel in others {
        assert_eq!(cancel.reply().await.status, 202);
    }
    assert_eq!(upstream.cancelled(), [Value::Null; 0]);
    for _ in 0..2 {
        assert_eq!(cancel(&session, json!("c")).reply().await.status, 202);
    }
    upstream.is_cancelled(&[0]).await;
    assert_eq!(stream.rest().await, [Value::Null; 0]);
    assert_eq!(cancel(&session, json!("c")).reply().await.status, 202);
    upstream.proceed_to(3);
    let again = call().result().await;
    assert_eq!(again["content"], text("done"), "the identifier is free again");
    upstream.is_cancelled(&[0]).await;
}

#[tokio::test]
async fn a_guest_is_stopped_when_its_call_is_cancelled_or_its_modern_client_leaves() {
    let setup = Setup::new();
    let hang = hanging(&setup, "hang");
    let guest = plain(&setup, "guest");
    let gateway = setup.client(hang).client(guest).serve_connected().await;
    for client in Endpoint::new(&gateway).both().await {
        let call = client.call("hang-run", &json!({})).member("/id", 77);
        let stream = begun(call).await;
        let health = gateway.get("/health").await.ok();
        assert_eq!(health["sandbox"]["instances"], 1, "{client:?}: {health}");
        match &client {
            McpClient::Modern(_) => drop(stream),
            McpClient::Legacy(session) => {
                let cancel = session.notify("notifications/cancelled", json!({"requestId": 77}));
                assert_eq!(cancel.reply().await.status, 202);
                assert_eq!(stream.rest().await, [Value::Null; 0]);
            }
        }
        gateway.sandbox_is_empty().await;
        assert_eq!(client.call("guest-run", &json!({})).result().await["content"], text("ok"));
    }
}

#[tokio::test]
async fn a_modern_client_that_leaves_cancels_its_call_and_no_other() {
    let (upstream, gateway) = with_upstream().await;
    let endpoint = Endpoint::new(&gateway);
    // Identifiers of the modern era belong to one request, so that these do not collide.
    let call = || endpoint.modern("tools/call", json!({"name": STEPS}));
    let leaves = begun(call()).await;
    let stays = begun(call()).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let cancelled = endpoint.post(cancel).reply().await;
    assert!(matches!(cancelled.status, 202 | 400), "{}", cancelled.text);
    drop(leaves);
    upstream.is_cancelled(&[0]).await;
    upstream.proceed_to(3);
    assert!(stays.rest().await.iter().any(is_done));
    upstream.is_cancelled(&[0]).await;
}

#[tokio::test]
async fn a_legacy_client_that_leaves_cancels_nothing() {
    let (upstream, gateway) = with_upstream().await;
    let session = Endpoint::new(&gateway).session().await;
    let stream = begun(session.request("tools/call", json!({"name": STEPS}))).await;
    drop(stream);
    upstream.proceed_to(3);
    let all = session.resume("1-0").stream().await.rest().await;
    assert!(all.last().is_some_and(is_done), "{all:?}");
    assert_eq!(upstream.cancelled(), [Value::Null; 0]);
}

#[tokio::test]
async fn waiting_streams_are_bounded_by_key_and_in_all() {
    let setup = Setup::new().set("/server/require_virtual_key", false);
    let guest = plain(&setup, "guest");
    let rows: [(&str, &[&str]); 1] = [("guest", &["*"])];
    let setup = setup.client(guest).key("ann", ANN, &rows).key("bob", BOB, &rows);
    let setup = setup.set("/mcp_server/max_streams", 3).set("/mcp_server/max_streams_per_key", 2);
    let gateway = setup.serve_connected().await;
    let ann = Endpoint::new(&gateway).key(ANN);
    let bob = Endpoint::new(&gateway).key(BOB);
    let session = ann.session().await;
    let listen = |endpoint: &Endpoint| {
        let wanted = json!({"notifications": {"toolsListChanged": true}});
        endpoint.modern("subscriptions/listen", wanted)
    };
    let get = session.listen().stream().await;
    let modern = listen(&ann).stream().await;
    assert_eq!(usage(&gateway).await.1, 2);
    for request in [session.listen(), listen(&ann)] {
        let refused = request.reply().await;
        assert_eq!((refused.status, &refused.body["jsonrpc"]), (429, &json!("2.0")));
    }
    let other = listen(&bob).stream().await;
    let refused = listen(&bob).reply().await;
    assert_eq!((refused.status, &refused.body["id"]), (429, &json!(1)), "{}", refused.text);
    // Calls need no such room.
    assert_eq!(ann.modern("tools/call", json!({"name": "guest-run"})).reply().await.status, 200);
    for (left, stream) in [(2, get), (1, modern), (0, other)] {
        drop(stream);
        wait::until("the room to be given back", async || {
            (usage(&gateway).await.1 == left).then_some(())
        })
        .await;
    }
    drop((session.listen().stream().await, listen(&ann).stream().await));
}

/// Reads a stream to its end in a task.
fn reading(stream: Messages) -> tokio::task::JoinHandle<Vec<Value>> {
    tokio::spawn(stream.rest())
}

#[tokio::test]
async fn waiting_streams_end_on_sigterm_and_running_calls_get_their_responses() {
    let (upstream, gateway) = with_upstream().await;
    let endpoint = Endpoint::new(&gateway);
    let clients = endpoint.both().await;
    let session = endpoint.session().await;
    let get = reading(session.listen().stream().await);
    let wanted = json!({"notifications": {"toolsListChanged": true}});
    let mut listening = endpoint.modern("subscriptions/listen", wanted).stream().await;
    let acknowledged = listening.next().await.expect("an acknowledgment");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    let listening = reading(listening);
    let calls = join_all(clients.iter().map(|client| begun(client.call(STEPS, &json!({}))))).await;
    let calls: Vec<_> = calls.into_iter().map(reading).collect();
    gateway.terminate();
    assert_eq!(get.await.expect("no panic in it"), [Value::Null; 0]);
    let last = listening.await.expect("no panic in it").pop().expect("the end of the subscription");
    assert_eq!((&last["id"], &last["result"]["resultType"]), (&json!(1), &json!("complete")));
    upstream.proceed_to(3);
    for call in calls {
        assert!(call.await.expect("no panic in it").iter().any(is_done));
    }
    gateway.ended().await;
    assert_eq!(upstream.cancelled(), [Value::Null; 0]);
}

#[tokio::test]
async fn calls_that_do_not_end_are_cut_off_when_the_drain_timeout_ends() {
    let upstream = Upstream::start().await;
    let setup = Setup::new().set("/server/drain_timeout", "300ms").client(upstream.client("up"));
    let gateway = setup.serve_connected().await;
    let clients = Endpoint::new(&gateway).both().await;
    let calls = join_all(clients.iter().map(|client| begun(client.call(STEPS, &json!({}))))).await;
    gateway.terminate();
    gateway.ended().await;
    drop(calls);
}
