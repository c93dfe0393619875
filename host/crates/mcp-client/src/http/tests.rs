//! The transport against servers whose every byte the test chooses. Time is paused where delays
//! matter.

mod eras;
mod streams;

use std::sync::Arc;

use airlock_test_http::{Answer, Server, ok, says};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::{
    decode::Reception,
    inbox::{AwaitedResponse, Inbox, ResponseKind, Unsolicited},
    transport::{OutgoingKind, RequestHead},
};
use airlock_mcp_oauth::{HttpSettings, ServerClient};

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"is":"here"}}"#;

/// A connection to a server, without the layers above the transport.
pub(crate) struct Connection {
    pub(crate) server: Server,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) inbox: Arc<Inbox>,
    _unsolicited: Unsolicited,
}

impl Connection {
    async fn to(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let server = Server::start_by_request(answer).await;
        let settings = HttpSettings::new(server.url("127.0.0.1", "/mcp"));
        Self::with(server, &settings)
    }

    fn with(server: Server, settings: &HttpSettings) -> Self {
        Self::over(server, settings, transport)
    }

    pub(crate) fn over(
        server: Server,
        settings: &HttpSettings,
        transport: fn(HttpConnection) -> Arc<dyn Transport>,
    ) -> Self {
        let (inbox, unsolicited) = Inbox::new(Arc::default());
        let client = ServerClient::new(settings).expect("good settings");
        let extra = settings.extra_headers.clone();
        let transport = transport(HttpConnection::new(client, extra, inbox.clone(), None));
        Self { server, transport, inbox, _unsolicited: unsolicited }
    }

    /// Sends a request with the identifier 1.
    async fn ask(&self, method: &'static str) -> (Result<(), SendError>, AwaitedResponse) {
        self.ask_about(method, None, Vec::new()).await
    }

    async fn ask_about(
        &self,
        method: &'static str,
        name: Option<&str>,
        headers: Vec<(HeaderName, HeaderValue)>,
    ) -> (Result<(), SendError>, AwaitedResponse) {
        let waiting = self.inbox.expect(1, ResponseKind::Whole);
        let head = RequestHead { id: 1, method, name: name.map(str::to_owned), headers };
        (self.post(head).await, waiting)
    }

    pub(crate) fn post(&self, head: RequestHead) -> BoxFuture<'static, Result<(), SendError>> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{}"}}"#, head.method);
        self.transport.send(Outgoing { text, kind: OutgoingKind::Request(head) })
    }

    async fn notify(&self, method: &'static str) -> Result<(), SendError> {
        let text = format!(r#"{{"jsonrpc":"2.0","method":"{method}"}}"#);
        self.transport.send(Outgoing { text, kind: OutgoingKind::Notification(method) }).await
    }

    /// Completes the handshake of the legacy era.
    async fn initialize(&self) {
        let (sent, _waiting) = self.ask("initialize").await;
        sent.expect("it is answered");
        self.transport.negotiated(Version::V2025_11_25);
        self.notify("notifications/initialized").await.expect("it is taken");
    }

    /// Sends a request and returns the response, or the error.
    async fn answer(&self, method: &'static str) -> String {
        let (sent, waiting) = self.ask(method).await;
        outcome(sent, waiting)
    }
}

fn outcome(sent: Result<(), SendError>, mut waiting: AwaitedResponse) -> String {
    match (sent, waiting.response.try_recv()) {
        (_, Ok(Reception::Text(text))) => String::from_utf8(text).expect("UTF-8"),
        (_, Ok(other)) => format!("{other:?}"),
        (Err(error), Err(_)) => format!("error: {error}"),
        (Ok(()), Err(_)) => "nothing".to_owned(),
    }
}

fn json(body: &str) -> Answer {
    says("200 OK", "content-type: application/json\r\n", body)
}

fn accepted() -> Answer {
    says("202 Accepted", "", "")
}

/// Returns the value of a header of a request.
fn header<'r>(request: &'r str, name: &str) -> Option<&'r str> {
    let head = request.split("\r\n\r\n").next().unwrap_or_default();
    let mut lines = head.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// Returns the method of the JSON-RPC message in a request.
