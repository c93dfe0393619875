//! HTTP requests, to the destinations that the plugin requests in its `plugin.toml` and the
//! operator grants.
//!
//! The host resolves the name, checks the address, follows redirects by the same rules, and
//! attaches a credential that the plugin names but never sees. In native builds, the requests go to
//! the server of a [`testing::Host`](crate::testing::Host).
//!
//! ```no_run
//! use airlock_guest::{Error, http::Request, serde_json::Value};
//!
//! fn forecast(city: &str) -> Result<Value, Error> {
//!     let response = Request::get("https://api.example.com/v1/forecast")
//!         .with_query("city", city)
//!         .with_credential("token")
//!         .send()?;
//!     response.ok()?.json()
//! }
//! ```

use std::fmt;
use std::time::Duration;

use serde::{Serialize, de::DeserializeOwned};

use crate::bindings::airlock::host::http as wit;
use crate::host::http as host;
use crate::{Error, ErrorKind, wire};

/// A request that is not sent yet.
#[derive(Debug, Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request(host::Request);

/// Treatment of a response that redirects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Redirects {
    /// The host follows it, if the policy permits the new request.
    Follow,
    /// The response is returned as it is.
    Manual,
}

/// A response of any status; see [`Response::ok`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Headers as they were received.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
    /// URL of the response, after redirects.
    pub final_url: String,
}

impl Request {
    /// Creates a request with a method, which is sent in capitals, and an absolute URL.
    pub fn new(method: impl Into<String>, url: impl Into<String>) -> Self {
        Self(host::Request {
            method: method.into().to_ascii_uppercase(),
            url: url.into(),
            headers: Vec::new(),
            body: None,
            timeout_ms: None,
            max_response_bytes: None,
            credentials: Vec::new(),
            redirects: host::Redirects::Follow,
        })
    }

    /// Creates a GET request.
    pub fn get(url: impl Into<String>) -> Self {
        Self::new("GET", url)
    }

    /// Creates a POST request, whose body is set afterwards.
    pub fn post(url: impl Into<String>) -> Self {
        Self::new("POST", url)
    }

    /// Adds a header.
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.0.headers.push(host::Header { name: name.into(), value: value.into() });
        self
    }

    /// Adds a parameter to the query, percent-encoded.
    pub fn with_query(mut self, name: &str, value: &str) -> Self {
        let (url, fragment) = match self.0.url.split_once('#') {
            Some((url, fragment)) => (url.to_owned(), Some(fragment.to_owned())),
            None => (std::mem::take(&mut self.0.url), None),
        };
        let mark = if url.contains('?') { '&' } else { '?' };
        self.0.url = format!("{url}{mark}{}={}", encode(name), encode(value));
        if let Some(fragment) = fragment {
            self.0.url.push('#');
            self.0.url.push_str(&fragment);
        }
        self
    }

    /// Sets the body.
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.0.body = Some(body.into());
        self
    }

    /// Sets a body of JSON, and its content type.
    pub fn with_json(self, body: &impl Serialize) -> Result<Self, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Error::internal(format!("a request's body is not JSON: {error}")))?;
        Ok(self.with_header("content-type", "application/json").with_body(body))
    }

    /// Sets a shorter limit for the whole exchange, sent in whole milliseconds.
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.0.timeout_ms = Some(wire::milliseconds(timeout));
        self
    }

    /// Sets the largest body to accept; the default is the limit that the operator granted.
    pub fn with_max_response_bytes(mut self, bytes: u64) -> Self {
        self.0.max_response_bytes = Some(bytes);
        self
    }

    /// Makes the host add a secret of this plugin, by its name in `plugin.toml`. A request may have
    /// up to 8.
    pub fn with_credential(mut self, name: impl Into<String>) -> Self {
        self.0.credentials.push(name.into());
        self
    }

    /// Sets the treatment of a response that redirects; the default is [`Redirects::Follow`].
    pub fn with_redirects(mut self, redirects: Redirects) -> Self {
        self.0.redirects = match redirects {
            Redirects::Follow => host::Redirects::Follow,
            Redirects::Manual => host::Redirects::Manual,
        };
        self
    }

    /// Sends the request and waits for the whole response.
    pub fn send(self) -> Result<Response, HttpError> {
        host::send(&self.0).map(Response::from_host).map_err(HttpError::from_host)
    }

    /// Returns the method.
    pub fn method(&self) -> &str {
        &self.0.method
    }

    /// Returns the URL with its query.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the first header of a name, in any case; `None` if there is none or it is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let header = self.0.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))?;
        str::from_utf8(&header.value).ok()
    }

    /// Returns the body; empty if there is none.
    pub fn body(&self) -> &[u8] {
        self.0.body.as_deref().unwrap_or_default()
    }

    /// Returns the names of the secrets that the host adds.
    pub fn credentials(&self) -> impl Iterator<Item = &str> {
        self.0.credentials.iter().map(String::as_str)
    }
}

