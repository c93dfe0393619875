//! The sender of a request over HTTP, by its headers.

use std::sync::Arc;

use http::HeaderMap;

use super::options;
use airlock_core::door::{EXCLUDE_TOOLS, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS, VirtualKey};
use airlock_http::{
    auth,
    respond::{self, ApiError},
};
pub(super) use airlock_requests::Sender;

/// Returns the sender of a request that came with this key and these headers.
pub(super) fn sender_of(
    key: Option<Arc<VirtualKey>>,
    headers: &HeaderMap,
) -> Result<Sender, ApiError> {
    let clients = respond::names(headers, INCLUDE_CLIENTS)?;
    let tools = respond::names(headers, INCLUDE_TOOLS)?;
    let excluded = respond::names(headers, EXCLUDE_TOOLS)?;
    let filter = Filter::parse(clients.as_deref(), tools.as_deref())
        .excluding(excluded.as_deref())
        .with_language(options::language(headers)?);
    let approval = options::approval(headers)?;
    let filter = filter.with_headers(auth::forwardable(headers));
    Ok(Sender::new(key, filter, approval))
}
