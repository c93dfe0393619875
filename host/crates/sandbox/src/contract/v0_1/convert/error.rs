//! Errors of tools for guests.

use airlock_core::tool::{CallError, CallFailure, ErrorKind, ToolError};

use super::{content::content_for_guest, text_of};
use crate::contract::v0_1::bindings::types as wit;

/// Converts the error of a nested call for the guest that made the call.
pub(crate) fn error_for_guest(error: CallError) -> wit::ToolError {
    let error = error.into_tool_error().unwrap_or_else(|error| {
        let CallFailure { code, kind, retry_after_ms } = CallFailure::from(&error);
        ToolError { code: Some(code), retry_after_ms, ..ToolError::new(kind, error.to_string()) }
    });
    wit::ToolError {
        kind: error.kind.into(),
        code: error.code,
        message: error.message,
        retry_after_ms: error.retry_after_ms,
        content: error.content.into_iter().map(content_for_guest).collect(),
        details: error.details.map(|details| details.to_string()),
        meta: error.meta.as_ref().map(text_of),
        extra: error.extra.as_deref().map(text_of),
    }
}

same_variants!(wit::ErrorKind = ErrorKind {
    InvalidInput NotFound Conflict Denied AuthRequired RateLimited LimitReached
    Unavailable Unsupported Timeout Cancelled TooLarge Internal Other
});
