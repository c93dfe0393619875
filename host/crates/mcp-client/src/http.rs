//! Transport to servers over streamable HTTP, in both eras of the protocol.
//!
//! | module | purpose |
//! |---|---|
//! | `connection` | the state that both transports over HTTP have |
//! | `endpoint` | sends requests with their credentials |
//! | `exchange` | posts a message and receives the response to it |
//! | `resume` | opens streams of events, and opens them again with increasing delays |
//! | `drain` | reads what follows a response, so that its connection can be used again |
//! | `events` | streams of server-sent events, bounded |
//! | `refusal`, `body` | responses that are no success; bodies up to a limit |
//! | `mirror` | headers that mirror arguments (`x-mcp-header`) |
//! | `extra` | headers of callers that are passed on |

mod body;
mod connection;
mod drain;
mod endpoint;
mod events;
mod exchange;
mod extra;
pub(crate) mod mirror;
mod refusal;
mod resume;
#[cfg(test)]
pub(super) mod tests;

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tokio::{sync::SetOnce, time::timeout};

pub(super) use self::{
    connection::HttpConnection,
    drain::Drains,
    endpoint::{Endpoint, Purpose},
    events::{Events, StreamError},
    refusal::{EVENT_STREAM, RefusedResponse, broken, failed, has_type, unexpected_type},
};
use super::{
    connector::OpenError,
    limits::SESSION_END_TIMEOUT,
    transport::{Outgoing, ReceiveError, SendError, Transport},
};
use airlock_core::door::CallerHeaders;
use airlock_mcp_oauth::InvalidSettings;
use airlock_wire::{headers, version::Version};

impl From<InvalidSettings> for OpenError {
    fn from(error: InvalidSettings) -> Self {
        Self::Invalid(error.to_string())
    }
}

pub(super) fn transport(connection: HttpConnection) -> Arc<dyn Transport> {
    Arc::new(Http(Arc::new(HttpSession::new(connection))))
}

/// One connection to a server. Dropping it ends everything that runs for it.
struct Http(Arc<HttpSession>);

/// State of one connection.
struct HttpSession {
    connection: HttpConnection,
    /// Identifier of the session, which the server chose; empty if there is none.
    id: OnceLock<HeaderValue>,
    /// Result of the handshake.
    version: SetOnce<Version>,
    /// Set when the server has taken `notifications/initialized`.
    initialized: SetOnce<()>,
    /// Set while the server keeps a stream open on which it sends on its own.
    is_heard: std::sync::atomic::AtomicBool,
}

impl HttpSession {
    fn new(connection: HttpConnection) -> Self {
        Self {
            connection,
            id: OnceLock::new(),
            version: SetOnce::new(),
            initialized: SetOnce::new(),
            is_heard: false.into(),
        }
    }

    /// Returns whether the connection is of the modern era; false before the handshake.
    fn is_modern(&self) -> bool {
        self.version.get().is_some_and(|version| version.is_modern())
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
        if self.id.get().is_none() || self.connection.is_expired() {
            return;
        }
        let mut own = HeaderMap::new();
        self.add_own(&mut own);
        let HttpConnection { endpoint, inbox, .. } = &self.connection;
        let sending =
            endpoint.send(Purpose::Aside, (Method::DELETE, endpoint.url()), own, None, inbox);
        // The connection is closed in any case.
        let _ = timeout(SESSION_END_TIMEOUT, sending).await;
    }
}

impl Transport for Http {
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let session = self.0.clone();
        Box::pin(async move { session.connection.send(session.exchange(message)).await })
    }

    fn receive(&self) -> BoxFuture<'_, ReceiveError> {
        Box::pin(async {
            let session = &self.0;
            session.connection.receive(async { match session.listen().await {} }).await
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
        self.0.connection.endpoint.pass_on(caller)
    }

    fn address(&self) -> Option<(String, u16)> {
        self.0.connection.endpoint.address()
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.0.connection.close();
            self.0.end().await;
        })
    }
}

impl Drop for Http {
    fn drop(&mut self) {
        self.0.connection.close();
    }
}

/// Adds headers that only one request has.
fn add_all(headers: &mut HeaderMap, own: Vec<(HeaderName, HeaderValue)>) {
    for (name, value) in own {
        headers.insert(name, value);
    }
}
