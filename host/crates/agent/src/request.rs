//! Requests to the agent loop.

use std::sync::Arc;

use super::{observer::RequestObserver, recall::RecallWriter, results::Results, waiting::Approver};
use airlock_conversation::{Object, Wire};
use airlock_core::{door::Events, memory::MemoryBudget};
use airlock_model::Prompt;

/// A request.
#[derive(Debug)]
pub struct Request {
    /// The API in which the caller receives the response, which may be another one than that of the prompt. A
    /// chat completion in which nothing is changed is passed on as it came to a caller of chat completions.
    pub wire: Wire,
    /// The request as it came. Members that the loop does not use reach a provider of its API unchanged.
    pub prompt: Prompt,
    /// True if the response is streamed: its chunks are events.
    pub is_streamed: bool,
    /// True if the events have chunks even if the model does not stream, and each round is on its
    /// own: no text separates the rounds, and results of calls are not repeated as text. For an
    /// API whose responses are lists of items, in which calls are items of their own.
    pub shows_rounds: bool,
    /// True if the request names tools in an include header.
    pub names_tools: bool,
    /// Maximum number of calls of the gateway's tools, in all rounds together. Calls beyond it are
    /// refused with a message to the model. `None` if only [`Settings`](crate::Settings) bounds them.
    pub max_tool_calls: Option<usize>,
    /// Events of the caller's calls, from [`Caller::with_events`](airlock_core::door::Caller::with_events); `None` if their progress is not
    /// wanted.
    pub reports: Option<Events>,
    /// Keeps large results of MCP servers, of which the model receives a preview; `None` if it
    /// receives them whole.
    pub results: Option<Results>,
    /// Keeps calls that the caller does not see; `None` if nothing is kept.
    pub keeper: Option<RecallWriter>,
    /// Waits for approvals; `None` if calls that need one are handed to the caller.
    pub approver: Option<Approver>,
    /// Members of the `airlock` object that do not depend on the calls, such as servers that are
    /// unavailable. A few, because they are not charged.
    pub notes: Object,
    /// True if the `airlock` object has the estimated tokens of the gateway's tools.
    pub tokens: TokenVisibility,
    /// Budget to which the bytes are charged that the model and tools add to the body. They are
    /// released when the [`Run`](crate::Run) is dropped.
    pub budget: MemoryBudget,
    /// Receives what happens; `None` if nothing does.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

/// Selects whether a caller receives the estimated tokens of the gateway's tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TokenVisibility {
    /// Only logs have them.
    #[default]
    Hidden,
    /// The `airlock` object has them too.
    Shown,
}
