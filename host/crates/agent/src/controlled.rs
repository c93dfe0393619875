//! One request to a model under control: begun before it is sent, told of what is received, and ended once.

use std::sync::Arc;

use super::{Failure, conversation::Conversation};
use airlock_core::{
    door::Caller,
    model_control::{
        ControlledModelRequest, ModelControl, ModelOutcome, ModelRequest, ServiceTier, TokenUsage,
        ToolTokens,
    },
    tenant::Tenant,
    threads,
    tool::{GuardActs, HostCode},
};
use airlock_model::{Prompt, ProviderWork, ReplyChunk, Route};

/// A request that runs under control. If it is dropped, because its caller has left, the control is notified that it was
/// cancelled, with the provider that has responded, and with its usage until then if that is known.
pub(super) struct ControlledRequest {
    /// `None` once it has ended.
    controlled: Option<Box<dyn ControlledModelRequest>>,
    work: ProviderWork,
    /// The provider that responded.
    provider: Option<String>,
    /// The model that it was asked for, as `NAME/model`; empty before it responds.
    asked: String,
    /// The model that it names in its response.
    named: Option<String>,
    usage: Option<TokenUsage>,
    /// True if the last part of the response had the usage. Some providers send it at the end alone, others with
    /// every part, and one that sent it at the beginning has not counted the rest.
    is_usage_current: bool,
    /// Tier of service that the provider names, or for which the request counts if it names none.
    tier: ServiceTier,
    /// Decisions of guards about the request and its response.
    acts: Arc<GuardActs>,
}

impl ControlledRequest {
    /// Begins a request that goes to `route`. Returns `None` if the control does not use its outcome. Fails if the
    /// control refuses it.
    pub(super) async fn begin(
        control: &Arc<dyn ModelControl>,
        caller: &Caller,
        conversation: &Conversation,
        route: &Route<'_>,
        is_streamed: bool,
        tool_tokens: Option<ToolTokens>,
    ) -> Result<Option<Box<Self>>, Failure> {
        let view = caller.view();
        let model = route.model();
        let fallbacks = route.fallbacks();
        let bytes = request_bytes(&conversation.prompt, view.tenant()).await;
        let request = ModelRequest {
            tenant: view.tenant(),
            membership: view.membership(),
            model: &model,
            fallbacks: &fallbacks,
            bytes,
            choices: conversation.prompt.choices(),
            max_output_tokens: conversation.prompt.max_output_tokens(),
            tier: conversation.prompt.tier(),
            is_streamed,
            tool_tokens,
        };
        // One that is cheaper counts only if the provider names it: some ignore the member.
        let is_priority = request.tier == ServiceTier::Priority;
        let tier = if is_priority { ServiceTier::Priority } else { ServiceTier::Standard };
        let controlled = control.begin(request).await.map_err(Failure::Refused)?;
        if !controlled.needs_outcome() {
            return Ok(None);
        }
        Ok(Some(Box::new(Self {
            controlled: Some(controlled),
            work: ProviderWork::default(),
            provider: None,
            asked: String::new(),
            named: None,
            usage: None,
            is_usage_current: false,
            tier,
            acts: Arc::default(),
        })))
    }

    /// Receives the decisions of guards about the request and its response.
    pub(super) fn guard_acts(&self) -> &Arc<GuardActs> {
        &self.acts
    }

    /// Receives whether a provider has begun the request.
    pub(super) fn work(&self) -> &ProviderWork {
        &self.work
    }

    /// Takes note of the provider that responds.
    pub(super) fn responds(&mut self, route: &Route<'_>) {
        self.provider = Some(route.provider().to_owned());
        self.asked = route.model();
    }

    /// Takes note of a part of the response, or of the whole. A later count of tokens replaces an earlier one.
    pub(super) fn receives(&mut self, chunk: &ReplyChunk) {
        if self.named.is_none() {
            self.named = chunk.model();
        }
        if let Some(controlled) = &mut self.controlled
            && !chunk.is_empty()
        {
            controlled.receives_part();
        }
        let usage = chunk.tokens();
        self.is_usage_current = usage.is_some();
        self.usage = usage.or(self.usage);
        self.tier = chunk.tier().unwrap_or(self.tier);
    }

    /// Ends the request, with the reason if it failed. Returns its cost in millionths of a US dollar; `None` if no
    /// price is known.
    pub(super) fn end(mut self, failure: Option<&Failure>) -> Option<u64> {
        self.close(failure.map(Failure::code))
    }

    fn close(&mut self, error: Option<&str>) -> Option<u64> {
        let controlled = self.controlled.take()?;
        let asked = self.provider.as_ref().map(|_| self.asked.as_str());
        let bare = asked.and_then(|asked| asked.split_once('/')).map(|(_, model)| model);
        let guards = self.acts.recorded();
        let outcome = ModelOutcome {
            provider: self.provider.as_deref(),
            model: self.named.as_deref().or(bare),
            asked,
            has_others: self.work.has_others(),
            usage: self.usage.filter(|_| error.is_none() || self.is_usage_current),
            tier: self.tier,
            cost: None,
            error,
            has_not_begun: error.is_some() && !self.work.has_begun(),
            guards: &guards,
        };
        let cost = controlled.cost(&outcome);
        controlled.end(&ModelOutcome { cost, ..outcome });
        cost
    }
}

/// Returns the length of a request, in which images are looked for: in a long one on a blocking thread.
async fn request_bytes(prompt: &Prompt, tenant: &Tenant) -> usize {
    if prompt.body.text_len() <= threads::INLINE_BYTES {
        return prompt.request_bytes();
    }
    // Its texts are shared.
    let prompt = prompt.clone();
    threads::run(tenant, move || prompt.request_bytes()).await
}

impl Drop for ControlledRequest {
    fn drop(&mut self) {
        self.close(Some(HostCode::Cancelled.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use serde_json::json;

    use super::*;
    use airlock_json::{RawObject, object};

    #[tokio::test]
    async fn images_are_not_looked_for_in_a_long_request_on_a_worker() {
        let tenant = Tenant::ANONYMOUS;
        for (bytes, is_here) in [(10, true), (threads::INLINE_BYTES, false)] {
            let body = json!({"model": "m", "messages": "x".repeat(bytes)});
            let prompt = Prompt::new(RawObject::from(&object(body)));
            let held = threads::occupy(&tenant).await;
            let mut counting = Box::pin(request_bytes(&prompt, &tenant));
            let at_once = counting.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), is_here, "{bytes}");
            drop(held);
            let counted = if let Some(counted) = at_once { counted } else { counting.await };
            assert_eq!(counted, prompt.request_bytes());
        }
    }
}
