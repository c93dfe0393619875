//! The failure of a call, as a script receives it and as a journal keeps it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{CallError, CallFailure, ErrorKind, HostCode, ToolError};
use airlock_json::weight::weight;
use airlock_strings::{cut, visible_line};

/// Maximum bytes of the reason of a denial, which a caller may send: about 250 tokens. Scripts and models read it, and it
/// is stored with each call of the run that is denied with it.
pub const MAX_REASON_BYTES: usize = 1_000;

/// Failure of a call, as a script can handle it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AnswerError {
    kind: ErrorKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl AnswerError {
    /// Creates the failure of a call that a person has denied, with the [reason](denial_reason) that was given;
    /// empty for none.
    pub fn denied(reason: &str) -> Self {
        let reason = denial_reason(reason);
        let colon = if reason.is_empty() { "" } else { ": " };
        Self {
            kind: ErrorKind::Denied,
            code: Some(HostCode::ApprovalDenied.prefixed()),
            message: format!("a person has denied this call; it was not made{colon}{reason}"),
            data: None,
            retry_after_ms: None,
        }
    }

    /// Code of the failure; `None` if its kind says all.
    pub fn code(&self) -> Option<&str> {
        self.code.as_deref()
    }

    /// Message for the script.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the memory that the failure takes, in bytes.
    pub fn bytes(&self) -> usize {
        let code = self.code.as_ref().map_or(0, String::len);
        let data = self.data.as_ref().map_or(0, weight);
        code.saturating_add(self.message.len()).saturating_add(data)
    }
}

impl From<CallError> for AnswerError {
    fn from(error: CallError) -> Self {
        let message = error.message();
        let CallFailure { code, kind, retry_after_ms } = CallFailure::from(&error);
        let (code, data) = match error.into_tool_error() {
            // Without a code, unless the kind `other` means that the code says which.
            Ok(own) if own.code.is_none() && kind != ErrorKind::Other => (None, own.details),
            Ok(own) => (Some(code), own.details),
            Err(_) => (Some(code), None),
        };
        Self { kind, code, message, data, retry_after_ms }
    }
}

impl From<AnswerError> for CallError {
    fn from(failure: AnswerError) -> Self {
        Self::from(ToolError {
            code: failure.code,
            details: failure.data,
            retry_after_ms: failure.retry_after_ms,
            ..ToolError::new(failure.kind, failure.message)
        })
    }
}

/// Returns the reason of a denial as scripts, models and records have it: on one line, without hidden characters, and
/// cut to [`MAX_REASON_BYTES`]. Empty if it is blank.
pub fn denial_reason(reason: &str) -> String {
    cut(visible_line(reason.trim()), MAX_REASON_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_denial_is_one_visible_line_of_bounded_length() {
        let shown = denial_reason(" no\u{202e}\nway ");
        assert!(!shown.contains(['\u{202e}', '\n', ' ']), "{shown}");
        assert!(shown.starts_with("no") && shown.ends_with("way"), "{shown}");
        assert_eq!(denial_reason(" \n"), "");
        assert_eq!(denial_reason(&"x".repeat(MAX_REASON_BYTES)).len(), MAX_REASON_BYTES);
        let cut = denial_reason(&"\u{202e}".repeat(MAX_REASON_BYTES));
        assert!(cut.len() <= MAX_REASON_BYTES && cut.ends_with('…'), "{cut}");
        assert_eq!(denial_reason(&cut), cut, "it is the same after it was stored and read");
        let failure = AnswerError::denied(&"x".repeat(2 * MAX_REASON_BYTES));
        assert!(failure.message().len() < 2 * MAX_REASON_BYTES, "{}", failure.message().len());
    }

    #[test]
    fn a_denial_tells_the_script_the_reason_that_was_given() {
        let failure = AnswerError::denied("too much");
        assert!(failure.message().ends_with(": too much"), "{}", failure.message());
        assert!(!AnswerError::denied("").message().contains(':'));
        let error = CallError::from(failure.clone());
        assert_eq!((error.kind(), error.tool_code()), (ErrorKind::Denied, failure.code()));
        assert_eq!(AnswerError::from(error), failure, "it is the same after a round trip");
    }
}
