//! The failure of a call, as a script receives it and as a journal keeps it.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tool::{CallError, CallFailure, ErrorKind, HostCode, ToolError};

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
    /// Creates the failure of a call that a person has denied, with the reason that was given; empty
    /// for none.
    pub fn denied(reason: &str) -> Self {
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

#[cfg(test)]
mod tests {
    use super::*;

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
