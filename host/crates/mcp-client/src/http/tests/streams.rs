//! Streams of events: resumed, listened to, and dropped.

use std::time::Duration;

use airlock_test_http::{endless_events, events};
use tokio::time::{Instant, timeout};

use super::*;
use crate::limits::{MAX_MESSAGE_BYTES, MAX_RESUMPTIONS};

/// Answers a handshake, and everything else with `other`.
fn after_handshake(
    other: impl Fn(&str) -> Answer + Send + Sync + 'static,
) -> impl Fn(&str) -> Answer + Send + Sync + 'static {
    move |request| match method(request).as_str() {
        "initialize" => json(RESULT),
        "notifications/initialized" => accepted(),
        _ => other(request),
    }
}

#[tokio::test]
async fn a_legacy_stream_that_ends_early_is_resumed_after_its_delay() {
    let connection =
        Connection::to(after_handshake(|request| match header(request, "last-event-id") {
            None => events("", "id: 7\nretry: 1100\ndata:\n\n"),
            Some("7") => events("", "id: 8\ndata:\n\n"),
            Some(_) => events("", &format!("data: {RESULT}\n\n")),
        }))
        .await;
    connection.initialize().await;
    let began = Instant::now();
    assert_eq!(connection.answer("tools/call").await, RESULT);
    assert!(began.elapsed() >= Duration::from_millis(2200), "{:?}", began.elapsed());
    let requests = connection.server.requests();
    let resumed: Vec<_> =
        requests.iter().filter_map(|request| header(request, "last-event-id")).collect();
    assert_eq!(resumed, ["7", "8"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_never_has_the_response_is_given_up() {
    let connection = Connection::to(after_handshake(|request| match request.split(' ').next() {
        Some("POST") => events("", "id: 1\ndata:\n\n"),
        _ => events("", ": nothing\n\n"),
    }))
    .await;
    connection.initialize().await;
    let answer = connection.answer("tools/call").await;
    assert_eq!(answer, "error: the stream ended before the response");
    let streams =
        connection.server.requests().iter().filter(|request| request.starts_with("GET")).count();
    assert_eq!(streams, MAX_RESUMPTIONS as usize);
}

#[tokio::test]
async fn a_stream_without_identifiers_and_one_of_the_modern_era_are_not_resumed() {
    for (version, stream) in
        [(Version::V2025_11_25, "data:\n\n"), (Version::V2026_07_28, "id: 1\ndata:\n\n")]
    {
        let connection = Connection::to(move |_| events("", stream)).await;
        connection.transport.negotiated(version);
        let answer = connection.answer("tools/call").await;
        assert_eq!(answer, "error: the stream ended before the response", "{version:?}");
        assert_eq!(connection.server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_event_that_is_too_long_fails_its_request_at_once() {
    let connection = Connection::to(|_| {
        let result = "x".repeat(MAX_MESSAGE_BYTES);
        // The event does not even end.
        endless_events(&format!("data: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"{result}"))
    })
    .await;
    assert_eq!(connection.answer("tools/call").await, "TooLarge");
    let nameless =
        Connection::to(|_| events("", &format!("data: \"{}\"\n\n", "x".repeat(MAX_MESSAGE_BYTES))))
            .await;
    let answer = nameless.answer("tools/call").await;
    assert_eq!(answer, "error: the response has more than 4194304 bytes");
}

#[tokio::test]
async fn dropping_a_request_closes_its_stream() {
    let connection = Connection::to(|_| endless_events(": waiting\n\n")).await;
    connection.transport.negotiated(Version::V2026_07_28);
    let waiting = timeout(Duration::from_millis(300), connection.answer("tools/call")).await;
    assert!(waiting.is_err(), "{waiting:?}");
    connection.server.until_hung_up(1).await;
}

#[tokio::test]
async fn messages_that_a_legacy_server_sends_on_its_own_are_received() {
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let connection =
        Connection::to(after_handshake(move |request| match request.split(' ').next() {
            Some("GET") => endless_events(&format!("data: {changed}\n\n")),
            _ => json(RESULT),
        }))
        .await;
    connection.initialize().await;
    tokio::select! {
        ended = connection.transport.receive() => panic!("{ended}"),
        () = connection.inbox.changed() => {}
    }
    let requests = connection.server.requests();
    let opened = requests.iter().find(|request| request.starts_with("GET")).expect("it was opened");
    assert_eq!(header(opened, "accept"), Some("text/event-stream"));
}

#[tokio::test]
async fn a_response_may_come_on_the_stream_of_a_legacy_server() {
    let connection = Connection::to(after_handshake(|request| match request.split(' ').next() {
        Some("GET") => endless_events(&format!("data: {RESULT}\n\n")),
        _ => accepted(),
    }))
    .await;
    connection.initialize().await;
    let mut waiting = connection.inbox.expect(1, ResponseKind::Whole);
    tokio::select! {
        ended = connection.transport.receive() => panic!("{ended}"),
        received = &mut waiting.response => assert!(matches!(received, Ok(Reception::Text(_)))),
    }
    let (sent, _waiting) = connection.ask("tools/call").await;
    sent.expect("the stream is open");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_at_once_is_opened_less_and_less_often() {
    let connection = Connection::to(after_handshake(|request| match request.split(' ').next() {
        Some("GET") => events("", "id: 1\nretry: 0\ndata:\n\n"),
        _ => json(RESULT),
    }))
    .await;
    connection.initialize().await;
    let ended = timeout(Duration::from_mins(5), connection.transport.receive()).await;
    assert!(ended.is_err(), "{ended:?}");
    let opened =
        connection.server.requests().iter().filter(|request| request.starts_with("GET")).count();
    assert!((4..=16).contains(&opened), "{opened} times in five minutes");
}

#[tokio::test]
async fn a_server_whose_stream_cannot_be_opened_is_checked() {
    let connection =
        Connection::to(after_handshake(|_| says("503 Service Unavailable", "", ""))).await;
    connection.initialize().await;
    tokio::select! {
        ended = connection.transport.receive() => panic!("{ended}"),
        () = connection.inbox.check_requested() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_without_a_stream_is_asked_for_it_once() {
    for status in ["405 Method Not Allowed", "404 Not Found", "400 Bad Request", "401 Unauthorized"]
    {
        let connection = Connection::to(after_handshake(move |_| says(status, "", ""))).await;
        connection.initialize().await;
        let ended = timeout(Duration::from_hours(1), connection.transport.receive()).await;
        assert!(ended.is_err(), "{ended:?}");
        let requests = connection.server.requests();
        assert_eq!(
            requests.iter().filter(|request| request.starts_with("GET")).count(),
            1,
            "{status}"
        );
    }
}
