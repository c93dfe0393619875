//! Before the settings in the store were read, no request is answered.

use http::{HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;

use super::respond::ApiError;

/// Fails until the settings that operators keep in the store were `read`.
pub(super) fn check_settings(read: &CancellationToken) -> Result<(), ApiError> {
    if read.is_cancelled() {
        return Ok(());
    }
    let error = ApiError::new(
        StatusCode::SERVICE_UNAVAILABLE,
        "server_error",
        "settings_unavailable",
        "the gateway has not read its settings from the store yet; try again in a moment",
    );
    Err(error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1")))
}
