//! Events for operators: order, resumption, bounds, and their end.

use std::time::Duration;

use airlock_tests::{EventStream, Gateway, Reply, wait};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{ANN, BOB, VIEWER, get, plugin, post, sent, setup, setup_with, text, tried, waiting};

/// An event of a stream.
#[derive(Debug)]
struct Event {
    id: String,
    kind: String,
    data: Value,
}

fn request(gateway: &Gateway, topics: &str, token: &str) -> RequestBuilder {
    sent(gateway, Method::GET, &format!("/api/events?topics={topics}"), token)
}

/// Returns the next event that is no comment.
async fn next(stream: &mut EventStream) -> Event {
    loop {
        let read = timeout(wait::SOON, stream.next()).await.expect("it comes soon");
        let text = read.expect("the stream goes on");
        let Some(kind) = field(&text, "event: ") else { continue };
        let id = field(&text, "id: ").expect("each event has one").to_owned();
        let data = field(&text, "data: ").expect("each event has data");
        let data = serde_json::from_str(data).expect("JSON");
        return Event { id, kind: kind.to_owned(), data };
    }
}

/// Returns the value of a field of an event.
fn field<'t>(event: &'t str, name: &str) -> Option<&'t str> {
    event.lines().find_map(|line| line.strip_prefix(name))
}

/// Reads events until one is about this call in this state.
async fn until(stream: &mut EventStream, id: &str, state: &str) -> Event {
    loop {
        let event = next(stream).await;
        if event.data["id"] == id && event.data["state"] == state {
            return event;
        }
    }
}

#[tokio::test]
async fn a_stream_tells_of_calls_that_wait_and_run_without_their_contents_and_resumes() {
    let gateway = setup().serve_connected().await;
    let mut stream = EventStream::open(request(&gateway, "approvals,calls", ANN)).await;
    let open = next(&mut stream).await;
    assert_eq!((open.kind.as_str(), &open.data["resumed"]), ("open", &json!(false)));
    let call = waiting(&gateway, "hunter2").await;
    let id = text(&call, "id");
    let asked = until(&mut stream, id, "pending").await;
    assert_eq!(
        (asked.kind.as_str(), &asked.data["tool"]),
        ("approvals", &json!("text-word_count"))
    );
    let path = format!("/v1/approvals/{id}/approve");
    let _ = post(&gateway, &path, BOB, json!({"shown": call["shown"]})).await.ok();
    let _ = until(&mut stream, id, "approved").await;
    assert_eq!(tried(&gateway, "hunter2").await["state"], "completed");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let event = next(&mut stream).await;
        assert!(!event.data.to_string().contains("hunter2"), "{event:?}");
        if event.kind == "calls" {
            seen.push(event);
        }
    }
    assert_eq!(
        (text(&seen[0].data, "state"), text(&seen[0].data, "origin")),
        ("started", "operator")
    );
    assert_eq!(
        (text(&seen[1].data, "state"), text(&seen[1].data, "outcome")),
        ("ended", "success")
    );
    assert_eq!(seen[0].data["id"], seen[1].data["id"]);

    // The first stream is still open, so nothing is lost.
    let resumed = request(&gateway, "approvals,calls", ANN).header("last-event-id", &asked.id);
    let mut resumed = EventStream::open(resumed).await;
    assert_eq!(next(&mut resumed).await.data["resumed"], true);
    let _ = until(&mut resumed, id, "approved").await;
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_begins_with_resync() {
    let gateway = setup().serve_connected().await;
    let elsewhere = setup().serve_connected().await;
    let mut other = EventStream::open(request(&elsewhere, "config", VIEWER)).await;
    let foreign = next(&mut other).await.id;
    for last in [foreign.as_str(), "none", "0-0"] {
        let request = request(&gateway, "config", VIEWER).header("last-event-id", last);
        let mut stream = EventStream::open(request).await;
        let open = next(&mut stream).await;
        assert_eq!((open.kind.as_str(), &open.data["resumed"]), ("open", &json!(false)), "{last}");
        assert_eq!(next(&mut stream).await.kind, "resync", "{last}");
    }
}

#[tokio::test]
async fn changes_at_another_gateway_of_the_store_are_seen() {
    let store = tempfile::tempdir().expect("a directory");
    let store = store.path().join("airlock.db").display().to_string();
    let first = setup().set("/store", store.as_str()).serve_connected().await;
    let second = setup().set("/store", store.as_str()).serve_connected().await;
    let mut stream = EventStream::open(request(&second, "approvals,config", ANN)).await;
    assert_eq!(next(&mut stream).await.kind, "open");
    let call = waiting(&first, "a").await;
    let mut kinds = Vec::new();
    while !kinds.contains(&"approvals".to_owned()) {
        let event = next(&mut stream).await;
        assert_eq!(event.data["id"], Value::Null, "{event:?}");
        kinds.push(event.kind);
    }
    let listed = get(&second, "/v1/approvals", ANN).await.ok();
    assert_eq!(listed["data"][0]["id"], call["id"]);
}

