//! Messages of the client as they are sent to the gateway.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use airlock_wire::id::RpcId;

/// A message as it is sent.
#[derive(Clone)]
pub(super) struct Sent {
    pub(super) text: Arc<str>,
    /// Identifier, if it is a request.
    pub(super) id: Option<RpcId>,
    /// Headers that repeat its contents.
    pub(super) headers: HeaderMap,
    pub(super) is_modern: bool,
    pub(super) is_initialize: bool,
    pub(super) lists_tools: bool,
}

impl Sent {
    pub(super) fn plain(text: Arc<str>) -> Self {
        Self {
            text,
            id: None,
            headers: HeaderMap::new(),
            is_modern: false,
            is_initialize: false,
            lists_tools: false,
        }
    }

    pub(super) fn add(&mut self, name: HeaderName, value: &str) {
        if let Ok(value) = HeaderValue::try_from(value) {
            self.headers.insert(name, value);
        }
    }
}
