//! Sessions of the legacy era, headers of the modern one, and the end of a connection.

use futures_util::FutureExt as _;

use super::*;
use crate::transport::ReceiveError;

/// Answers as a legacy server with a session does.
fn legacy(request: &str) -> Answer {
    match (request.split(' ').next(), method(request).as_str()) {
        (Some("GET"), _) => says("405 Method Not Allowed", "", ""),
        (Some("DELETE"), _) => ok(""),
        (_, "initialize") => {
            says("200 OK", "content-type: application/json\r\nmcp-session-id: s-1\r\n", RESULT)
        }
        (_, "notifications/initialized") => accepted(),
        _ => json(RESULT),
    }
}

#[tokio::test]
async fn a_legacy_session_is_named_from_the_handshake_to_its_end() {
    let connection = Connection::to(legacy).await;
    connection.initialize().await;
    assert_eq!(connection.answer("tools/list").await, RESULT);
    assert!(!connection.transport.cancels_by_drop() && !connection.transport.mirrors_parameters());
    connection.transport.close().await;
    let requests = connection.server.requests();
    assert_eq!(header(&requests[0], "mcp-session-id"), None);
    assert_eq!(header(&requests[0], "mcp-protocol-version"), None);
    for request in &requests[1..] {
        assert_eq!(header(request, "mcp-session-id"), Some("s-1"), "{request}");
        assert_eq!(header(request, "mcp-protocol-version"), Some("2025-11-25"), "{request}");
        assert_eq!(header(request, "mcp-method"), None);
    }
    assert!(requests.last().is_some_and(|last| last.starts_with("DELETE /mcp ")), "{requests:?}");
    assert_eq!(connection.answer("ping").await, "error: the connection is closed");
}

#[tokio::test]
async fn closing_does_not_wait_for_a_server_and_pending_requests_fail() {
    let connection = Connection::to(|request| match request.split(' ').next() {
        Some("POST") if method(request) == "initialize" => legacy(request),
        _ => Answer::IsSilent,
    })
    .await;
    connection.ask("initialize").await.0.expect("it is answered");
    let (answer, ()) = tokio::join!(connection.answer("tools/call"), async {
        tokio::task::yield_now().await;
        connection.transport.close().await;
    });
    assert_eq!(answer, "error: the connection is closed");
}

#[tokio::test]
async fn a_forgotten_session_ends_the_connection_and_nothing_is_sent_again() {
    for body in ["", RESULT] {
        let connection = Connection::to(move |request| match method(request).as_str() {
            "tools/call" => says("404 Not Found", "content-type: application/json\r\n", body),
            _ => legacy(request),
        })
        .await;
        connection.initialize().await;
        let (ended, answer) =
            tokio::join!(connection.transport.receive(), connection.answer("tools/call"));
        assert_eq!(answer, "error: the server has ended the session");
        assert!(matches!(ended, ReceiveError::Lost(_)), "{ended:?}");
        connection.transport.close().await;
        let requests = connection.server.requests();
        assert_eq!(requests.iter().filter(|request| method(request) == "tools/call").count(), 1);
        assert!(!requests.iter().any(|request| request.starts_with("DELETE")), "{requests:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_refused_with_the_text_of_a_lost_session_has_the_connection_checked() {
    let lost = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    let connection = Connection::to(move |request| match method(request).as_str() {
        "tools/call" | "ping" => {
            says("400 Bad Request", "content-type: application/json\r\n", lost)
        }
        _ => legacy(request),
    })
    .await;
    connection.initialize().await;
    let refused = "error: the server has ended the session";
    assert_eq!(connection.answer("tools/call").await, refused);
    connection.inbox.check_requested().await;
    assert!(connection.transport.receive().now_or_never().is_none(), "others may still call");
    let (ended, answer) = tokio::join!(connection.transport.receive(), connection.answer("ping"));
    assert_eq!(answer, refused);
    assert!(matches!(ended, ReceiveError::Lost(_)), "{ended:?}");
}

#[tokio::test]
async fn a_session_identifier_is_bounded_to_the_byte() {
    for (bytes, is_taken) in [(1024, true), (1025, false)] {
        let connection = Connection::to(move |_| {
            let session = format!("mcp-session-id: {}\r\n", "s".repeat(bytes));
            says("200 OK", &format!("content-type: application/json\r\n{session}"), RESULT)
        })
        .await;
        let (sent, _waiting) = connection.ask("initialize").await;
        assert_eq!(sent.is_ok(), is_taken, "{bytes}");
    }
}

#[tokio::test]
async fn a_refusal_of_credentials_is_told_apart() {
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let connection =
            Connection::to(move |_| says(status, "www-authenticate: Bearer scope=\"x\"\r\n", ""))
                .await;
        let (sent, _waiting) = connection.ask("server/discover").await;
        let Err(SendError::Unauthorized(reason)) = sent else { panic!("{sent:?}") };
        assert_eq!(reason, format!("HTTP {status}: Bearer scope=\"x\""));
    }
}

#[tokio::test]
async fn a_modern_request_repeats_its_method_and_name_in_headers() {
    let connection = Connection::to(|request| match method(request).as_str() {
        "notifications/cancelled" => accepted(),
        _ => json(RESULT),
    })
    .await;
    connection.answer("server/discover").await;
    connection.transport.negotiated(Version::V2026_07_28);
    assert!(connection.transport.cancels_by_drop() && connection.transport.mirrors_parameters());
    for name in ["plain", "wetter_köln"] {
        connection.ask_about("tools/call", Some(name), Vec::new()).await.0.expect("answered");
    }
    connection.notify("notifications/cancelled").await.expect("it is taken");
    let requests = connection.server.requests();
    for (request, method, name) in [
        (&requests[0], "server/discover", None),
        (&requests[1], "tools/call", Some("plain")),
        (&requests[2], "tools/call", Some("=?base64?d2V0dGVyX2vDtmxu?=")),
        (&requests[3], "notifications/cancelled", None),
    ] {
        assert_eq!(header(request, "mcp-protocol-version"), Some("2026-07-28"));
        assert_eq!(header(request, "mcp-method"), Some(method));
        assert_eq!(header(request, "mcp-name"), name);
        assert_eq!(header(request, "mcp-session-id"), None);
    }
}

#[tokio::test]
async fn a_probe_that_a_proxy_refuses_is_an_error_of_json_rpc() {
    let connection =
        Connection::to(|_| says("405 Method Not Allowed", "content-type: text/html\r\n", "no"))
            .await;
    insta::assert_snapshot!(connection.answer("server/discover").await, @r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"server/discover rejected with HTTP 405 Method Not Allowed: no"}}"#);
    insta::assert_snapshot!(connection.answer("initialize").await, @"error: HTTP 405 Method Not Allowed: no");
}
