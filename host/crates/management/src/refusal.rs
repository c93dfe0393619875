//! Refusals of requests.

use std::time::Duration;

use airlock_operator_api::ManagementRefusal;
use http::StatusCode;

/// Time after which a request is worth another attempt if what it needs was in use.
const RETRY: Duration = Duration::from_secs(10);

/// Result of a request, or of a step of it.
pub(crate) type Result<T, E = ManagementRefusal> = std::result::Result<T, E>;

pub(crate) fn refusal(
    status: StatusCode,
    code: &'static str,
    message: impl Into<String>,
) -> ManagementRefusal {
    ManagementRefusal { status, code, message: message.into(), retry_after: None }
}

/// Status 400.
pub(crate) fn invalid(message: impl Into<String>) -> ManagementRefusal {
    refusal(StatusCode::BAD_REQUEST, "invalid_request", message)
}

/// Status 403: the operator's role does not include what the request needs.
pub(crate) fn forbidden(message: impl Into<String>) -> ManagementRefusal {
    refusal(StatusCode::FORBIDDEN, "role_insufficient", message)
}

/// Status 404.
pub(crate) fn not_found(message: impl Into<String>) -> ManagementRefusal {
    refusal(StatusCode::NOT_FOUND, "not_found", message)
}

/// Status 409.
pub(crate) fn conflict(message: impl Into<String>) -> ManagementRefusal {
    refusal(StatusCode::CONFLICT, "conflict", message)
}

/// Status 503: what the request needs is in use.
pub(crate) fn busy(code: &'static str, message: impl Into<String>) -> ManagementRefusal {
    let refusal = refusal(StatusCode::SERVICE_UNAVAILABLE, code, message);
    ManagementRefusal { retry_after: Some(RETRY), ..refusal }
}
