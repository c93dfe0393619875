//! Request bodies: so large and so slow, no more.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::{Body as _, Incoming};

use super::{Settings, respond::ApiError};

/// Takes in a whole body.
pub(super) async fn read(body: Incoming, settings: &Settings) -> Result<Bytes, ApiError> {
    let limit = settings.max_body_bytes;
    // Refused before a byte of it is read, where the sender says how long it will be.
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large(limit));
    }
    match tokio::time::timeout(settings.read_timeout, Limited::new(body, limit).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large(limit)),
        Ok(Err(_)) => Err(ApiError::bad_request("bad_body", "the request body broke off")),
        Err(_) => Err(too_slow()),
    }
}

fn too_large(limit: usize) -> ApiError {
    let message = format!("the request body is larger than {limit} bytes");
    ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "invalid_request_error", "request_too_large", message)
}

fn too_slow() -> ApiError {
    let message = "the request body did not arrive in time";
    let error = ApiError::new(StatusCode::REQUEST_TIMEOUT, "invalid_request_error", "request_timeout", message);
    error.with_header(header::CONNECTION, HeaderValue::from_static("close"))
}
