//! Starts the agent loop for a chat, whatever the form of its request is.

use std::{sync::Arc, time::Duration};

use super::{ModelTools, RequestParts, Sender};
use airlock_agent::{self as agent, RequestObserver, Run, TokenVisibility};
use airlock_conversation::{Object, Wire};
use airlock_core::{
    door::{Caller, CallerCapabilities, Origin, ToolMode},
    memory::MemoryBudget,
    request_memory::RequestCharge,
    tool::QuestionKinds,
};
use airlock_model::Prompt;

/// Options of a request to a model about the gateway's tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolOptions {
    /// True if the `airlock` object has the estimated tokens of tools.
    pub tokens: TokenVisibility,
    /// Way in which tools for scripts are offered; `None` leaves it to the configuration.
    pub mode: Option<ToolMode>,
}

/// A chat that was read and is ready for the loop.
pub struct PreparedChat {
    /// The API in which the caller receives the reply. Only a caller of chat completions receives one that is
    /// passed on as it came.
    pub wire: Wire,
    /// The request.
    pub prompt: Prompt,
    /// True if the reply is streamed.
    pub is_streamed: bool,
    /// True if the caller receives the progress of calls.
    pub wants_events: bool,
    /// Questions of tools that the caller can answer in a later request.
    pub questions: QuestionKinds,
    /// False if nothing of the request may be stored.
    pub may_store: bool,
    /// Further members of the `airlock` object.
    pub notes: Object,
    /// Options about the gateway's tools.
    pub tools: ToolOptions,
    /// Time for the whole request.
    pub timeout: Duration,
    /// Charged for what the model and the tools add.
    pub charge: RequestCharge,
    /// Receives what happens; `None` if nothing does.
    pub observer: Option<Arc<dyn RequestObserver>>,
}

impl RequestParts {
    /// Starts the agent loop for a chat. Nothing happens until the returned run is polled.
    pub fn start_chat(&self, sender: &Sender, chat: PreparedChat) -> Run {
        let PreparedChat { wire, prompt, is_streamed, wants_events, may_store, .. } = chat;
        let ModelTools { view, mut notes } = self.model_tools(sender, chat.tools);
        let capabilities =
            CallerCapabilities { questions: chat.questions, ..CallerCapabilities::default() };
        let (caller, reports) = if wants_events {
            let (caller, reports) =
                Caller::with_events(view, Origin::Model, self.budget, capabilities);
            (caller, Some(reports))
        } else {
            (Caller::with_capabilities(view, Origin::Model, self.budget, capabilities), None)
        };
        let caller = match &sender.program {
            Some(request) => caller.for_program(request.clone()),
            None => caller,
        };
        self.add_missing(sender, &mut notes);
        notes.extend(chat.notes);
        let request = agent::Request {
            wire,
            prompt,
            is_streamed,
            shows_rounds: false,
            names_tools: sender.filter.names_tools(),
            max_tool_calls: None,
            reports,
            results: Some(self.results.clone()),
            keeper: Some(self.keeper(sender, may_store)),
            approver: self.approver(sender),
            notes,
            tokens: chat.tools.tokens,
            budget: MemoryBudget::new(chat.charge),
            observer: chat.observer,
        };
        self.start(caller, request, chat.timeout)
    }
}

// Leaves the conversation out.
airlock_strings::debug_fields!(PreparedChat { wire, is_streamed });
