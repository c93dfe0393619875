//! The end of a Response.

use serde_json::{Value, json};

use super::{super::failure, item::ItemStatus};
use airlock_conversation::{FinishReason, Object, chat, responses};
use airlock_json::object;

/// End of a Response.
#[derive(Debug)]
pub(super) struct ResponseEnd {
    outcome: EndState,
    usage: Value,
    airlock: Option<Object>,
}

#[derive(Debug)]
enum EndState {
    Completed,
    /// The reason is `incomplete_details.reason`.
    Incomplete(&'static str),
    Failed(Object),
}

impl ResponseEnd {
    /// Ends a Response after a response of the model with this end.
    pub(super) fn of_answer(
        finish_reason: Option<&FinishReason>,
        usage: Option<&Value>,
        airlock: Option<Object>,
    ) -> Self {
        let outcome = match finish_reason {
            Some(FinishReason::Length) => EndState::Incomplete("max_output_tokens"),
            Some(FinishReason::ContentFilter) => EndState::Incomplete("content_filter"),
            _ => EndState::Completed,
        };
        Self::new(outcome, usage, airlock)
    }

    /// Ends a Response with an error object of chat completions.
    pub(super) fn of_failure(
        error: &Object,
        usage: Option<&Value>,
        airlock: Option<Object>,
    ) -> Self {
        Self::new(EndState::Failed(failure::to_responses(error)), usage, airlock)
    }

    fn new(outcome: EndState, usage: Option<&Value>, airlock: Option<Object>) -> Self {
        let usage = usage.and_then(Value::as_object).cloned().map(chat::read_usage);
        let usage = usage.map(|usage| responses::write_usage(&usage));
        Self { outcome, usage: usage.into(), airlock }
    }

    /// Returns the status of the items that were open.
    pub(super) fn item_status(&self) -> ItemStatus {
        match self.outcome {
            EndState::Completed => ItemStatus::Completed,
            EndState::Incomplete(_) | EndState::Failed(_) => ItemStatus::Incomplete,
        }
    }

    /// Returns the type of the last event.
    pub(super) fn event(&self) -> &'static str {
        match self.outcome {
            EndState::Completed => "response.completed",
            EndState::Incomplete(_) => "response.incomplete",
            EndState::Failed(_) => "response.failed",
        }
    }

    /// Returns the members of a Response that describe its end; `ending` is `None` before it.
    pub(super) fn members(ending: Option<&Self>) -> Object {
        let outcome = ending.map(|ending| &ending.outcome);
        let (status, details, error) = match outcome {
            None => ("in_progress", None, None),
            Some(EndState::Completed) => ("completed", None, None),
            Some(EndState::Incomplete(reason)) => ("incomplete", Some(reason), None),
            Some(EndState::Failed(error)) => ("failed", None, Some(error)),
        };
        let mut members = object(json!({
            "status": status,
            "error": error,
            "incomplete_details": details.map(|reason| json!({"reason": reason})),
            "usage": ending.map(|ending| &ending.usage),
        }));
        let airlock = ending.and_then(|ending| ending.airlock.clone());
        members.extend(airlock.map(|airlock| ("airlock".to_owned(), airlock.into())));
        members
    }
}
