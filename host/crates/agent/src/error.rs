//! Errors that end a request without a response, and their form for callers.

use std::time::Duration;

use http::StatusCode;
use serde_json::json;
use tracing::warn;

use airlock_conversation::Object;
use airlock_core::{
    error_reply::ErrorReply,
    model_control::ControlRefusal,
    tool::{HostCode, LoginRequired, ModelRefusal},
};
use airlock_json::object;
use airlock_model::{ModelError, SOON};
use airlock_strings::with_causes;

/// Bifrost's type of the error of a request whose user has to log in, and the name of its details.
pub const AUTH_REQUIRED: &str = "mcp_auth_required";

/// Type of OpenAI's errors about limits.
const RATE_LIMIT_ERROR: &str = "rate_limit_error";

/// Error of a request that ended without a response.
#[derive(Debug, thiserror::Error)]
#[error("the model returned no response")]
pub struct AgentError {
    /// The failure itself.
    #[source]
    pub error: Failure,
    /// Calls made before the failure, as the `airlock` object of a response; `None` if there were
    /// none.
    pub airlock: Option<Object>,
}

impl AgentError {
    /// Returns the error as the APIs send it. Logs it if the provider or the gateway failed.
    pub fn into_error_reply(self) -> ErrorReply {
        let Self { error, airlock } = self;
        let status = error.status();
        let is_failed = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        // A refusal is the operator's own will, and a caller could repeat it without end.
        if is_failed && !matches!(error, Failure::Refused(_)) {
            warn!(
                status = status.as_u16(),
                error = with_causes(&error),
                said = error.said(),
                "a request to a model failed"
            );
        }
        ErrorReply {
            status,
            error: error.to_object(),
            retry_after: error.retry_after(),
            airlock,
            extra_fields: error.extra_fields(),
        }
    }
}

/// Reason that a request ended without a response. `Display` is safe to show to callers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The model's provider failed.
    #[error(transparent)]
    Model(ModelError),
    /// One response has more calls than [`MAX_CALLS_READ`](airlock_core::model_calls::MAX_CALLS_READ).
    #[error(
        "the model's response has {found} tool calls, more than the limit of {limit}; none of them was made"
    )]
    TooManyCalls {
        /// Calls in the response.
        found: usize,
        /// Maximum number of calls.
        limit: usize,
    },
    /// The calls themselves no longer fit into the conversation.
    #[error(
        "the model's tool calls and their results would take {found} bytes of the conversation, and `max_tool_results` allows \
         {limit}; the last calls were not made"
    )]
    TooLarge {
        /// Total bytes, including the last calls.
        found: usize,
        /// Limit in bytes.
        limit: usize,
    },
    /// The calls do not fit into the gateway's memory for requests.
    #[error(
        "the model's tool calls do not fit into `max_request_memory` with the other requests in flight; the last calls were not \
         made; try again later"
    )]
    NoMemory,
    /// All calls of the first round need a login of the caller's user, so none of them was sent.
    #[error("{message}")]
    LoginRequired {
        /// The first login.
        login: Box<LoginRequired>,
        /// Message of its call.
        message: String,
    },
    /// A limit, or the lack of a record, does not permit the request to the model.
    #[error("{}", .0.message)]
    Refused(ControlRefusal),
    /// A guard denies the request to the model or withholds the response, or has failed.
    #[error("{0}")]
    Guarded(ModelRefusal),
    /// The request ran past its deadline.
    #[error(
        "the request ran past its time limit of {limit:?} (`agent_timeout`, or {option} if that is shorter), after \
         {rounds} rounds of tool calls"
    )]
    Timeout {
        /// Maximum wall-clock time, from the configuration or the request.
        limit: Duration,
        /// Rounds of tool calls that were started.
        rounds: u32,
        /// Option of the request with its own limit, as its caller names it.
        option: &'static str,
    },
}

/// Option of a request over HTTP with its own time limit.
const HTTP_TIMEOUT: &str = "`x-airlock-timeout`";
/// The same option of a request of the embedding program.
const LIBRARY_TIMEOUT: &str = "the timeout of the request";

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::TooManyCalls { found, limit } => Self::TooManyCalls { found, limit },
            error => Self::Model(error),
        }
    }
}

impl Failure {
    /// Creates the failure of a request over HTTP that ran past its deadline.
    pub(super) fn timeout(limit: Duration, rounds: u32) -> Self {
        Self::Timeout { limit, rounds, option: HTTP_TIMEOUT }
    }

