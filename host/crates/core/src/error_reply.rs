//! Errors of requests to models, as the APIs send them.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Map, Value};

/// Error of a request that ended without a response, in the form of OpenAI's errors.
#[derive(Debug)]
pub struct ErrorReply {
    /// Status of the HTTP response.
    pub status: StatusCode,
    /// The `error` object.
    pub error: Map<String, Value>,
    /// Time to wait before a retry, if known.
    pub retry_after: Option<Duration>,
    /// The `airlock` object: the work that was done before the error; `None` if there was none.
    pub airlock: Option<Map<String, Value>>,
    /// Bifrost's `extra_fields`; `None` if there are none.
    pub extra_fields: Option<Map<String, Value>>,
}
