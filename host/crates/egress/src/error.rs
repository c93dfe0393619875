//! Errors of outbound requests, as the caller sees them. The operator's log has more details.

use std::borrow::Cow;

/// Kind of failure, one of the kinds of `airlock:host/http.http-error-kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EgressErrorKind {
    /// The policy does not permit the request.
    Denied,
    /// The request cannot be sent as it is.
    InvalidRequest,
    /// The name does not resolve.
    Dns,
    /// There is no connection to the server.
    Connect,
    /// The certificate or the encryption is not acceptable.
    Tls,
    /// The time limit was reached.
    Timeout,
    /// The response is larger than allowed.
    TooLarge,
    /// More redirects than allowed.
    TooManyRedirects,
    /// The response is not HTTP or was cut off, or its redirect cannot be followed.
    Protocol,
    /// The call has used all its requests. Another request of the same call fails too.
    LimitReached,
    /// Too many requests are in flight, or there is no memory for the response. A later request may
    /// succeed.
    Unavailable,
    /// The host failed.
    Other,
}

/// Reason that there is no response. `Display` is for the guest: it describes the failure, but
/// neither what the policy permits nor any address of a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EgressError {
    /// Kind of failure.
    pub kind: EgressErrorKind,
    /// The failure in one line.
    pub message: Cow<'static, str>,
    /// True if the request, or one that was redirected, may have reached a server.
    pub request_sent: bool,
}

impl EgressError {
    /// Creates the error of a request that has not been sent.
    pub(super) fn new(kind: EgressErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self { kind, message: message.into(), request_sent: false }
    }

    /// Returns the error of every refusal. Its text is always the same, so that a caller learns
    /// nothing about the policy from differences.
    pub fn denied() -> Self {
        Self::new(EgressErrorKind::Denied, "the request is not permitted")
    }

    /// Returns the error of a request of a tool that does not declare `effect`.
    pub fn undeclared(effect: &str) -> Self {
        let message = format!("the tool does not declare the effect {effect:?} in plugin.toml");
        Self::new(EgressErrorKind::Denied, message)
    }

    /// Returns the error of a request whose task is gone, so that its progress is unknown.
    pub fn lost() -> Self {
        Self {
            kind: EgressErrorKind::Other,
            message: "the request was interrupted".into(),
            request_sent: true,
        }
    }

    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(EgressErrorKind::InvalidRequest, message)
    }

    pub(super) fn timeout() -> Self {
        Self::new(EgressErrorKind::Timeout, "the time for the request is up")
    }

    /// Returns the same error, marked as sent if `sent` is true.
    pub(super) fn having_sent(mut self, sent: bool) -> Self {
        self.request_sent |= sent;
        self
    }
}