    /// Returns the failure as the embedding program receives it, which has sent no headers.
    #[must_use]
    pub(super) fn for_program(self) -> Self {
        match self {
            Self::Timeout { limit, rounds, .. } => {
                Self::Timeout { limit, rounds, option: LIBRARY_TIMEOUT }
            }
            other => other,
        }
    }

    /// Returns the HTTP status of the failure.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Model(error) => error.status(),
            Self::TooManyCalls { .. } | Self::TooLarge { .. } => StatusCode::BAD_GATEWAY,
            Self::NoMemory => StatusCode::SERVICE_UNAVAILABLE,
            Self::LoginRequired { .. } => StatusCode::UNAUTHORIZED,
            Self::Refused(refusal) => control_status(refusal.code),
            Self::Guarded(_) => StatusCode::FORBIDDEN,
            Self::Timeout { .. } => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    /// Returns the time to wait before a retry, if known.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Model(error) => error.retry_after(),
            Self::NoMemory => Some(SOON),
            Self::Refused(refusal) => refusal.retry_after,
            _ => None,
        }
    }

    /// Returns the code of the failure for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Model(error) => error.code(),
            Self::TooManyCalls { .. } => "too_many_tool_calls",
            Self::TooLarge { .. } => "tool_results_too_large",
            Self::NoMemory => "gateway_overloaded",
            Self::Timeout { .. } => "agent_timeout",
            Self::LoginRequired { .. } => HostCode::LoginRequired.as_str(),
            Self::Refused(refusal) => refusal.code.as_str(),
            Self::Guarded(refusal) => refusal.code().as_str(),
        }
    }

    /// Returns the message of the provider, for the operator; `None` if it sent none.
    fn said(&self) -> Option<&str> {
        match self {
            Self::Model(error) => error.said(),
            _ => None,
        }
    }

    /// Returns Bifrost's `extra_fields`; `None` if the failure has none.
    fn extra_fields(&self) -> Option<Object> {
        let Self::LoginRequired { login, .. } = self else { return None };
        Some(object(json!({AUTH_REQUIRED: login.to_json()})))
    }

    /// Returns the `error` object: the provider's own if the provider failed. That of a refusal has the time to
    /// wait too, because the events of a stream have no headers.
    pub fn to_object(&self) -> Object {
        let kind = match self {
            Self::Model(error) => return error.to_object(),
            Self::LoginRequired { .. } => AUTH_REQUIRED,
            Self::Refused(refusal) => match refusal.code {
                HostCode::LimitReached => RATE_LIMIT_ERROR,
                HostCode::BudgetExceeded => HostCode::BudgetExceeded.as_str(),
                _ => "server_error",
            },
            Self::Guarded(_) => "permission_error",
            _ => "server_error",
        };
        let message = self.to_string();
        let code = self.code();
        let mut error =
            object(json!({"message": message, "type": kind, "param": null, "code": code}));
        if let Self::Refused(ControlRefusal { retry_after: Some(wait), .. }) = self {
            let wait = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
            error.insert("retry_after_ms".to_owned(), wait.into());
        }
        error
    }
}

/// Returns the HTTP status of a request or a call that a limit, or the lack of a record, does not permit, by the
/// code of the refusal.
fn control_status(code: HostCode) -> StatusCode {
    match code {
        HostCode::BudgetExceeded => StatusCode::PAYMENT_REQUIRED,
        HostCode::RecordsUnavailable | HostCode::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::TOO_MANY_REQUESTS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_has_its_status_its_code_and_the_time_to_wait() {
        for (code, wait, status, kind) in [
            (HostCode::LimitReached, Some(1_500), 429, "rate_limit_error"),
            (HostCode::LimitReached, None, 429, "rate_limit_error"),
            (HostCode::RecordsUnavailable, Some(1_000), 503, "server_error"),
            (HostCode::Unavailable, Some(1_000), 503, "server_error"),
        ] {
            let retry_after = wait.map(Duration::from_millis);
            let message = "a reason".to_owned();
            let failure = Failure::Refused(ControlRefusal { code, message, retry_after });
            assert_eq!(failure.status().as_u16(), status);
            assert_eq!(failure.retry_after(), retry_after);
            let mut expected = object(
                json!({"message": "a reason", "type": kind, "param": null, "code": code.as_str()}),
            );
            expected.extend(wait.map(|wait| ("retry_after_ms".to_owned(), wait.into())));
            assert_eq!(failure.to_object(), expected);
        }
    }
}
