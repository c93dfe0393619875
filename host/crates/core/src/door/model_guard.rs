//! Guards of models: components of the operator that decide about the texts of requests to models and of their
//! responses. They see texts alone, whatever the API, and can replace them; the form of a request is not theirs.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use super::{Membership, PlaceholderSpan, Placeholders};
use crate::{
    tenant::Tenant,
    tool::{GuardActs, GuardHook, ModelRefusal},
};

/// The guards of requests to models and of their responses. They can refuse a request, withhold a response, and replace
/// texts.
pub trait ModelGuards: Send + Sync + 'static {
    /// Returns whether a guard looks at the requests, or the responses, of a party.
    fn looks(&self, hook: GuardHook, membership: &Membership) -> bool;

    /// Bytes of each text of a stream that are held back while guards look at a part of it; `None` if the responses to a
    /// party are kept until they are complete.
    fn stream_window(&self, _membership: &Membership) -> Option<usize> {
        None
    }

    /// Decides about texts. Returns those that take their places, in the same number; `None` if nothing changes.
    /// Fails if a guard denies them or fails. Records each decision in [`ReviewedExchange::acts`], unless it changes
    /// nothing.
    fn decide(
        &self,
        exchange: ReviewedExchange,
        texts: Vec<ReviewedText>,
    ) -> BoxFuture<'_, Result<Option<Vec<ReviewedText>>, ModelRefusal>>;
}

/// A request to a model, or its response.
#[derive(Debug, Clone)]
pub struct ReviewedExchange {
    /// [`GuardHook::BeforeModel`] for a request, [`GuardHook::AfterModel`] for a response.
    pub hook: GuardHook,
    /// The model that is asked, as `NAME/model`.
    pub model: String,
    /// The party that the request is accounted to.
    pub tenant: Tenant,
    /// The key that the request came with.
    pub membership: Arc<Membership>,
    /// The decisions about the request and its response that are recorded.
    pub acts: Arc<GuardActs>,
    /// The placeholders of the request. A guard can add some before the model alone.
    pub placeholders: Arc<Placeholders>,
}

/// A text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReviewedText {
    /// The role of its message, as the request has it; else `call` for the arguments of a call, `tool` for a result, and
    /// `reasoning`.
    pub role: String,
    /// The text.
    pub text: String,
}

impl ReviewedText {
    /// Role of the reasoning of a model.
    pub const REASONING: &str = "reasoning";
}

/// A text that a guard has written in the place of another one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenText {
    /// The role of its message.
    pub role: String,
    /// The text.
    pub text: String,
    /// The parts of the text in whose places the model gets placeholders, in their order.
    #[serde(default)]
    pub hide: Vec<PlaceholderSpan>,
}
