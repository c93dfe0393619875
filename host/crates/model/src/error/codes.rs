//! The parts of an error for programs: its code, and whether the request may have cost something.

use http::StatusCode;

use super::ModelError;

impl ModelError {
    /// Returns whether the provider did not begin the request of an attempt that was sent: it was not reached,
    /// or refused the request at once. A refusal of a proxy between them, and an end of the connection, tell
    /// nothing of what the provider did.
    pub(crate) fn is_before_work(&self) -> bool {
        match self {
            Self::Credential { .. } | Self::Token { .. } | Self::Proxy { .. } => true,
            Self::Refused { refusal, .. } => {
                let status = refusal.status;
                let is_late = status == StatusCode::REQUEST_TIMEOUT;
                let is_overloaded = matches!(status.as_u16(), 503 | 529);
                status.is_client_error() && !is_late || is_overloaded
            }
            Self::Unreachable { cause, .. } | Self::Timeout { cause, .. } => {
                cause.cause.is_before_request()
            }
            _ => false,
        }
    }

    /// Returns the code of the error for programs. An error that the provider wrote has one code here, whatever
    /// its own is.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoSuchProvider { cause, .. } => cause.code(),
            Self::Refused { .. } => "provider_refused",
            Self::NoModel => "missing_model",
            Self::UnknownModel { .. } | Self::NoKey { .. } => "model_not_found",
            Self::BadFallback { .. } => "invalid_fallback",
            Self::DisguisedMember { .. } => "unknown_parameter",
            Self::BadRequest { .. } => "bad_request",
            Self::NoTurn { .. } => "no_matching_turn",
            Self::Credential { .. } | Self::Token { .. } => "provider_credential",
            Self::Proxy { .. } => "provider_proxy",
            Self::BadAnswer { .. } => "provider_bad_answer",
            Self::TooManyCalls { .. } => "too_many_tool_calls",
            Self::Unreachable { .. } => "provider_unreachable",
            Self::Timeout { .. } | Self::Silent { .. } => "provider_timeout",
            Self::NoMemory { .. } => "gateway_overloaded",
        }
    }
}
