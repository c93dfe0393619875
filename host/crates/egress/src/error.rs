//! Why there is no response, as the caller is told. The operator's log says more.

use std::borrow::Cow;

/// What kind of failure: the kinds of `airlock:host/http.http-error-kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The policy does not let the request out.
    Denied,
    /// The request cannot be sent as it is.
    InvalidRequest,
    /// The name does not resolve.
    Dns,
    /// Nobody answers there.
    Connect,
    /// The certificate or the encryption is not acceptable.
    Tls,
    /// The time was up.
    Timeout,
    /// The response is larger than allowed.
    TooLarge,
    /// More redirects than allowed.
    TooManyRedirects,
    /// What came back is not HTTP, or broke off.
    Protocol,
    /// The requests of this call are used up, or too many are on their way.
    Unavailable,
}

/// Why there is no response. `Display` is for the guest: it says what is wrong, and neither what
/// would be allowed nor any address that a name stands for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// What kind of failure.
    pub kind: ErrorKind,
    /// The failure in one line.
    pub message: Cow<'static, str>,
    /// Whether the request, or one that was redirected, may have reached a server.
    pub request_sent: bool,
}

impl Error {
    /// A failure of a request that has not been sent.
    pub(super) fn new(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), request_sent: false }
    }

    /// One text for every refusal, so that nothing about the policy can be learnt from their
    /// differences.
    pub fn denied() -> Self {
        Self::new(ErrorKind::Denied, "the request is not permitted")
    }

    /// A request whose task is gone, so that nobody knows how far it came.
    pub fn lost() -> Self {
        Self {
            kind: ErrorKind::Unavailable,
            message: "the request broke off".into(),
            request_sent: true,
        }
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::InvalidRequest, message)
    }

    pub(super) fn timeout() -> Self {
        Self::new(ErrorKind::Timeout, "the time for the request is up")
    }

    /// The same, where something has been sent before it failed.
    pub(super) fn having_sent(mut self, sent: bool) -> Self {
        self.request_sent |= sent;
        self
    }
}
