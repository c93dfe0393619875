//! The transport against servers whose every byte the test chooses.

use airlock_test_http::{Answer, Server, endless_events, events, says};

use super::*;
use crate::{
    decode::Reception,
    http::tests::Connection,
    inbox::{AwaitedResponse, ResponseKind},
    transport::RequestHead,
};
use airlock_mcp_oauth::HttpSettings;

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// Connects to a server that sends `stream` and answers posted messages with `posted`.
async fn connect(stream: Answer, posted: fn() -> Answer) -> Connection {
    let stream = parking_lot::Mutex::new(Some(stream));
    let server = Server::start_by_request(move |request| {
        if request.starts_with("POST") {
            return posted();
        }
        stream.lock().take().expect("it is opened once")
    })
    .await;
    let settings = HttpSettings::new(server.url("127.0.0.1", "/sse"));
    Connection::over(server, &settings, transport)
}

impl Connection {
    fn send(&self, method: &'static str) -> BoxFuture<'static, Result<(), SendError>> {
        self.post(RequestHead { id: 1, method, name: None, headers: Vec::new() })
    }

    /// Sends a request while the stream is received.
    async fn sent(&self, method: &'static str) -> (Result<(), SendError>, AwaitedResponse) {
        let waiting = self.inbox.expect(1, ResponseKind::Whole);
        let sent = tokio::select! {
            sent = self.send(method) => sent,
            ended = self.transport.receive() => panic!("{ended}"),
        };
        (sent, waiting)
    }
}

fn accepted() -> Answer {
    says("202 Accepted", "", "Accepted")
}

fn refuses(text: &'static str) -> fn() -> Answer {
    match text {
        "404" => || says("404 Not Found", "", "gone"),
        "401" => || says("401 Unauthorized", "", "who"),
        _ => || says("400 Bad Request", "content-type: text/plain\r\n", "what"),
    }
}

#[tokio::test]
async fn messages_are_posted_to_the_endpoint_and_responses_come_on_the_stream() {
    let stream = "event: endpoint\ndata: /messages?s=1\n\nevent: endpoint\ndata: /other\n\n";
    let stream = format!("{stream}event: message\ndata: {RESULT}\n\n");
    let connection = connect(endless_events(&stream), accepted).await;
    let mut waiting = connection.inbox.expect(1, ResponseKind::Whole);
    let exchange = async {
        connection.send("ping").await.expect("it is taken");
        waiting.response.try_recv()
    };
    let received = tokio::select! {
        received = exchange => received,
        ended = connection.transport.receive() => panic!("{ended}"),
    };
    assert_eq!(received, Ok(Reception::Text(RESULT.into())));
    let requests = connection.server.requests();
    assert!(requests[0].starts_with("GET /sse ") && requests[0].contains("text/event-stream"));
    assert!(requests[1].starts_with("POST /messages?s=1 "), "{}", requests[1]);
    assert!(!connection.transport.cancels_by_drop() && !connection.transport.mirrors_parameters());
}

#[tokio::test]
async fn an_endpoint_of_another_origin_ends_the_connection() {
    for endpoint in
        ["http://localhost:1/m", "//127.0.0.1:1/m", "https://127.0.0.1/", "http://[", "file:///x"]
    {
        let stream = endless_events(&format!("event: endpoint\ndata: {endpoint}\n\n"));
        let connection = connect(stream, accepted).await;
        let ended = connection.transport.receive().await;
        let ReceiveError::NotOpened(cause) = ended else { panic!("{endpoint}: {ended}") };
        assert!(cause.to_string().contains("its own origin"), "{cause}");
    }
}

#[tokio::test]
async fn an_endpoint_is_bounded_to_the_byte() {
    for (beyond, is_taken) in [(0, true), (1, false)] {
        let path = format!("/{}", "x".repeat(MAX_URL_BYTES - 1 + beyond));
        let stream = events("", &format!("event: endpoint\ndata: {path}\n\n"));
        let connection = connect(stream, accepted).await;
        let ended = connection.transport.receive().await;
        assert_eq!(matches!(ended, ReceiveError::Closed), is_taken, "{ended}");
    }
}

#[tokio::test]
async fn a_stream_that_is_refused_or_ends_ends_the_connection() {
    for (stream, expected) in [
        (says("401 Unauthorized", "", "who"), "HTTP 401 Unauthorized: who"),
        (says("404 Not Found", "", "gone"), "HTTP 404 Not Found: gone"),
        (says("200 OK", "content-type: text/html\r\n", ""), "text/html"),
        (events("", "event: endpoint\ndata: /m\n\n"), "the connection ended"),
    ] {
        let connection = connect(stream, accepted).await;
        let ended = connection.transport.receive().await;
        let text = airlock_strings::with_causes(&ended);
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn a_posted_message_that_is_refused_fails_and_a_probe_gets_an_error() {
    let connection = connect(endpoint(), refuses("404")).await;
    let mut waiting = connection.inbox.expect(1, ResponseKind::Whole);
    let (sent, ended) = tokio::join!(connection.send("ping"), connection.transport.receive());
    assert!(matches!(sent, Err(SendError::SessionExpired)), "{sent:?}");
    assert!(matches!(ended, ReceiveError::Lost(_)), "{ended}");
    assert!(waiting.response.try_recv().is_err());
    let connection = connect(endpoint(), refuses("401")).await;
    let (sent, _waiting) = connection.sent("ping").await;
    assert!(matches!(sent, Err(SendError::Unauthorized(_))), "{sent:?}");
    let connection = connect(endpoint(), refuses("404")).await;
    let (sent, mut waiting) = connection.sent("server/discover").await;
    assert!(sent.is_ok() && waiting.response.try_recv().is_ok());
    let connection = connect(endpoint(), refuses("400")).await;
    let (sent, _waiting) = connection.sent("ping").await;
    let error = sent.expect_err("it is refused").to_string();
    assert_eq!(error, "HTTP 400 Bad Request: what");
}

fn endpoint() -> Answer {
    endless_events("event: endpoint\ndata: /m\n\n")
}

#[tokio::test]
async fn closing_ends_pending_messages_and_the_stream() {
    let connection = connect(endless_events(": no endpoint\n\n"), accepted).await;
    let (sent, ended, ()) =
        tokio::join!(connection.send("ping"), connection.transport.receive(), async {
            tokio::task::yield_now().await;
            connection.transport.close().await;
        });
    assert!(matches!(sent, Err(SendError::Closed)), "{sent:?}");
    assert!(matches!(ended, ReceiveError::Closed), "{ended}");
}