#[tokio::test]
async fn an_operator_has_a_bounded_number_of_streams_and_sees_topics_of_its_rights() {
    let gateway = setup().serve_connected().await;
    let mut streams = Vec::new();
    for _ in 0..8 {
        streams.push(EventStream::open(request(&gateway, "calls", VIEWER)).await);
    }
    let refused = Reply::fetch(request(&gateway, "calls", VIEWER)).await;
    assert_eq!((refused.status, refused.code()), (429, "too_many_streams"));
    let mut other = EventStream::open(request(&gateway, "calls", ANN)).await;
    assert_eq!(next(&mut other).await.kind, "open");
    drop(streams);
    wait::until("the places to be free", async || {
        let reply = request(&gateway, "calls", VIEWER).send().await.expect("a response");
        (reply.status() == 200).then_some(())
    })
    .await;
    for (topics, status, code) in
        [("approvals", 403, "role_insufficient"), ("secrets", 400, "invalid_value")]
    {
        let refused = Reply::fetch(request(&gateway, topics, VIEWER)).await;
        assert_eq!((refused.status, refused.code()), (status, code), "{topics}");
    }
    let without = Reply::fetch(gateway.request(Method::GET, "/api/events")).await;
    assert_eq!((without.status, without.code()), (401, "operator_required"));
}

#[tokio::test]
async fn a_stream_that_is_not_read_takes_no_memory_and_learns_of_the_gap() {
    let gateway = setup_with(plugin().auto(&["*"])).serve_connected().await;
    let mut watched = EventStream::open(request(&gateway, "calls", ANN)).await;
    let first = next(&mut watched).await.id;
    for _ in 0..520 {
        let reply = gateway.execute("text-word_count", &json!({"text": "a"})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    let late = request(&gateway, "calls", VIEWER).header("last-event-id", &first);
    let mut late = EventStream::open(late).await;
    assert_eq!(next(&mut late).await.kind, "open");
    assert_eq!(next(&mut late).await.kind, "resync", "1,040 events have happened, 1,000 are kept");
}

#[tokio::test]
async fn a_flood_of_calls_evicts_no_event_about_approvals() {
    let gateway = setup().serve_connected().await;
    let mut watched = EventStream::open(request(&gateway, "approvals,calls", ANN)).await;
    let first = next(&mut watched).await.id;
    let call = waiting(&gateway, "a").await;
    for _ in 0..520 {
        let reply = gateway.execute("text-word_count", &json!({"text": "b"})).await;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    for (topics, is_complete) in [("approvals", true), ("approvals,calls", false)] {
        let resumed = request(&gateway, topics, ANN).header("last-event-id", &first);
        let mut resumed = EventStream::open(resumed).await;
        assert_eq!(next(&mut resumed).await.data["resumed"], is_complete, "{topics}");
        let _ = until(&mut resumed, text(&call, "id"), "pending").await;
        if !is_complete {
            let mut event = next(&mut resumed).await;
            while event.kind == "approvals" {
                event = next(&mut resumed).await;
            }
            assert_eq!(
                (event.kind.as_str(), &event.data),
                ("resync", &json!({"topics": ["calls"]}))
            );
        }
    }
}

#[tokio::test]
async fn the_first_of_two_approvals_is_no_event_of_an_approved_call() {
    let twice = plugin().auto(&[]).set("/tools_to_approve_twice", json!(["word_count"]));
    let gateway = setup_with(twice).serve_connected().await;
    let mut stream = EventStream::open(request(&gateway, "approvals", ANN)).await;
    let call = waiting(&gateway, "a").await;
    let id = text(&call, "id");
    let path = format!("/v1/approvals/{id}/approve");
    let mut states = Vec::new();
    for token in [BOB, ANN] {
        let _ = post(&gateway, &path, token, json!({"shown": call["shown"]})).await.ok();
    }
    while states.last().is_none_or(|state| state != "approved") {
        let event = next(&mut stream).await;
        if event.data["id"] == id {
            states.push(text(&event.data, "state").to_owned());
        }
    }
    assert_eq!(states, ["pending", "first_approval", "approved"]);
}

#[tokio::test]
async fn a_stream_ends_after_its_operator_is_revoked() {
    let gateway = setup().serve_connected().await;
    let made = json!({"name": "cid", "role": "viewer"});
    let made = post(&gateway, "/api/operators", ANN, made).await.ok();
    let mut stream = EventStream::open(request(&gateway, "calls", text(&made, "token"))).await;
    assert_eq!(next(&mut stream).await.kind, "open");
    let removed = sent(&gateway, Method::DELETE, "/api/operators/cid", ANN);
    let _ = Reply::fetch(removed).await.ok();
    let end = next(&mut stream).await;
    assert_eq!((end.kind.as_str(), &end.data["reason"]), ("end", &json!("revoked")));
    let rest = timeout(Duration::from_secs(10), stream.next()).await.expect("it ends");
    assert_eq!(rest, None);
}
