//! Opens a connection: from settings to a server that has completed the handshake.

use std::sync::Arc;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::{
    channel::{Owner, ProcessExit},
    connector::{Opened, Opening},
    credentials::Credentials,
    error::{ConnectionError, ConnectionFailure},
    handshake::{self, Handshake, HandshakeError, Identity},
    inbox::{Inbox, Unsolicited},
    limits::{CLOSE_TIMEOUT, END_PATIENCE, PING_RETRY, PING_TIMEOUT},
    link::{AbandonedRequests, AskError, Link, Receiver, Request},
    listing::{self, ToolList},
    logs::StderrLogs,
    settings::Settings,
};
use airlock_core::tool::Cause;
use airlock_wire::method;

/// Settings of one attempt to connect.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    /// Handshake that is tried.
    pub handshake: Handshake,
    /// True if messages to a process are framed with `Content-Length`.
    pub has_headers: bool,
}

/// A connected server.
pub struct Connection {
    /// Sends messages to the server.
    pub link: Arc<Link>,
    /// Owner of the server's process; `None` if the gateway has not started the server.
    pub(super) process: Option<Box<dyn Owner>>,
    /// Receives messages, and returns the reason that the connection ended.
    pub receiver: Receiver,
    /// End of the time to start, the first list of tools included.
    pub deadline: Instant,
    /// Taken by the one who serves the connection.
    pub intake: Option<Intake>,
}

/// Queues of a connection, for the one who serves it.
pub struct Intake {
    /// Messages that the server sends on its own.
    pub unsolicited: Unsolicited,
    /// Abandoned work, whose cancellations are to be sent.
    pub abandoned: AbandonedRequests,
}

impl Connection {
    /// Opens the transport and completes the handshake within the startup timeout, in which the tools
    /// are to be listed too. If that fails, the process behind it is stopped. The stderr of the process
    /// is added to `logs`.
    pub async fn open(
        settings: &Settings,
        credentials: &Credentials,
        logs: &StderrLogs,
        attempt: Attempt,
    ) -> Result<Self, ConnectionFailure> {
        let (inbox, unsolicited) = Inbox::new(credentials.redactor().clone());
        let startup = settings.timeouts.startup;
        let deadline = Instant::now() + startup;
        let opening = settings.transport.open(Opening {
            client: &settings.name,
            inbox: inbox.clone(),
            authority: credentials.authority().cloned(),
            has_headers: attempt.has_headers,
        });
        let opened = timeout_at(deadline, opening).await;
        let opened = opened.map_err(|_| ConnectionError::StartupTimeout(startup))?;
        let Opened { transport, process } = opened.map_err(ConnectionError::Open)?;
        if let Some(process) = &process {
            logs.follow(process.stderr());
        }
        let (link, abandoned, receiver) = Link::open(transport, inbox);
        let intake = Some(Intake { unsolicited, abandoned });
        let mut connection = Self { link, process, receiver, deadline, intake };
        let identity = Identity::new(&settings.name, settings.questions);
        let link = connection.link.clone();
        let completing = handshake::complete_handshake(&link, &identity, attempt.handshake);
        let error = tokio::select! {
            biased;
            ended = &mut connection.receiver => ended.map_or(ConnectionError::Closed, Into::into),
            completed = timeout_at(deadline, completing) => match completed {
                Ok(Ok(())) => return Ok(connection),
                // The receiver knows why the connection ended, and may tell it a moment later.
                Ok(Err(HandshakeError::Closed)) => connection.end().await,
                Ok(Err(error)) => error.into(),
                Err(_) => ConnectionError::StartupTimeout(startup),
            },
        };
        Err(connection.close(error).await)
    }

    /// Returns the reason that the connection has ended, as soon as it is known. The receiver must not
    /// have told it already.
    ///
    /// # Panics
    ///
    /// Panics if the receiver has told it.
    pub async fn end(&mut self) -> ConnectionError {
        match timeout(END_PATIENCE, &mut self.receiver).await {
            Ok(Ok(reason)) => reason.into(),
            Ok(Err(_)) | Err(_) => ConnectionError::Closed,
        }
    }