fn method(request: &str) -> String {
    let body = request.split("\r\n\r\n").nth(1).unwrap_or_default();
    let message: Value = serde_json::from_str(body).unwrap_or_default();
    message["method"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_response_is_a_json_body_or_an_event_and_its_connection_is_used_again() {
    let connection = Connection::to(|request| {
        if method(request) == "tools/list" {
            let event = format!("data: {RESULT}\n\n");
            return says("200 OK", "content-type: text/event-stream\r\n", &event);
        }
        json(RESULT)
    })
    .await;
    for method in ["ping", "tools/list", "ping", "tools/list", "ping"] {
        assert_eq!(connection.answer(method).await, RESULT, "{method}");
    }
    assert_eq!(connection.server.connections(), 1);
    let requests = connection.server.requests();
    assert_eq!(header(&requests[0], "accept"), Some("application/json, text/event-stream"));
    assert_eq!(header(&requests[0], "content-type"), Some("application/json"));
}

#[tokio::test]
async fn an_error_is_handed_over_whatever_its_status_and_identifier_are() {
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no"}}"#;
    for status in ["200 OK", "400 Bad Request", "404 Not Found", "500 Oops"] {
        let connection =
            Connection::to(move |_| says(status, "content-type: application/json\r\n", error))
                .await;
        assert_eq!(connection.answer("tools/list").await, error, "{status}");
    }
}

#[tokio::test]
async fn a_body_that_is_no_response_fails_the_request() {
    for (answer, expected) in [
        (ok("x"), "error: HTTP 200 OK without a content type"),
        (
            says("200 OK", "content-type: text/html\r\n", "x"),
            r#"error: HTTP 200 OK with the content type "text/html"; expected application/json or text/event-stream"#,
        ),
        (
            json(r#"{"id":2,"result":{}}"#),
            r#"error: the body is no response to the request: {"id":2,"result":{}}"#,
        ),
        (json("{"), "error: the body is no response to the request: {"),
        (accepted(), "error: HTTP 202 Accepted without a response to the request"),
        (
            says("400 Bad Request", "content-type: text/plain\r\n", &"x".repeat(100_000)),
            "error: HTTP 400 Bad Request: the body has more than 65536 bytes",
        ),
    ] {
        let answer = parking_lot::Mutex::new(Some(answer));
        let connection = Connection::to(move |_| answer.lock().take().expect("asked once")).await;
        assert_eq!(connection.answer("tools/list").await, expected);
    }
}

#[tokio::test]
async fn a_body_is_bounded_to_the_byte() {
    for (beyond, expected) in
        [(0, "a result"), (1, "error: the response has more than 4194304 bytes")]
    {
        let connection = Connection::to(move |_| {
            let frame = r#"{"id":1,"result":""}"#;
            let bytes = crate::limits::MAX_MESSAGE_BYTES - frame.len() + beyond;
            json(&frame.replace(r#""""#, &format!("\"{}\"", "x".repeat(bytes))))
        })
        .await;
        let answer = connection.answer("tools/call").await;
        let answer = if answer.starts_with('{') { "a result" } else { &answer };
        assert_eq!(answer, expected);
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_reached_was_sent_nothing_and_one_that_hangs_up_may_have_been() {
    let connection = Connection::to(|_| Answer::HangsUp).await;
    let (sent, _waiting) = connection.ask("tools/call").await;
    assert!(matches!(sent, Err(SendError::Failed(_))), "{sent:?}");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", closed.local_addr().expect("an address"));
    drop(closed);
    let connection = Connection::with(connection.server, &HttpSettings::new(url));
    let (sent, _waiting) = connection.ask("tools/call").await;
    assert!(sent.is_err_and(|error| error.is_unsent()));
}

#[tokio::test]
async fn redirects_within_the_origin_are_followed_and_others_are_not() {
    let connection = Connection::to(|request| match request.split(' ').nth(1) {
        Some("/mcp") => airlock_test_http::redirect(307, "/mcp/"),
        _ => json(RESULT),
    })
    .await;
    assert_eq!(connection.answer("ping").await, RESULT);
    for (status, to) in [(307, "http://localhost:1/mcp"), (302, "/mcp/"), (308, "/mcp")] {
        let connection = Connection::to(move |_| airlock_test_http::redirect(status, to)).await;
        let answer = connection.answer("ping").await;
        assert!(answer.starts_with("error: HTTP 30"), "{answer}");
        assert!(connection.server.requests().len() <= 4);
    }
}

#[tokio::test]
async fn a_redirect_keeps_body_and_credentials_and_leads_to_no_other_origin() {
    let other = Server::start_by_request(|_| json(RESULT)).await;
    let port = other.address.port();
    for (to, is_followed) in [
        ("other?a=1".to_owned(), true),
        ("/mcp/../other?a=1".to_owned(), true),
        (format!("http://127.0.0.1:{port}/other"), false),
        (format!("http://127.0.0.1@127.0.0.1:{port}/other"), false),
        (format!("//127.0.0.1:{port}/other"), false),
        (format!("\\\\127.0.0.1:{port}/other"), false),
        ("file:///other".to_owned(), false),
    ] {
        let shown = to.clone();
        let server = Server::start_by_request(move |request| match request.split(' ').nth(1) {
            Some("/mcp") => airlock_test_http::redirect(307, &to),
            _ => json(RESULT),
        })
        .await;
        let mut settings = HttpSettings::new(server.url("127.0.0.1", "/mcp"));
        let token = airlock_core::secret::Secret::new("hunter2hunter2");
        settings.headers.insert("x-token".into(), token);
        let connection = Connection::with(server, &settings);
        let answer = connection.answer("tools/call").await;
        let requests = connection.server.requests();
        if !is_followed {
            assert!(answer.starts_with("error: HTTP 307") && requests.len() == 1, "{shown}");
            continue;
        }
        let [first, second] = requests.as_slice() else { panic!("{shown}: {requests:?}") };
        assert!(second.starts_with("POST /other?a=1 "), "{second}");
        assert_eq!(header(second, "x-token"), Some("hunter2hunter2"));
        let body = first.split_once("\r\n\r\n").map(|(_, body)| body);
        assert!(body.is_some_and(|body| !body.is_empty() && second.ends_with(body)), "{second}");
        assert_eq!(answer, RESULT);
    }
    assert!(other.requests().is_empty());
}

#[tokio::test]
async fn a_server_that_redirects_and_refuses_the_next_connection_has_received_the_request() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let serving = AbortOnDropHandle::new(tokio::spawn(redirect_once(listener)));
    let connection = Connection::to(|_| Answer::HangsUp).await;
    let connection = Connection::with(connection.server, &HttpSettings::new(url));
    let (sent, _waiting) = connection.ask("tools/call").await;
    let received = serving.await.expect("it has redirected the request");
    assert!(received.ends_with('}'), "with its body: {received}");
    let error = sent.expect_err("nothing listens any more");
    assert!(matches!(error, SendError::Declined(_)), "{error:?}");
    assert_eq!((error.is_unsent(), error.is_undelivered()), (true, false), "{error:?}");
}

/// Redirects one request within the origin, where nothing listens by then. Returns the request.
async fn redirect_once(listener: TcpListener) -> String {
    let (mut stream, _) = listener.accept().await.expect("a connection");
    drop(listener);
    let mut received = Vec::new();
    while !received.ends_with(b"}") {
        let read = stream.read_buf(&mut received).await.expect("a request");
        assert_ne!(read, 0, "the request ends early");
    }
    let response = "HTTP/1.1 307 Elsewhere\r\nlocation: /mcp/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    stream.write_all(response.as_bytes()).await.expect("it is read");
    String::from_utf8(received).expect("UTF-8")
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_not_dialled() {
    // The name is that of this machine in most hosts files, but not `localhost` itself.
    let connection = Connection::to(|_| json(RESULT)).await;
    let url = connection.server.url("ip6-localhost", "/mcp");
    let connection = Connection::with(connection.server, &HttpSettings::new(url));
    let (sent, _waiting) = connection.ask("ping").await;
    assert!(sent.is_err_and(|error| error.is_unsent()));
    assert!(connection.server.requests().is_empty());
}

#[tokio::test]
async fn headers_of_a_request_replace_those_of_the_configuration() {
    let server = Server::start(|_| json(RESULT)).await;
    let mut settings = HttpSettings::new(server.url("127.0.0.1", "/mcp"));
    for (name, value) in [("x-tenant", "everyone"), ("x-key", "k")] {
        settings.headers.insert(name.into(), airlock_core::secret::Secret::new(value));
    }
    let connection = Connection::with(server, &settings);
    let own = (HeaderName::from_static("x-tenant"), HeaderValue::from_static("ann"));
    let (sent, _waiting) = connection.ask_about("tools/call", None, vec![own]).await;
    sent.expect("it is answered");
    connection.answer("ping").await;
    let requests = connection.server.requests();
    for (request, tenant) in [(&requests[0], "ann"), (&requests[1], "everyone")] {
        assert_eq!(header(request, "x-tenant"), Some(tenant));
        assert_eq!(header(request, "x-key"), Some("k"));
    }
    assert_eq!(requests[0].matches("x-tenant").count(), 1);
}
