//! The memory of requests over HTTP: their heads, the trees of their bodies, and the errors of those without
//! room.

use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::respond::ApiError;
use airlock_core::request_memory::{ChargeRefused, Memory, REQUEST_BYTES, RequestCharge};

/// Factor between the largest body size and the memory that a parsed body may take. Conversations
/// take two to four times their size, dense tool schemas seven times.
const TREE_FACTOR: usize = 4;
/// Memory that a parsed body may always take, in bytes, however small the largest body size is.
const LEAST_TREE_BYTES: usize = 1 << 20;

/// The error of a request that was carried out, and whose response has no room.
pub trait AfterWork {
    /// Returns the error. Its headers ask the client not to repeat the request.
    fn after_work(self) -> ApiError;
}

impl AfterWork for ChargeRefused {
    fn after_work(self) -> ApiError {
        let (Self::Budget { limit_bytes } | Self::Share { limit_bytes }) = self;
        let message = format!(
            "the request was carried out, but its response does not fit into the {limit_bytes} bytes that are shared with \
             other requests in flight; to repeat the request runs its tools again"
        );
        refusal(self, message).not_repeated()
    }
}

fn refusal(refused: ChargeRefused, message: String) -> ApiError {
    let (status, code) = match refused {
        ChargeRefused::Budget { .. } => (StatusCode::SERVICE_UNAVAILABLE, "gateway_overloaded"),
        ChargeRefused::Share { .. } => (StatusCode::TOO_MANY_REQUESTS, "caller_overloaded"),
    };
    ApiError::from_status(status, code, message)
}

impl From<ChargeRefused> for ApiError {
    fn from(spent: ChargeRefused) -> Self {
        let error = refusal(spent, spent.to_string());
        error.with_header(header::RETRY_AFTER, HeaderValue::from_static("1"))
    }
}

/// Returns the bytes of the head of a request.
pub fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Returns a function that charges a stored text before it is read: `copies` times its bytes.
pub fn for_stored(
    charge: &RequestCharge,
    copies: usize,
) -> impl FnMut(u64) -> Result<(), ApiError> + Send + use<> {
    let charge = charge.clone();
    move |bytes| {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        charge.grow(bytes.saturating_mul(copies)).map_err(ApiError::from)
    }
}

/// Returns the memory that a parsed body may take, in bytes, if the largest body has
/// `max_body_bytes`.
pub const fn tree_bytes(max_body_bytes: usize) -> usize {
    let bytes = max_body_bytes.saturating_mul(TREE_FACTOR);
    if bytes < LEAST_TREE_BYTES { LEAST_TREE_BYTES } else { bytes }
}

/// Returns the smallest budget for requests in which a body of `max_body_bytes` with a head of
/// `max_header_bytes` fits.
pub const fn least_for_body(max_body_bytes: usize, max_header_bytes: usize) -> usize {
    let tree = tree_bytes(max_body_bytes).saturating_add(REQUEST_BYTES);
    Memory::least_for(tree.saturating_add(max_body_bytes).saturating_add(max_header_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_without_room_asks_the_client_not_to_repeat_its_request() {
        for (refused, status) in [
            (ChargeRefused::Share { limit_bytes: 1 }, StatusCode::TOO_MANY_REQUESTS),
            (ChargeRefused::Budget { limit_bytes: 1 }, StatusCode::SERVICE_UNAVAILABLE),
        ] {
            let reply = refused.after_work().into_reply();
            assert_eq!(reply.status(), status);
            assert_eq!(reply.headers()["x-should-retry"], "false");
            assert!(!reply.headers().contains_key(header::RETRY_AFTER));
            let before = ApiError::from(refused).into_reply();
            assert_eq!(
                (before.status(), &before.headers()["retry-after"]),
                (status, &HeaderValue::from_static("1"))
            );
        }
    }

    #[test]
    fn the_head_of_a_request_is_its_names_and_values() {
        let head = HeaderMap::from_iter([(header::USER_AGENT, HeaderValue::from_static("x"))]);
        assert_eq!(head_bytes(&head), "user-agent".len() + 1);
    }
}
