//! The sender of a request over HTTP, by its headers.

use std::sync::Arc;

use http::HeaderMap;

use super::options;
use airlock_core::door::{
    ApprovalChoice, EXCLUDE_TOOLS, Filter, INCLUDE_CLIENTS, INCLUDE_TOOLS, VirtualKey,
};
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
    // Most requests select nothing, and then no header is looked for.
    let (filter, approval) =
        if respond::has_own(headers) { selection(headers)? } else { (Filter::none(), None) };
    Ok(Sender::new(key, filter.with_headers(auth::forwardable(headers)), approval))
}

/// Returns the selection of tools in the headers of a request, and its treatment of calls that need an approval.
fn selection(headers: &HeaderMap) -> Result<(Filter, Option<ApprovalChoice>), ApiError> {
    let clients = respond::names(headers, INCLUDE_CLIENTS)?;
    let tools = respond::names(headers, INCLUDE_TOOLS)?;
    let excluded = respond::names(headers, EXCLUDE_TOOLS)?;
    let filter = Filter::parse(clients.as_deref(), tools.as_deref())
        .excluding(excluded.as_deref())
        .with_language(options::language(headers)?);
    Ok((filter, options::approval(headers)?))
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use airlock_core::door::SCRIPT_LANGUAGE;

    fn sender(name: &'static str, value: &'static str) -> Sender {
        let header = (HeaderName::from_static(name), HeaderValue::from_static(value));
        sender_of(None, &HeaderMap::from_iter([header])).expect("a good value")
    }

    #[test]
    fn every_header_that_selects_something_is_read() {
        for (name, value) in [(INCLUDE_CLIENTS, "a"), (INCLUDE_TOOLS, ""), (EXCLUDE_TOOLS, "*")] {
            assert!(!sender(name, value).filter.is_none(), "{name}");
        }
        assert!(sender(SCRIPT_LANGUAGE, "python").filter.language().is_some());
        assert_eq!(sender("x-airlock-approval", "wait").approval, Some(ApprovalChoice::Wait));
        let other = sender("x-other", "a");
        assert!(other.filter.is_none() && other.approval.is_none());
    }
}
