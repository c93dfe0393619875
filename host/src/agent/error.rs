//! Errors that end a request without an answer, and their form for clients.

use std::time::Duration;

use http::{HeaderValue, StatusCode};
use serde_json::json;

use crate::model::{ModelError, Object, SOON, object};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("the model gave no answer")]
pub struct AgentError {
    /// The failure itself.
    #[source]
    pub error: Failure,
    /// Calls made before the failure, as the `airlock` object of an answer; `None` if there were
    /// none.
    pub airlock: Option<Object>,
}

/// Cause of a request that ended without an answer. `Display` is safe to show to clients.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The model's provider failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// One answer asks for more calls than are even refused one by one.
    #[error(
        "the model answered with {found} tool calls at once; the limit is {limit}, and none of them was made"
    )]
    TooManyCalls {
        /// Calls in the answer.
        found: usize,
        /// Calls there may be.
        limit: usize,
    },
    /// The calls themselves do not fit into the conversation any more.
    #[error(
        "the model's tool calls and their results would take {found} bytes of the conversation, and `max_tool_results` allows \
         {limit}; the last calls were not made"
    )]
    TooLarge {
        /// Bytes with the last calls.
        found: usize,
        /// Bytes there may be.
        limit: usize,
    },
    /// The calls do not fit into the memory that the gateway has for requests.
    #[error(
        "the model's tool calls do not fit into `max_request_memory` beside what is in flight; the last calls were not made; try \
         again later"
    )]
    NoMemory,
    /// The request took too long.
    #[error(
        "the request ran past its `agent_timeout` of {limit:?}, after {rounds} rounds of tool calls"
    )]
    Timeout {
        /// Wall-clock time there was.
        limit: Duration,
        /// Rounds of tool calls that were begun.
        rounds: u32,
    },
}

impl Failure {
    /// The HTTP status that tells it.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Model(error) => error.status(),
            Self::TooManyCalls { .. } | Self::TooLarge { .. } => StatusCode::BAD_GATEWAY,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// When to try again, where that is known.
    pub fn retry_after(&self) -> Option<&HeaderValue> {
        match self {
            Self::Model(error) => error.retry_after(),
            Self::NoMemory => Some(&SOON),
            _ => None,
        }
    }

    /// The `error` object: a provider's own where there is one.
    pub fn to_object(&self) -> Object {
        let code = match self {
            Self::Model(error) => return error.to_object(),
            Self::TooManyCalls { .. } => "too_many_tool_calls",
            Self::TooLarge { .. } => "tool_results_too_large",
            Self::NoMemory => "gateway_overloaded",
            Self::Timeout { .. } => "agent_timeout",
        };
        object(
            json!({"message": self.to_string(), "type": "server_error", "param": null, "code": code}),
        )
    }
}
