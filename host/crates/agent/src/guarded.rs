//! Guards of models: what they see of a request and of a response, and what becomes of their decision.
//!
//! `texts` finds the texts of a conversation in every form, `request` those that are sent to the model, `reply` those that
//! the model sends. A request is decided for each model that may get it, its fallbacks included. A response about which
//! guards decide is kept until it is complete: nothing of it reaches the caller or a tool before.

mod reply;
mod request;
mod texts;

use std::sync::Arc;

use airlock_core::{
    door::{Caller, ModelGuards, ReviewedExchange, ReviewedText},
    tool::{GuardActs, GuardHook},
};

use crate::Failure;
use airlock_model::Route;

/// The guards that look at the requests to a model, or at its responses.
pub(super) struct ModelReview<'c> {
    guards: &'c dyn ModelGuards,
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
    ) -> Option<Self> {
        Self::new(caller, GuardHook::BeforeModel, route, acts)
    }

    /// Creates the review of a response of the model that the route has asked; `None` if no guard looks at it.
    pub(super) fn of_reply(
        caller: &'c Caller,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
    ) -> Option<Self> {
        Self::new(caller, GuardHook::AfterModel, route, acts)
    }

    fn new(
        caller: &'c Caller,
        hook: GuardHook,
        route: &Route<'_>,
        acts: Option<&Arc<GuardActs>>,
    ) -> Option<Self> {
        let view = caller.view();
        let guards = view.model_guards(hook)?;
        let exchange = ReviewedExchange {
            hook,
            model: route.model(),
            tenant: view.tenant().clone(),
            membership: view.shared_membership().clone(),
            acts: acts.cloned().unwrap_or_default(),
        };
        Some(Self { guards, exchange, fallbacks: route.fallbacks() })
    }

    /// Decides about texts for each model. Returns those that take their places; `None` if nothing changes. Fails if a
    /// guard denies them or fails.
    async fn decide(
        &self,
        mut texts: Vec<ReviewedText>,
    ) -> Result<Option<Vec<ReviewedText>>, Failure> {
        if texts.is_empty() {
            return Ok(None);
        }
        let mut is_changed = false;
        for model in [&self.exchange.model].into_iter().chain(&self.fallbacks) {
            let exchange = ReviewedExchange { model: model.clone(), ..self.exchange.clone() };
            let decided = self.guards.decide(exchange, texts.clone()).await;
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
