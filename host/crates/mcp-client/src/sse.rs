//! Transport to servers over HTTP+SSE, the transport of 2024-11-05: everything that the server sends
//! comes on one stream of events, whose first event names the URL to which messages are posted.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use reqwest::{Response, Url};
use tokio::sync::{Semaphore, SetOnce};
use tokio_util::sync::CancellationToken;

use super::{
    connector::{Connector, OpenError, Opened, Opening, UnusableFile},
    http::{
        Drains, EVENT_STREAM, Endpoint, Events, HttpSettings, InvalidSettings, OTHER_TRANSPORT,
        Purpose, Refusal, check_files, ends, failed, has_type, unexpected_type,
    },
    inbox::Inbox,
    limits::{MAX_HTTP_CONTROL, MAX_HTTP_REQUESTS, MAX_URL_BYTES},
    oauth::Authorizer,
    secrets::Secrets,
    transport::{Outgoing, OutgoingKind, ReceiveError, SendError, Transport},
};
use airlock_core::{door::CallerHeaders, tool::Cause};
use airlock_wire::{
    sse::{Event, Item},
    version::Version,
};

/// A server over HTTP+SSE.
#[derive(Debug, Clone, Default)]
pub struct HttpSse(pub HttpSettings);

impl Connector for HttpSse {
    fn connection_type(&self) -> &'static str {
        "sse"
    }

    fn open<'a>(&'a self, opening: Opening<'a>) -> BoxFuture<'a, Result<Opened, OpenError>> {
        Box::pin(async move {
            let transport = transport(&self.0, opening.inbox, opening.authorizer)?;
            Ok(Opened { transport, process: None })
        })
    }

    fn secrets(&self) -> Secrets {
        self.0.secrets()
    }

    fn http(&self) -> Option<&HttpSettings> {
        Some(&self.0)
    }

    fn check_files(&self) -> Vec<UnusableFile> {
        check_files(&self.0)
    }

    fn advice(&self, error: &str) -> Option<&'static str> {
        OTHER_TRANSPORT
            .iter()
            .any(|text| error.contains(text))
            .then_some("if the server speaks streamable HTTP, set `connection_type` to \"http\"")
    }
}

/// Creates the transport. Nothing is sent yet. Fails if the URL, a header or a certificate cannot be
/// used.
fn transport(
    settings: &HttpSettings,
    inbox: Arc<Inbox>,
    authorizer: Option<Arc<Authorizer>>,
) -> Result<Arc<dyn Transport>, InvalidSettings> {
    Ok(Arc::new(Sse(Arc::new(Session::new(Endpoint::new(settings, authorizer)?, inbox)))))
}

/// One connection to a server. Dropping it ends everything that runs for it.
struct Sse(Arc<Session>);

/// State of one connection.
struct Session {
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    /// URL to which messages are posted, once the server has named it.
    target: SetOnce<Url>,
    expired: CancellationToken,
    closed: CancellationToken,
    requests: Semaphore,
    control: Semaphore,
    drains: Drains,
}

impl Session {
    fn new(endpoint: Endpoint, inbox: Arc<Inbox>) -> Self {
        let closed = CancellationToken::new();
        Self {
            endpoint,
            drains: Drains::new(inbox.clone(), closed.clone()),
            inbox,
            target: SetOnce::new(),
            expired: CancellationToken::new(),
            closed,
            requests: Semaphore::new(MAX_HTTP_REQUESTS),
            control: Semaphore::new(MAX_HTTP_CONTROL),
        }
    }

    /// Receives the stream until it ends. A broken stream cannot be resumed, so the connection ends
    /// with it.
    async fn hear(&self) -> ReceiveError {
        let mut events = match self.open().await {
            Ok(response) => Events::new(response, self.inbox.clone()),
            Err(error) => return ReceiveError::NotOpened(error),
        };
        loop {
            match events.next().await {
                Ok(Some(Item::Event(event))) if event.kind == "endpoint" => {
                    if let Err(error) = self.name_target(&event) {
                        return error;
                    }
                }
                Ok(Some(Item::Event(event))) => {
                    if let Some(text) = event.message() {
                        self.inbox.receive(text);
                    }
                }
                Ok(Some(Item::TooLong { answered })) => {
                    if let Some(id) = answered {
                        self.inbox.refuse_too_long(id);
                    }
                }
                Ok(None) => return ReceiveError::Closed,
                Err(error) => return ReceiveError::Lost(Cause::from(error)),
            }
        }
    }

