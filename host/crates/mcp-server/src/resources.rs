//! The resource that a request names, and the errors of requests that are relayed to a source.

use serde_json::json;
use tracing::warn;

use super::offers::{OfferList, OfferTarget, Offering};
use airlock_core::{door::RelayError, tool::ClientName};
use airlock_strings::{cut, with_causes};
use airlock_wire::{
    error::{RpcError, code},
    message::Request,
    version::Version,
};

/// Longest URI or name in a request, in bytes: twice that of a listed resource, for a URI that
/// has the name of its source too, or the values of a template.
pub(super) const MAX_NAME_BYTES: usize = 4 << 10;

/// Returns the URI of a request and the resource that has it. Unknown, hidden and ambiguous ones
/// look the same.
pub(super) fn target(
    offering: &Offering,
    request: &Request,
    version: Version,
) -> Result<(String, OfferTarget), RpcError> {
    if !offering.has(OfferList::Resources) {
        return Err(RpcError::method_not_found(&request.method));
    }
    let uri = request.params.string("uri").filter(|uri| uri.len() <= MAX_NAME_BYTES);
    let uri = uri.ok_or_else(|| RpcError::invalid_params("`uri` must be a string: a URI"))?;
    let uri = uri.into_owned();
    let target = offering.resource(&uri).ok_or_else(|| not_found(&uri, version))?;
    Ok((uri, target))
}

/// The resource does not exist, or is hidden (2026-07-28 has another code than the older ones).
pub(super) fn not_found(uri: &str, version: Version) -> RpcError {
    let code = if version.is_modern() { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
    let uri = cut(uri.to_owned(), MAX_NAME_BYTES);
    RpcError { data: Some(json!({"uri": uri})), ..RpcError::new(code, "resource not found") }
}

/// Returns the error for the client. Causes are for the operator.
pub(super) fn failed(method: &str, client: &ClientName, error: &RelayError) -> RpcError {
    let code = match error {
        RelayError::Refused { code: code::INVALID_PARAMS, .. } => code::INVALID_PARAMS,
        RelayError::Busy | RelayError::Disabled | RelayError::TooManySubscriptions { .. } => {
            code::REFUSED
        }
        _ => code::INTERNAL,
    };
    if code == code::INTERNAL {
        warn!(%client, method, error = with_causes(error), "relayed request failed");
    }
    RpcError::new(code, format!("{method} failed: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_resource_has_the_code_of_the_clients_era() {
        let modern = not_found("a:", Version::V2026_07_28);
        assert_eq!((modern.code, modern.data), (-32_602, Some(json!({"uri": "a:"}))));
        assert_eq!(not_found("a:", Version::V2025_11_25).code, -32_002);
    }
}
