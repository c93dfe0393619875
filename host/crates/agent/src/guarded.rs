//! Guards of models: what they see of a request and of a response, and what becomes of their decision.
//!
//! `texts` finds the texts of a conversation in every form, `request` those that are sent to the model, `reply` those that
//! the model sends. A request is decided for each model that may get it, its fallbacks included. A response about which
//! guards decide is kept until it is complete, or until they have decided about a window of its stream: nothing of it
//! reaches the caller or a tool before. A response to a request with placeholders is kept until it is complete, and
//! `restored` puts the originals back: the guards of the response, the tools and the caller get them.

mod reply;
mod request;
mod restored;
mod texts;

use std::sync::Arc;

use airlock_core::{
    door::{Caller, ModelGuards, ReviewedExchange, ReviewedText},
    tool::{GuardActs, GuardHook},
};

pub(super) use self::{
    reply::{ReplyWindows, ReviewedReply},
    restored::restore_items,
};
use crate::{Failure, conversation::Conversation};
use airlock_model::Route;

/// The guards that look at the requests to a model, or at its responses, and the placeholders of the request.
pub(super) struct ModelReview<'c> {
    /// `None` if no guard looks at the response, and it may have placeholders.
    guards: Option<&'c dyn ModelGuards>,
    /// The exchange with the model that is asked, or has responded.
    exchange: ReviewedExchange,
    /// The models that are asked if that one fails.
    fallbacks: Vec<String>,
}

impl<'c> ModelReview<'c> {
    /// Creates the review of the requests of a caller; `None` if no guard looks at them. The decisions are added to
    /// `acts`, if they are recorded.
    pub(super) fn of_request(
        caller: &'c Caller,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
        conversation: &Conversation,
    ) -> Option<Self> {
        Self::new(caller, GuardHook::BeforeModel, route, acts, conversation)
    }

    /// Creates the review of a response of the model that the route has asked; `None` if no guard looks at it, and the
    /// request has no placeholders.
    pub(super) fn of_reply(
        caller: &'c Caller,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
        conversation: &Conversation,
    ) -> Option<Self> {
        Self::new(caller, GuardHook::AfterModel, route, acts, conversation)
    }

    fn new(
        caller: &'c Caller,
        hook: GuardHook,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
        conversation: &Conversation,
    ) -> Option<Self> {
        let view = caller.view();
        let guards = view.model_guards(hook);
        if guards.is_none() && !conversation.has_placeholders() {
            return None;
        }
        let exchange = ReviewedExchange {
            hook,
            model: route.model(),
            tenant: view.tenant().clone(),
            membership: view.shared_membership().clone(),
            acts: acts.cloned().unwrap_or_default(),
            placeholders: conversation.placeholders.get_or_init(Arc::default).clone(),
        };
        Some(Self { guards, exchange, fallbacks: route.fallbacks() })
    }

    /// Decides about texts for each model, of which some have changed already if `is_changed`. Returns those that take
    /// their places; `None` if nothing changes. Fails if a guard denies them or fails.
    async fn decide(
        &self,
        mut texts: Vec<ReviewedText>,
        mut is_changed: bool,
    ) -> Result<Option<Vec<ReviewedText>>, Failure> {
        let Some(guards) = self.guards.filter(|_| !texts.is_empty()) else { return Ok(None) };
        for model in [&self.exchange.model].into_iter().chain(&self.fallbacks) {
            let exchange = ReviewedExchange { model: model.clone(), ..self.exchange.clone() };
            let decided = guards.decide(exchange, texts.clone()).await;
            if let Some(changed) = decided.map_err(Failure::Guarded)? {
                texts = changed;
                is_changed = true;
            }
        }
        Ok(is_changed.then_some(texts))
    }
}

/// Returns whether guards look at the responses to a caller.
pub(super) fn looks_at_replies(caller: &Caller) -> bool {
    caller.view().model_guards(GuardHook::AfterModel).is_some()
}