    async fn open(&self) -> Result<Response, SendError> {
        let mut own = HeaderMap::new();
        own.insert(header::ACCEPT, HeaderValue::from_static(EVENT_STREAM));
        let url = self.endpoint.url();
        let response =
            self.endpoint.send(Purpose::Own, (Method::GET, url), own, None, &self.inbox).await?;
        if !response.status().is_success() {
            return Err(Refusal::read(response, &self.inbox).await.into_error(&self.inbox));
        }
        if !has_type(&response, EVENT_STREAM) {
            return Err(unexpected_type(&response, &[EVENT_STREAM], &self.inbox));
        }
        Ok(response)
    }

    /// Reads the URL that the server names. The credentials are for the origin of the
    /// configuration, so the URL must have the same one. Later events that name one are ignored.
    fn name_target(&self, event: &Event) -> Result<(), ReceiveError> {
        let text = std::str::from_utf8(&event.data).ok().filter(|text| text.len() <= MAX_URL_BYTES);
        let base = self.endpoint.url();
        let target = text.and_then(|text| base.join(text.trim()).ok());
        let target = target.filter(|target| target.origin() == base.origin());
        let Some(target) = target else {
            let reason = "the server names an endpoint that is no URL of its own origin";
            return Err(ReceiveError::NotOpened(failed(reason)));
        };
        let _ = self.target.set(target);
        Ok(())
    }

    async fn post(&self, message: Outgoing) -> Result<(), SendError> {
        let Outgoing { text, kind } = message;
        let purpose = Purpose::of(&kind);
        let (permits, mut own, request) = match kind {
            OutgoingKind::Request(head) => {
                let own = head.headers.iter().cloned().collect();
                (&self.requests, own, Some((head.id, head.method)))
            }
            _ => (&self.control, HeaderMap::new(), None),
        };
        // The semaphores are never closed.
        let _permit = permits.acquire().await.map_err(|_| SendError::Closed)?;
        let target = self.target.wait().await;
        own.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let response = self
            .endpoint
            .send(purpose, (Method::POST, target), own, Some(text), &self.inbox)
            .await?;
        let status = response.status();
        if status.is_success() {
            self.drains.body(response);
            return Ok(());
        }
        let is_probe = request.is_some_and(|(_, method)| method == "server/discover");
        if status == StatusCode::NOT_FOUND && !is_probe {
            self.expired.cancel();
            return Err(SendError::SessionExpired);
        }
        let refusal = Refusal::read(response, &self.inbox).await;
        match request {
            Some((id, method)) => {
                refusal.hand_over(id, is_probe, method == "initialize", &self.inbox)
            }
            None => Err(refusal.into_error(&self.inbox)),
        }
    }
}

impl Transport for Sse {
    /// Sends a message. Completes when the server has taken it: the response comes on the stream.
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let session = self.0.clone();
        Box::pin(async move {
            let sent = session.closed.run_until_cancelled(session.post(message)).await;
            sent.unwrap_or(Err(SendError::Closed))
        })
    }

    fn receive(&self) -> BoxFuture<'_, ReceiveError> {
        Box::pin(async {
            let session = &self.0;
            let Session { inbox, closed, expired, .. } = &**session;
            ends(inbox, closed, expired, session.hear()).await
        })
    }

    fn negotiated(&self, _: Version) {}

    fn pass_on(&self, caller: &CallerHeaders) -> Vec<(HeaderName, HeaderValue)> {
        self.0.endpoint.extra_headers().select(caller)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async { self.0.closed.cancel() })
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.0.closed.cancel();
    }
}

#[cfg(test)]
mod tests;
