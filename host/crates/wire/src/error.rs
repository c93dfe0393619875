//! Errors of JSON-RPC and of MCP.

use serde::Serialize;
use serde_json::{Value, json};

use super::version::Version;

/// Codes of errors: those of JSON-RPC 2.0, and those that MCP defines (2026-07-28, section "Error
/// codes").
pub mod code {
    pub const PARSE: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    /// The gateway refuses a request for lack of room or of rights.
    pub const REFUSED: i32 = -32000;
    /// The session does not exist. Not of the specification, which leaves it to the HTTP status; the
    /// SDKs use it.
    pub const NO_SESSION: i32 = -32001;
    /// The resource does not exist. Of the legacy era; the modern one has [`INVALID_PARAMS`].
    pub const RESOURCE_NOT_FOUND: i32 = -32002;
    pub const HEADER_MISMATCH: i32 = -32020;
    /// A source needs a capability that its client has not declared. Of the modern era.
    pub const MISSING_CAPABILITY: i32 = -32021;
    pub const UNSUPPORTED_VERSION: i32 = -32022;
}

/// Error of a request, as a client receives it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RpcError {
    pub code: i32,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl RpcError {
    pub fn new(code: i32, message: impl Into<String>) -> Self {
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
        let method = airlock_strings::cut(method.to_owned(), 128);
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
        let requested = airlock_strings::cut(requested.to_owned(), 64);
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
