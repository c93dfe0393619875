//! Observes the requests and the end of a connection, with names of errors from a closed set: a server chooses the
//! codes of its errors.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::{super::transport::SendError, error::AskError};
use airlock_json::raw;
use airlock_telemetry::names;
use airlock_wire::error::code;

const UNAUTHORIZED: &str = "unauthorized";
const NOT_SENT: &str = "not_sent";
const LOST: &str = "connection_lost";
const TOO_LARGE: &str = "response_too_large";
const UNREADABLE: &str = "invalid_response";

/// Observes a connection. The methods must not block.
pub trait LinkObserver: Send + Sync {
    /// Takes note of a request that has ended, with the name of its error if it has failed.
    fn request_ended(&self, method: &'static str, took: Duration, error_type: Option<&'static str>);

    /// Takes note of the end of the connection, with the name of its error if it has failed.
    fn session_ended(&self, took: Duration, error_type: Option<&'static str>);
}

/// A request that is being observed. Dropping it before its end means that the request was cancelled.
pub(super) struct ObservedAsk<'l> {
    observer: &'l OnceLock<Arc<dyn LinkObserver>>,
    method: &'static str,
    began: Instant,
    has_ended: bool,
}

impl<'l> ObservedAsk<'l> {
    pub(super) fn begin(
        observer: &'l OnceLock<Arc<dyn LinkObserver>>,
        method: &'static str,
    ) -> Self {
        Self { observer, method, began: Instant::now(), has_ended: false }
    }

    /// Ends it with a result.
    pub(super) fn end(mut self, asked: &Result<Value, AskError>) {
        self.close(match asked {
            Ok(result) => is_tool_error(result).then_some(names::TOOL_ERROR),
            Err(error) => Some(error_type(error)),
        });
    }

    /// Ends it with the text of a response, which may be an error.
    pub(super) fn end_with_text(mut self, asked: &Result<Vec<u8>, AskError>) {
        self.close(match asked {
            Ok(text) => refusal(text).map(code::name),
            Err(error) => Some(error_type(error)),
        });
    }

    fn close(&mut self, error_type: Option<&'static str>) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        if let Some(observer) = self.observer.get() {
            observer.request_ended(self.method, self.began.elapsed(), error_type);
        }
    }
}

impl Drop for ObservedAsk<'_> {
    fn drop(&mut self) {
        self.close(Some(names::CANCELLED));
    }
}

/// Returns the error type of a connection that has failed.
pub(super) fn connection_error(has_failed: bool) -> Option<&'static str> {
    has_failed.then_some(LOST)
}

/// Returns whether a result is that of a tool that has failed.
pub(super) fn is_tool_error(result: &Value) -> bool {
    result.get("isError") == Some(&Value::Bool(true))
}

/// Returns the code in the text of a response; `None` if it is no error.
pub(super) fn refusal(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    // Most responses are long and have none.
    if !text.contains("\"error\"") {
        return None;
    }
    raw::member(raw::member(text, "error")?, "code")?.parse().ok()
}

/// Returns the name of an error.
pub(super) fn error_type(error: &AskError) -> &'static str {
    match error {
        AskError::Refused(error) => code::name(error.code),
        AskError::Send(SendError::Unauthorized(_) | SendError::LoginNeeded(_)) => UNAUTHORIZED,
        AskError::Send(_) => NOT_SENT,
        AskError::Lost => LOST,
        AskError::TooLarge => TOO_LARGE,
        AskError::Unreadable(_) => UNREADABLE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_a_refusal_only_if_it_is_an_error_itself() {
        let refused = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#;
        assert_eq!(refusal(refused), Some(code::INVALID_PARAMS));
        assert_eq!(refusal(br#"{"id":1,"result":{"error":{"code":1}}}"#), None);
        assert_eq!(refusal(br#"{"id":1,"result":{}}"#), None);
        assert_eq!(refusal(b"\xff"), None);
    }
}
