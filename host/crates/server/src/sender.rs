//! The sender of a request.

use std::sync::Arc;

use http::HeaderMap;

use super::{
    auth, options,
    respond::{self, ApiError},
};
use airlock_core::{
    door::{
        ApprovalChoice, EXCLUDE_TOOLS, Filter, HeldToken, INCLUDE_CLIENTS, INCLUDE_TOOLS,
        VirtualKey,
    },
    secret::Secret,
    tenant::Tenant,
};

/// An authenticated sender, with the tool filter of the request.
pub(super) struct Sender {
    pub(super) key: Option<Arc<VirtualKey>>,
    pub(super) filter: Filter,
    /// Treatment of calls that need an approval, by the header or else by the key.
    pub(super) approval: Option<ApprovalChoice>,
    is_operator: bool,
    /// Access token of the request, until the request takes it over.
    token: Option<HeldToken>,
}

impl Sender {
    /// Returns the sender of a request that came with this key.
    pub(super) fn new(key: Option<Arc<VirtualKey>>, headers: &HeaderMap) -> Result<Self, ApiError> {
        let clients = respond::names(headers, INCLUDE_CLIENTS)?;
        let tools = respond::names(headers, INCLUDE_TOOLS)?;
        let excluded = respond::names(headers, EXCLUDE_TOOLS)?;
        let filter = Filter::parse(clients.as_deref(), tools.as_deref())
            .excluding(excluded.as_deref())
            .with_language(options::language(headers)?);
        let by_key = key.as_ref().and_then(|key| key.approval);
        let approval = options::approval(headers)?.or(by_key);
        let filter = filter.with_headers(auth::forwardable(headers));
        Ok(Self { key, filter, approval, is_operator: false, token: None })
    }

    /// Adds the access token with which the sender has come. It reaches no source of tools: one for which it
    /// is exchanged has access to it while the request lasts.
    #[must_use]
    pub(super) fn with_token(self, token: Secret) -> Self {
        let token = HeldToken::new(token);
        let filter = self.filter.with_token(token.access());
        Self { filter, token: Some(token), ..self }
    }

    /// Takes the access token, which has to be kept until the response is sent.
    pub(super) fn take_token(&mut self) -> Option<HeldToken> {
        self.token.take()
    }

    /// Returns the sender of a request of an operator, who calls no tools.
    pub(super) fn of_operator() -> Self {
        Self { key: None, filter: Filter::none(), approval: None, is_operator: true, token: None }
    }

    /// Returns the tenant that the memory of the request is charged to. Its tool calls are charged
    /// to the same tenant. Operators are no tenant: those without keys must not use up their share.
    pub(super) fn tenant(&self) -> Tenant {
        if self.is_operator {
            return Tenant::GATEWAY;
        }
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
    }
}
