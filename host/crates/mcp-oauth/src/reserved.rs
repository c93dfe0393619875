//! Headers of requests that the transport sets itself.

use http::HeaderName;

/// Headers that are never passed on or configured, because the transport sets them or because they
/// concern one connection (RFC 9110, section 7.6.1).
const RESERVED: [&str; 17] = [
    "accept",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "keep-alive",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Prefix of the headers that mirror arguments.
const RESERVED_PREFIX: &str = "mcp-param-";

/// Returns whether a header is set by the transport, so that it can be neither configured nor passed
/// on.
pub fn is_reserved_header(name: &HeaderName) -> bool {
    RESERVED.contains(&name.as_str()) || name.as_str().starts_with(RESERVED_PREFIX)
}
