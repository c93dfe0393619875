//! Transport to servers over streamable HTTP, in both eras of the protocol.
//!
//! | module | purpose |
//! |---|---|
//! | `endpoint` | the HTTP client of one server: TLS, redirects, permitted addresses |
//! | `exchange` | posts a message and receives the response to it |
//! | `resume` | opens streams of events, and opens them again with increasing delays |
//! | `drain` | reads what follows a response, so that its connection can be used again |
//! | `events` | streams of server-sent events, bounded |
//! | `refusal`, `body` | responses that are no success; bodies up to a limit |
//! | `mirror` | headers that mirror arguments (`x-mcp-header`) |
//! | `authorities` | certificates that are trusted |
//! | `extra` | headers of callers that are passed on |

mod authorities;
mod body;
mod drain;
mod endpoint;
mod events;
mod exchange;
mod extra;
pub mod mirror;
mod refusal;
mod resume;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::{
    sync::{Semaphore, SetOnce},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

pub use self::{
    authorities::{Authorities, BadAuthorities},
    extra::{ExtraHeaders, is_reserved},
    settings::{HttpSettings, InvalidSettings},
};
pub(super) use self::{
    drain::Drains,
    endpoint::{Endpoint, Purpose},
    events::{Events, StreamError},
    refusal::{EVENT_STREAM, Refusal, broken, failed, has_type, unexpected_type},
};
use super::{
    connector::{Connector, OpenError, Opened, Opening, UnusableFile},
    inbox::Inbox,
    limits::{MAX_HTTP_CONTROL, MAX_HTTP_REQUESTS, SESSION_END_TIMEOUT},
    oauth::Authorizer,
    secrets::Secrets,
    transport::{Outgoing, ReceiveError, SendError, Transport},
};
use airlock_core::{door::CallerHeaders, tool::Cause};
use airlock_strings::with_causes;
use airlock_wire::{headers, version::Version};

/// Statuses of a server that speaks the other transport over HTTP.
pub(super) const OTHER_TRANSPORT: [&str; 5] =
    ["HTTP 404", "HTTP 405", "HTTP 400", "HTTP 406", "with the content type"];

/// A server over streamable HTTP.
#[derive(Debug, Clone, Default)]
pub struct StreamableHttp(pub HttpSettings);

impl Connector for StreamableHttp {
    fn connection_type(&self) -> &'static str {
        "http"
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
        OTHER_TRANSPORT[..2].iter().any(|text| error.contains(text)).then_some(
            "if the server speaks HTTP+SSE, the transport of 2024-11-05, set `connection_type` to \"sse\"",
        )
    }
}

impl From<InvalidSettings> for OpenError {
    fn from(error: InvalidSettings) -> Self {
        Self::Invalid(error.to_string())
    }
}

/// Checks the file of certificates.
pub(super) fn check_files(settings: &HttpSettings) -> Vec<UnusableFile> {
    let unusable = settings
        .authorities
        .read()
        .err()
        .map(|error| UnusableFile { key: "tls_config".to_owned(), message: with_causes(&error) });
    unusable.into_iter().collect()
}

/// Creates the transport. Nothing is sent yet. Fails if the URL, a header or a certificate cannot be
/// used.
fn transport(
    settings: &HttpSettings,
    inbox: Arc<Inbox>,
    authorizer: Option<Arc<Authorizer>>,
) -> Result<Arc<dyn Transport>, InvalidSettings> {
    Ok(Arc::new(Http(Arc::new(Session::new(Endpoint::new(settings, authorizer)?, inbox)))))
}

/// Receives with `receiving` until the connection ends, and returns the reason: a flood, its end on
/// the gateway's side, a forgotten session, or the end of `receiving`.
pub(super) async fn ends(
    inbox: &Inbox,
    closed: &CancellationToken,
    expired: &CancellationToken,
    receiving: impl Future<Output = ReceiveError>,
) -> ReceiveError {
    tokio::select! {
        flood = inbox.flooded() => ReceiveError::Flood(flood),
        () = closed.cancelled() => ReceiveError::Closed,
        () = expired.cancelled() => ReceiveError::Lost(Cause::from(SendError::SessionExpired)),
        ended = receiving => ended,
    }
}

/// One connection to a server. Dropping it ends everything that runs for it.
struct Http(Arc<Session>);

/// State of one connection.
struct Session {
    endpoint: Endpoint,
    inbox: Arc<Inbox>,
    /// Identifier of the session, which the server chose; empty if there is none.
    id: OnceLock<HeaderValue>,
    /// Result of the handshake.
    version: SetOnce<Version>,
    /// Set when the server has taken `notifications/initialized`.
    initialized: SetOnce<()>,
    /// Set while the server keeps a stream open on which it sends on its own.
    is_heard: std::sync::atomic::AtomicBool,
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
            id: OnceLock::new(),
            version: SetOnce::new(),
            initialized: SetOnce::new(),
            is_heard: false.into(),
            expired: CancellationToken::new(),
            closed,
            requests: Semaphore::new(MAX_HTTP_REQUESTS),
            control: Semaphore::new(MAX_HTTP_CONTROL),
        }
    }

    /// Returns whether the connection is of the modern era; false before the handshake.
    fn is_modern(&self) -> bool {
        self.version.get().is_some_and(|version| version.is_modern())
    }

    /// Records that the server has forgotten the session, which ends the connection.
    fn expire(&self) -> SendError {
        self.expired.cancel();
        SendError::SessionExpired
    }

    /// Adds the headers that name the session and the revision of the protocol.
    fn add_own(&self, headers: &mut HeaderMap) {
        if let Some(id) = self.id.get() {
            headers.insert(headers::SESSION, id.clone());
        }
        if let Some(version) = self.version.get() {
            headers.insert(headers::VERSION, HeaderValue::from_static(version.as_str()));
        }
    }

    /// Ends the session at the server, which need not support it.
    async fn end(&self) {
        if self.id.get().is_none() || self.expired.is_cancelled() {
            return;
        }
        let mut own = HeaderMap::new();
        self.add_own(&mut own);
        let url = self.endpoint.url();
        let sending =
            self.endpoint.send(Purpose::Aside, (Method::DELETE, url), own, None, &self.inbox);
        // The connection is closed in any case.
        let _ = timeout(SESSION_END_TIMEOUT, sending).await;
    }
}

impl Transport for Http {
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let session = self.0.clone();
        Box::pin(async move {
            let sent = session.closed.run_until_cancelled(session.exchange(message)).await;
            sent.unwrap_or(Err(SendError::Closed))
        })
    }

    fn receive(&self) -> BoxFuture<'_, ReceiveError> {
        Box::pin(async {
            let session = &self.0;
            let Session { inbox, closed, expired, .. } = &**session;
            ends(inbox, closed, expired, async { match session.listen().await {} }).await
        })
    }

    fn negotiated(&self, version: Version) {
        // The handshake is completed once.
        let _ = self.0.version.set(version);
    }

    fn cancels_by_drop(&self) -> bool {
        self.0.is_modern()
    }

    fn mirrors_parameters(&self) -> bool {
        self.0.is_modern()
    }

    fn pass_on(&self, caller: &CallerHeaders) -> Vec<(HeaderName, HeaderValue)> {
        self.0.endpoint.extra_headers().select(caller)
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.closed.cancel();
            self.0.end().await;
        })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.0.closed.cancel();
    }
}

/// Adds headers that only one request has.
fn add_all(headers: &mut HeaderMap, own: Vec<(HeaderName, HeaderValue)>) {
    for (name, value) in own {
        headers.insert(name, value);
    }
}