#[cfg(not(target_family = "wasm"))]
impl From<host::Request> for Request {
    fn from(request: host::Request) -> Self {
        Self(request)
    }
}

impl Response {
    /// Creates a response without headers and body, for [`testing`](crate::testing).
    pub fn new(status: u16) -> Self {
        Self { status, headers: Vec::new(), body: Vec::new(), final_url: String::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<Vec<u8>>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets the body.
    #[must_use]
    pub fn with_body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a body of JSON, and its content type.
    #[must_use]
    pub fn with_json(self, body: &serde_json::Value) -> Self {
        self.with_header("content-type", "application/json").with_body(body.to_string())
    }

    fn from_host(response: host::Response) -> Self {
        let host::Response { status, headers, body, final_url } = response;
        let headers = headers.into_iter().map(|header| (header.name, header.value)).collect();
        Self { status, headers, body, final_url }
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn into_host(self) -> host::Response {
        let Self { status, headers, body, final_url } = self;
        let headers =
            headers.into_iter().map(|(name, value)| host::Header { name, value }).collect();
        host::Response { status, headers, body, final_url }
    }

    /// Returns the first header of a name, in any case; `None` if there is none or it is not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        str::from_utf8(value).ok()
    }

    /// Returns the response if its status is 200 to 299. Fails otherwise, with an error that
    /// contains the status and the start of the body.
    pub fn ok(self) -> Result<Self, Error> {
        const EXCERPT: usize = 200;
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let kind = match self.status {
            401 => ErrorKind::AuthRequired,
            403 => ErrorKind::Denied,
            404 | 410 => ErrorKind::NotFound,
            408 | 504 => ErrorKind::Timeout,
            409 => ErrorKind::Conflict,
            429 => ErrorKind::RateLimited,
            400..500 => ErrorKind::InvalidInput,
            _ => ErrorKind::Unavailable,
        };
        let body = String::from_utf8_lossy(&self.body);
        let excerpt: String = body.chars().filter(|c| !c.is_control()).take(EXCERPT).collect();
        let error =
            Error::new(kind, format!("the server responded with {}: {excerpt}", self.status))
                .with_code(format!("http_{}", self.status));
        let after = self.header("retry-after").and_then(|after| after.trim().parse().ok());
        Err(match after {
            Some(seconds) => error.with_retry_after(Duration::from_secs(seconds)),
            None => error,
        })
    }

    /// Returns the body as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Parses the body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.body).map_err(|error| {
            Error::unavailable(format!("the server's response is not the expected JSON: {error}"))
        })
    }
}

/// Reason that there is no response. A response with an error status, such as 500, is not a
/// failure. With `?` it becomes an [`Error`] of a tool, with a code such as `http_timeout` and
/// `request_sent` in its details.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpError {
    /// Kind of failure.
    pub kind: HttpErrorKind,
    /// The failure in one line.
    pub message: String,
    /// True if the request may have reached the server.
    pub request_sent: bool,
}

