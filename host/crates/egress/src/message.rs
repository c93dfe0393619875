//! Requests and responses of a caller, as plain data. Requests hold unchecked text: it is checked
//! when they are sent.

use std::time::Duration;

use airlock_core::tenant::Reservation;
use bytes::Bytes;

/// A caller's request, before any check.
#[derive(Debug, Clone, Default)]
pub struct EgressRequest {
    /// `GET` and the like, in capitals. CONNECT and TRACE are refused.
    pub method: String,
    /// An absolute URL without user and password, at most 8 KiB.
    pub url: String,
    /// At most 64 headers, with at most 64 KiB together.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body. GET and HEAD must have none.
    pub body: Option<Bytes>,
    /// Time limit for the whole exchange, if it is shorter than the bound. In any case, the exchange
    /// ends a little before the call, so that the caller can handle the timeout.
    pub timeout: Option<Duration>,
    /// Maximum bytes of the response's body, if it is less than the bound.
    pub max_response_bytes: Option<u64>,
    /// Names of credentials to attach: at most 8, each once. No two may set the same header or
    /// query parameter.
    pub credentials: Vec<String>,
    /// Handling of redirects.
    pub redirects: Redirects,
}

/// Handling of redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Redirects {
    /// Follows each redirect after a policy decision of its own. Another origin receives the body
    /// and only the headers that are valid for any origin (`accept`, `content-type` and the like).
    /// It receives nothing if the URL, these headers or the body contain the value of a credential.
    #[default]
    Follow,
    /// Returns the redirect as the response. Its `location` has no value of a credential, and not
    /// the query parameter that carries one.
    Manual,
}

/// A complete response.
#[derive(Debug)]
pub struct EgressResponse {
    /// Status code.
    pub status: u16,
    /// Headers as received, in lower case. Values of credentials are redacted, as in the body.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body as received, not decompressed.
    pub body: Vec<u8>,
    /// URL of the response, without any credential.
    pub final_url: String,
    /// Memory that the body counts against. Keep it as long as the body.
    pub memory: Reservation,
}
