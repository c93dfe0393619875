//! The end of a Response.

use serde_json::{Value, json};

use super::{super::failure, item::Status};
use airlock_conversation::{FinishReason, chat, responses};
use airlock_model::{Object, object};

/// End of a Response.
#[derive(Debug)]
pub(super) struct Ending {
    outcome: Outcome,
    usage: Value,
    airlock: Option<Object>,
}

#[derive(Debug)]
enum Outcome {
    Completed,
    /// The reason is `incomplete_details.reason`.
    Incomplete(&'static str),
    Failed(Object),
}

impl Ending {
    /// Ends a Response after a response of the model with this end.
    pub(super) fn of_answer(
        finish_reason: Option<&FinishReason>,
        usage: Option<&Value>,
        airlock: Option<Object>,
    ) -> Self {
        let outcome = match finish_reason {
            Some(FinishReason::Length) => Outcome::Incomplete("max_output_tokens"),
            Some(FinishReason::ContentFilter) => Outcome::Incomplete("content_filter"),
            _ => Outcome::Completed,
        };
        Self::new(outcome, usage, airlock)
    }

    /// Ends a Response with an error object of chat completions.
    pub(super) fn of_failure(
        error: &Object,
        usage: Option<&Value>,
        airlock: Option<Object>,
    ) -> Self {
        Self::new(Outcome::Failed(failure::to_responses(error)), usage, airlock)
    }

    fn new(outcome: Outcome, usage: Option<&Value>, airlock: Option<Object>) -> Self {
        let usage = usage.and_then(Value::as_object).cloned().map(chat::read_usage);
        let usage = usage.map(|usage| responses::write_usage(&usage));
        Self { outcome, usage: usage.into(), airlock }
    }

    /// Returns the status of the items that were open.
    pub(super) fn item_status(&self) -> Status {
        match self.outcome {
            Outcome::Completed => Status::Completed,
            Outcome::Incomplete(_) | Outcome::Failed(_) => Status::Incomplete,
        }
    }

    /// Returns the type of the last event.
    pub(super) fn event(&self) -> &'static str {
        match self.outcome {
            Outcome::Completed => "response.completed",
            Outcome::Incomplete(_) => "response.incomplete",
            Outcome::Failed(_) => "response.failed",
        }
    }

    /// Returns the members of a Response that describe its end; `ending` is `None` before it.
    pub(super) fn members(ending: Option<&Self>) -> Object {
        let outcome = ending.map(|ending| &ending.outcome);
        let (status, details, error) = match outcome {
            None => ("in_progress", None, None),
            Some(Outcome::Completed) => ("completed", None, None),
            Some(Outcome::Incomplete(reason)) => ("incomplete", Some(reason), None),
            Some(Outcome::Failed(error)) => ("failed", None, Some(error)),
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
