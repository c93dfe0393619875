//! Refusals of requests that the gateway has no room for, or that come before it has read its settings.

use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use airlock_http::respond::ApiError;

/// Fails until the settings that operators keep in the store were `read`.
pub(super) fn check_settings(read: &CancellationToken) -> Result<(), ApiError> {
    if read.is_cancelled() {
        return Ok(());
    }
    let error = ApiError::unavailable(
        "settings_unavailable",
        "the gateway has not read its settings from the store yet; try again in a moment",
    );
    Err(error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1")))
}

/// Returns the refusal of a request whose tenant has its share of the connections.
pub(super) fn share_in_use() -> ApiError {
    let message = "requests of this caller run on three quarters of the connections of its address, or of the gateway; try again \
                   when another one has ended";
    let error = ApiError::from_status(StatusCode::TOO_MANY_REQUESTS, "caller_overloaded", message);
    error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
}

/// Returns the error for a connection in a reserved place.
pub(super) fn all_in_use() -> ApiError {
    let message = "all connections of this address, or of the gateway, have a request running; try again later";
    let error = ApiError::unavailable("gateway_overloaded", message);
    error
        .with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
        .with_header(header::CONNECTION, HeaderValue::from_static("close"))
}
