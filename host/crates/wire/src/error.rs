//! Errors of JSON-RPC and of MCP.

use serde::Serialize;
use serde_json::{Value, json};

use super::version::Version;
use airlock_strings::{cut, one_line};

/// Maximum bytes of the text of an error in a message about it; the rest is cut. A server can send
/// megabytes, and models read the message: 2 KiB are about 500 tokens.
const MAX_SHOWN_BYTES: usize = 2 << 10;

/// Codes of errors: those of JSON-RPC 2.0, and those that MCP defines (2026-07-28, section "Error
/// codes").
pub mod code {
    /// The text is not JSON.
    pub const PARSE: i64 = -32700;
    /// The text is not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// There is no such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// A parameter is missing or invalid.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server failed.
    pub const INTERNAL: i64 = -32603;
    /// The gateway refuses a request for lack of room or of rights.
    pub const REFUSED: i64 = -32000;
    /// The session does not exist. Not of the specification, which leaves it to the HTTP status; the
    /// SDKs use it.
    pub const NO_SESSION: i64 = -32001;
    /// The resource does not exist. Of the legacy era; the modern one has [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Headers and body of a request disagree. Of the modern era.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// A source needs a capability that its client has not declared. Of the modern era.
    pub const MISSING_CAPABILITY: i64 = -32021;
    /// The server does not speak the revision of the request. Of the modern era.
    pub const UNSUPPORTED_VERSION: i64 = -32022;
    /// A person has to open a URL first (2025-11-25).
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;

    /// The codes with their names.
    const NAMES: [(i64, &str); 12] = [
        (PARSE, "-32700"),
        (INVALID_REQUEST, "-32600"),
        (METHOD_NOT_FOUND, "-32601"),
        (INVALID_PARAMS, "-32602"),
        (INTERNAL, "-32603"),
        (REFUSED, "-32000"),
        (NO_SESSION, "-32001"),
        (RESOURCE_NOT_FOUND, "-32002"),
        (HEADER_MISMATCH, "-32020"),
        (MISSING_CAPABILITY, "-32021"),
        (UNSUPPORTED_VERSION, "-32022"),
        (URL_ELICITATION_REQUIRED, "-32042"),
    ];

    /// Returns the name of a code in metrics: its number, or `_OTHER` if it is none of these, because a server sends
    /// any.
    pub fn name(code: i64) -> &'static str {
        NAMES.iter().find(|(known, _)| *known == code).map_or("_OTHER", |(_, name)| *name)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn known_codes_are_their_own_names_and_a_server_makes_no_others() {
            for (code, expected) in NAMES {
                assert_eq!((code.to_string().as_str(), name(code)), (expected, expected));
            }
            assert_eq!([name(-1), name(i64::MAX)], ["_OTHER"; 2]);
        }
    }
}

/// Error of a request, as a client receives it.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[error("the server refused the request with code {code}: {}", shown(message))]
pub struct RpcError {
    /// Its code, see [`code`](mod@code).
    pub code: i64,
    /// The server's text.
    pub message: String,
    /// Data of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    /// Creates an error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The text is not JSON, or exceeds a limit.
    pub fn parse(message: impl Into<String>) -> Self {
        Self::new(code::PARSE, message)
    }

    /// The message is no request of JSON-RPC 2.0.
    pub fn invalid_request(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_REQUEST, message)
    }

    /// The gateway has no such method in the request's revision.
    pub fn method_not_found(method: &str) -> Self {
        let method = cut(method.to_owned(), 128);
        Self::new(code::METHOD_NOT_FOUND, format!("method {method:?} is not supported"))
    }

    /// A parameter is missing or invalid.
    pub fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(code::INVALID_PARAMS, message)
    }

    /// Headers and body of a request disagree.
    pub fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(code::HEADER_MISMATCH, message)
    }

    /// The gateway does not speak the revision that the request names.
    pub fn unsupported_version(requested: &str) -> Self {
        let requested = cut(requested.to_owned(), 64);
        let supported = Version::MODERN.map(Version::as_str);
        Self {
            data: Some(json!({"supported": supported, "requested": requested})),
            ..Self::new(
                code::UNSUPPORTED_VERSION,
                format!("protocol version {requested:?} is not supported"),
            )
        }
    }
}

/// Returns a text of the server as a part of a message.
fn shown(text: &str) -> String {
    // Read no further than needed: a text may have megabytes.
    let beginning = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    cut(one_line(beginning), MAX_SHOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_bounded_line_of_a_message() {
        let message = format!("boom\nFAKE LOG LINE \u{1b}[31m{}", "x".repeat(4 << 20));
        let error = RpcError::new(-1, message).to_string();
        assert!(error.len() < MAX_SHOWN_BYTES + 100, "{}", error.len());
        assert!(!error.contains(['\n', '\u{1b}']), "{error}");
    }
}
