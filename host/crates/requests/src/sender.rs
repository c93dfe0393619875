//! The sender of a request.

use std::sync::Arc;

use airlock_core::{
    door::{ApprovalChoice, Filter, HeldToken, ProgramRequest, VirtualKey},
    secret::Secret,
    tenant::Tenant,
};

/// An authenticated sender, with the tool filter of the request.
pub struct Sender {
    /// The key that the request came with; `None` without one.
    pub key: Option<Arc<VirtualKey>>,
    /// The clients and tools that the request selects.
    pub filter: Filter,
    /// Treatment of calls that need an approval, by the request or else by the key.
    pub approval: Option<ApprovalChoice>,
    /// The request of the embedding program; `None` if another party has sent it.
    pub program: Option<ProgramRequest>,
    is_operator: bool,
    /// Access token of the request, until the request takes it over.
    token: Option<HeldToken>,
}

impl Sender {
    /// Returns the sender of a request that came with this key. Without a choice of its own for calls that
    /// need an approval, the request has that of the key.
    pub fn new(
        key: Option<Arc<VirtualKey>>,
        filter: Filter,
        approval: Option<ApprovalChoice>,
    ) -> Self {
        let by_key = key.as_ref().and_then(|key| key.approval);
        let approval = approval.or(by_key);
        Self { key, filter, approval, program: None, is_operator: false, token: None }
    }

    /// Makes it the sender of a request of the embedding program.
    #[must_use]
    pub fn for_program(self, request: ProgramRequest) -> Self {
        Self { program: Some(request), ..self }
    }

    /// Adds the access token with which the sender has come. It reaches no source of tools: one for which it
    /// is exchanged has access to it while the request lasts.
    #[must_use]
    pub fn with_token(self, token: Secret) -> Self {
        let token = HeldToken::new(token);
        let filter = self.filter.with_token(token.access());
        Self { filter, token: Some(token), ..self }
    }

    /// Takes the access token, which has to be kept until the response is sent.
    pub fn take_token(&mut self) -> Option<HeldToken> {
        self.token.take()
    }

    /// Returns the sender of a request of an operator, who calls no tools.
    pub fn of_operator() -> Self {
        Self { is_operator: true, ..Self::new(None, Filter::none(), None) }
    }

    /// Returns the tenant that the memory of the request is charged to. Its tool calls are charged
    /// to the same tenant. Operators are no tenant: those without keys must not use up their share.
    pub fn tenant(&self) -> Tenant {
        if self.is_operator {
            return Tenant::GATEWAY;
        }
        self.key.as_deref().map_or(Tenant::ANONYMOUS, |key| key.tenant().clone())
    }
}
