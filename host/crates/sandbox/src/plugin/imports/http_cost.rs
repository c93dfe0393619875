//! Fuel that an HTTP request costs, whichever interface the guest sends it through.

use airlock_egress::{EgressRequest, EgressResponse};

/// Fuel that sending a request costs in addition to that of a host call.
pub(super) const SEND_FUEL: u64 = 9_000;
/// Bytes charged for one header in addition to its name and value.
const HEADER_BYTES: usize = 48;

/// Returns the bytes that a request is charged for.
pub(super) fn request_bytes(request: &EgressRequest) -> usize {
    request.method.len()
        + request.url.len()
        + header_bytes(&request.headers)
        + request.body.as_ref().map_or(0, bytes::Bytes::len)
        + request.credentials.iter().map(|name| size_of::<String>() + name.len()).sum::<usize>()
}

/// Returns the bytes that a response is charged for.
pub(super) fn response_bytes(response: &EgressResponse) -> usize {
    response.final_url.len() + header_bytes(&response.headers) + response.body.len()
}

fn header_bytes(headers: &[(String, Vec<u8>)]) -> usize {
    headers.iter().map(|(name, value)| HEADER_BYTES + name.len() + value.len()).sum()
}