    /// Returns the number of the server's process; `None` if it is no process of this machine that the
    /// gateway has started.
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref()?.process_id()
    }

    /// Lists the tools.
    pub fn list(&self) -> impl Future<Output = Result<ToolList, ConnectionError>> + Send + use<> {
        // The future does not borrow the owner of the process, which is not `Sync`.
        let link = self.link.clone();
        async move {
            let listed = listing::read_tools(&link).await;
            listed.map_err(|error| ConnectionError::asked(error, ConnectionError::ListTools))
        }
    }

    /// Closes the connection because of an error, and stops the process behind it.
    pub async fn close(self, error: ConnectionError) -> ConnectionFailure {
        self.link.record_failure();
        // A flood is the cause of any other error.
        let error = self.link.inbox().flood().map_or(error, ConnectionError::Flood);
        // What was written later than the start concerns no start.
        let is_starting = self.process.is_some() && self.intake.is_some();
        let noise = is_starting.then(|| self.link.inbox().noise()).flatten();
        let is_silent = self.link.inbox().is_silent();
        let exit = self.shut_down().await;
        ConnectionFailure { error, exit, noise, is_silent }
    }

    /// Closes the connection and stops the process behind it. Returns its exit; `None` if there is
    /// no process.
    pub async fn shut_down(self) -> Option<ProcessExit> {
        // What takes longer is dropped, and the pipe with it.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.link.transport().close()).await;
        self.link.inbox().disconnect();
        drop(self.receiver);
        match self.process {
            Some(process) => Some(process.stop().await),
            None => None,
        }
    }
}

/// Checks that a server responds. An error that comes from the server counts as a response.
pub async fn check_connection(link: &Link) -> Result<(), ConnectionError> {
    let method = if link.is_modern() { method::DISCOVER } else { method::PING };
    let asking = async {
        loop {
            match link.ask(Request::new(method)).text().await {
                // A full outbox only shows that the server is busy.
                Err(error) if error.is_full() => sleep(PING_RETRY).await,
                answered => return answered,
            }
        }
    };
    match timeout(PING_TIMEOUT, asking).await {
        Err(_) => Err(ConnectionError::PingTimeout(PING_TIMEOUT)),
        Ok(Ok(_) | Err(AskError::TooLarge | AskError::Unreadable(_))) => Ok(()),
        Ok(Err(error)) => Err(ConnectionError::asked(error, |error| {
            ConnectionError::Unreachable(Cause::from(error))
        })),
    }
}

#[cfg(test)]
mod tests {
    use airlock_test_http::{Server, says};

    use super::*;
    use crate::http_server::{HttpServer, HttpTransport};
    use airlock_core::tool::ClientName;
    use airlock_mcp_oauth::HttpSettings;

    /// Returns the reason that a server cannot be connected that answers every request like this.
    async fn reason(
        status: &'static str,
        head: &'static str,
        body: &'static str,
        transport: HttpTransport,
    ) -> String {
        let server = Server::start_by_request(move |_| says(status, head, body)).await;
        let settings = HttpSettings::new(server.url("127.0.0.1", "/mcp"));
        let name = ClientName::parse("up").expect("a name");
        let settings = Settings::new(name, HttpServer { transport, settings });
        let credentials = Arc::<Credentials>::default();
        let logs = StderrLogs::default();
        let attempt = Attempt { handshake: Handshake::ModernFirst, has_headers: false };
        let opened = Connection::open(&settings, &credentials, &logs, attempt).await;
        opened.err().expect("it is refused").reason(&settings, &credentials.scrubber())
    }

    #[tokio::test]
    async fn the_refusal_of_an_event_stream_is_always_the_reason() {
        for _ in 0..20 {
            let body = "No valid session ID provided";
            let reason = reason("400 Bad Request", "", body, HttpTransport::Sse).await;
            assert_eq!(
                reason,
                "the handshake failed: HTTP 400 Bad Request: No valid session ID provided; \
                 if the server speaks streamable HTTP, set `connection_type` to \"http\""
            );
        }
    }

    #[tokio::test]
    async fn an_http_server_of_the_other_transport_is_told_with_its_status() {
        let html = "content-type: text/html\r\n";
        let reason =
            reason("404 Not Found", html, "Cannot POST /mcp", HttpTransport::Streamable).await;
        insta::assert_snapshot!(reason, @r#"the handshake failed: HTTP 404 Not Found: Cannot POST /mcp; if the server speaks HTTP+SSE, the transport of 2024-11-05, set `connection_type` to "sse""#);
    }

    #[tokio::test]
    async fn a_refusal_without_json_rpc_has_its_status_and_no_code() {
        let json = "content-type: application/json\r\n";
        let body = r#"{"error":{"message":"no such tenant"}}"#;
        let reason = reason("404 Not Found", json, body, HttpTransport::Streamable).await;
        assert!(
            reason.contains(r#"HTTP 404 Not Found: {"error":{"message":"no such tenant"}}"#),
            "{reason}"
        );
        assert!(!reason.contains("code"), "{reason}");
        let body = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#;
        let reason = self::reason("400 Bad Request", json, body, HttpTransport::Streamable).await;
        insta::assert_snapshot!(reason, @"it refused the handshake with code -32000: HTTP 400 Bad Request: no");
    }
}
