//! The contract between a connection and its transport.

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};

use super::{flood::Flood, limits::MAX_MESSAGE_BYTES};
use airlock_core::{door::CallerHeaders, tool::Cause};
use airlock_wire::version::Version;

/// Carries JSON-RPC messages to one server and back. Everything that the server sends goes to the
/// connection's [`Inbox`](super::inbox::Inbox), which every transport is created with.
pub trait Transport: Send + Sync {
    /// Sends a message. Completes when the server has taken it. Over HTTP, the future of a request
    /// completes when its response has been read, so its receiver knows the response by then.
    ///
    /// Dropping the future of a request ends the exchange on the gateway's side: a message that is
    /// being written is written to its end, and an HTTP response is closed.
    fn send(&self, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>>;

    /// Receives what the server sends on its own, until the connection ends. Returns the reason
    /// that it ended.
    fn receive(&self) -> BoxFuture<'_, ReceiveError>;

    /// Records the result of the handshake. Called once, before any further message is sent.
    fn negotiated(&self, version: Version);

    /// Returns whether the server notices that the future of a request was dropped, so that it
    /// needs no `notifications/cancelled`.
    fn cancels_by_drop(&self) -> bool {
        false
    }

    /// Returns whether requests carry headers that mirror their parameters (2026-07-28, section
    /// "Streamable HTTP").
    fn mirrors_parameters(&self) -> bool {
        false
    }

    /// Returns the headers of a caller's request that are passed on with its calls.
    fn pass_on(&self, _: &CallerHeaders) -> Vec<(HeaderName, HeaderValue)> {
        Vec::new()
    }

    /// Returns the host and the port of a server that is reached over a network; `None` for a process.
    fn address(&self) -> Option<(String, u16)> {
        None
    }

    /// Closes the connection on the gateway's side. Pending messages fail as closed.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A message to the server.
#[derive(Debug)]
pub struct Outgoing {
    /// JSON text, on one line.
    pub(super) text: String,
    /// Kind of the message.
    pub(super) kind: OutgoingKind,
}

/// Kind of a message to the server, with what a transport has to know of it.
#[derive(Debug)]
pub(crate) enum OutgoingKind {
    /// A request.
    Request(RequestHead),
    /// A notification, by its method.
    Notification(&'static str),
    /// The response to a request of the server.
    Response,
}

/// A request as far as a transport has to know it.
#[derive(Debug, Clone)]
pub(crate) struct RequestHead {
    /// Its identifier.
    pub(super) id: i64,
    /// Its method.
    pub(super) method: &'static str,
    /// Name of the tool or prompt, or URI of the resource, that the request is about.
    pub(super) name: Option<String>,
    /// Headers of this request alone, besides those of the configuration.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

/// Reason that a message was not sent, or that no response was received.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// Too many messages are in flight. Nothing was sent.
    #[error("the server does not read what it is sent")]
    Full,
    /// The connection was closed while the message was in flight.
    #[error("the connection is closed")]
    Closed,
    /// Nothing was sent.
    #[error(transparent)]
    NotSent(Cause),
    /// The server may have received the message.
    #[error(transparent)]
    Failed(Cause),
    /// The response is longer than a message may be.
    #[error("the response has more than {MAX_MESSAGE_BYTES} bytes")]
    TooLarge,
    /// The server has forgotten the session, so that a new connection is needed.
    #[error("the server has ended the session")]
    SessionExpired,
    /// The server wants other credentials.
    #[error("the server refuses the credentials: {0}")]
    Unauthorized(String),
    /// The credentials of the request are of no use: the operator or the user has to log in, or the caller's
    /// token has to be exchanged once more. Nothing was executed.
    #[error(transparent)]
    LoginNeeded(Cause),
    /// The server has received the message and not executed it: it has refused its credentials, and no others can be
    /// obtained now, or it has redirected the message, and the request to the target has failed.
    #[error(transparent)]
    Declined(Cause),
}

impl SendError {
    /// Returns whether the server cannot have acted on the message.
    pub(super) fn is_unsent(&self) -> bool {
        self.is_undelivered() || matches!(self, Self::LoginNeeded(_) | Self::Declined(_))
    }

    /// Returns whether the server cannot have received the message.
    pub(super) fn is_undelivered(&self) -> bool {
        matches!(self, Self::Full | Self::NotSent(_))
    }
}

/// Reason that a transport receives nothing more.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The connection ended.
    #[error("the connection ended")]
    Closed,
    /// The server floods the gateway.
    #[error(transparent)]
    Flood(#[from] Flood),
    /// The stream of the server's messages was not opened.
    #[error(transparent)]
    NotOpened(SendError),
    /// The connection was lost.
    #[error(transparent)]
    Lost(Cause),
}