/// Kind of failure of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HttpErrorKind {
    /// The policy does not permit the request. The message does not say what it would permit.
    Denied,
    /// The request cannot be sent as it is.
    InvalidRequest,
    /// The name does not resolve.
    Dns,
    /// The server does not accept a connection.
    Connect,
    /// The certificate or the encryption is not acceptable.
    Tls,
    /// The request took too long.
    Timeout,
    /// The body of the request or of the response is larger than the limit.
    TooLarge,
    /// The request was redirected more often than the limit.
    TooManyRedirects,
    /// The response is not HTTP, or it ended early.
    Protocol,
    /// The host is too busy. Trying again later may help.
    Unavailable,
    /// This call has used all its requests. Trying again in this call never helps.
    LimitReached,
    /// Any other failure.
    Other,
}

same_variants!(HttpErrorKind = wit::HttpErrorKind {
    Denied InvalidRequest Dns Connect Tls Timeout TooLarge TooManyRedirects Protocol Unavailable LimitReached Other
});

impl HttpError {
    fn from_host(error: wit::HttpError) -> Self {
        let wit::HttpError { kind, message, request_sent } = error;
        Self { kind: kind.into(), message, request_sent }
    }

    /// Creates a failure of a request that was not sent, for [`testing`](crate::testing).
    pub fn new(kind: HttpErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), request_sent: false }
    }

    /// Sets whether the request may have reached the server.
    #[must_use]
    pub fn with_request_sent(mut self, request_sent: bool) -> Self {
        self.request_sent = request_sent;
        self
    }

    #[cfg(not(target_family = "wasm"))]
    pub(crate) fn into_host(self) -> wit::HttpError {
        let Self { kind, message, request_sent } = self;
        wit::HttpError { kind: kind.into(), message, request_sent }
    }
}

/// Lets the server of a test return a response by itself.
impl From<Response> for Result<Response, HttpError> {
    fn from(response: Response) -> Self {
        Ok(response)
    }
}

impl fmt::Display for HttpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for HttpError {}

impl From<HttpError> for Error {
    fn from(error: HttpError) -> Self {
        let (kind, code) = match error.kind {
            HttpErrorKind::Denied => (ErrorKind::Denied, "http_denied"),
            HttpErrorKind::InvalidRequest => (ErrorKind::InvalidInput, "http_invalid_request"),
            HttpErrorKind::Dns => (ErrorKind::Unavailable, "http_dns"),
            HttpErrorKind::Connect => (ErrorKind::Unavailable, "http_connect"),
            HttpErrorKind::Tls => (ErrorKind::Unavailable, "http_tls"),
            HttpErrorKind::Timeout => (ErrorKind::Timeout, "http_timeout"),
            HttpErrorKind::TooLarge => (ErrorKind::TooLarge, "http_too_large"),
            HttpErrorKind::TooManyRedirects => (ErrorKind::Unavailable, "http_too_many_redirects"),
            HttpErrorKind::Protocol => (ErrorKind::Unavailable, "http_protocol"),
            HttpErrorKind::Unavailable => (ErrorKind::Unavailable, "http_unavailable"),
            HttpErrorKind::LimitReached => (ErrorKind::LimitReached, "http_limit_reached"),
            HttpErrorKind::Other => (ErrorKind::Other, "http_other"),
        };
        Self::new(kind, error.message)
            .with_code(code)
            .with_details(serde_json::json!({ "request_sent": error.request_sent }))
    }
}

/// Percent-encodes every byte that is not unreserved (RFC 3986, section 2.3).
fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a String cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded_and_put_before_the_fragment() {
        let request = Request::get("https://a.example/b#c")
            .with_query("city", "São Paulo")
            .with_query("n&", "1=2");
        assert_eq!(request.0.url, "https://a.example/b?city=S%C3%A3o%20Paulo&n%26=1%3D2#c");
    }

    #[test]
    fn an_error_status_becomes_an_error_with_kind_code_and_retry_time() {
        assert!(response(204).ok().is_ok());
        assert_eq!(response(409).ok().unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(Request::new("patch", "https://a.example").method(), "PATCH");
        let error = response(429).with_header("Retry-After", "7").ok().unwrap_err();
        assert_eq!(
            (error.kind(), error.message(), error.code()),
            (ErrorKind::RateLimited, "the server responded with 429: slowdown", Some("http_429"))
        );
        assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    }

    fn response(status: u16) -> Response {
        Response::new(status).with_body("slow\ndown")
    }
}
