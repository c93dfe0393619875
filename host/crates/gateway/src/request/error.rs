//! Reasons that a request of the program fails.

use std::{error::Error, fmt, time::Duration};

use serde_json::Value;

use airlock_agent::AgentError;
use airlock_conversation::{Object, read::Untranslatable};
use airlock_core::{
    request_memory::ChargeRefused,
    tool::{CallError, CallFailure, Cause},
};
use airlock_scripts::runs;
use airlock_store::{Unavailable, runs::RunError};

/// Reason that a request of the program fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The virtual key does not exist, has expired, or needs a certificate.
    #[error("virtual key not found")]
    UnknownKey,
    /// Requests without a virtual key are not permitted.
    #[error("a virtual key is required")]
    KeyRequired,
    /// A name of a client or a tool would be several.
    #[error("{0:?} is not the name of a client or a tool: names have no `,`")]
    Name(String),
    /// The settings in the store were not read yet.
    #[error("the gateway has not read its settings from the store yet; try again in a moment")]
    NotReady,
    /// The gateway stops, or has stopped.
    #[error("the gateway stops")]
    Stopped,
    /// There is no memory for the request.
    #[error(transparent)]
    Memory(#[from] ChargeRefused),
    /// The call was refused, or has failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The sender has no call that waits under this identifier.
    #[error("no call {0:?} waits for an approval: it has expired, or was decided about")]
    NotWaiting(String),
    /// Only an operator decides about this call.
    #[error(
        "only an operator decides about this call: the approval of its caller is \"wait\" in `mcp_server`"
    )]
    OperatorRequired,
    /// The run of a script cannot be decided about or resumed now: it runs, has ended, or has changed since it
    /// was shown.
    #[error("{message}")]
    Run {
        /// The code for programs.
        code: &'static str,
        /// The reason, for people.
        message: String,
    },
    /// The store cannot be used.
    #[error("the store cannot be used right now")]
    Store(#[source] Cause),
    /// The conversation cannot be sent to a model.
    #[error(transparent)]
    Conversation(#[from] Untranslatable),
    /// The chat has no reply.
    #[error(transparent)]
    Chat(#[from] ChatFailure),
}

impl RequestError {
    /// Returns the code for programs, as the HTTP API has it.
    pub fn code(&self) -> String {
        let code = match self {
            Self::UnknownKey | Self::KeyRequired => "invalid_api_key",
            Self::Name(_) => "bad_header",
            Self::NotReady => "settings_unavailable",
            Self::Stopped => "gateway_stopping",
            Self::Memory(ChargeRefused::Budget { .. }) => "gateway_overloaded",
            Self::Memory(ChargeRefused::Share { .. }) => "caller_overloaded",
            Self::Call(error) => return CallFailure::from(error).code,
            Self::NotWaiting(_) => "approval_not_found",
            Self::OperatorRequired => "operator_required",
            Self::Run { code, .. } => *code,
            Self::Store(_) => "store_unavailable",
            Self::Conversation(error) => error.code,
            Self::Chat(error) => return error.code(),
        };
        code.to_owned()
    }

    /// Returns the error of the call; `None` if it is not about one.
    pub fn call_error(&self) -> Option<&CallError> {
        if let Self::Call(error) = self { Some(error) } else { None }
    }

    pub(super) fn not_waiting(id: &str) -> Self {
        Self::NotWaiting(id.to_owned())
    }

    /// Returns the error of a run that was named as `id`.
    pub(super) fn of_run(id: &str, error: RunError) -> Self {
        let code = runs::code(&error);
        match error {
            RunError::Unknown | RunError::NoCall(_) => Self::not_waiting(id),
            RunError::Unavailable(cause) => cause.into(),
            error @ RunError::Refused { .. } => Self::Run { code, message: error.to_string() },
        }
    }
}

impl From<Unavailable> for RequestError {
    fn from(cause: Unavailable) -> Self {
        Self::Store(cause.into())
    }
}

/// Reason that a chat has no reply. `Display` is safe to show to callers.
#[derive(Debug)]
pub struct ChatFailure(Box<AgentError>);

impl ChatFailure {
    pub(super) fn new(error: Box<AgentError>) -> Self {
        Self(error)
    }

    /// Returns the code for programs, as the HTTP API has it: that of the provider if it has sent one.
    pub fn code(&self) -> String {
        match self.to_object().get("code") {
            Some(Value::String(code)) => code.clone(),
            _ => self.0.error.code().to_owned(),
        }
    }

    /// Returns the `error` object of a response, as the HTTP API has it: the provider's own if the provider has
    /// failed.
    pub fn to_object(&self) -> Object {
        self.0.error.to_object()
    }

    /// Returns the status of HTTP that a client would receive.
    pub fn status(&self) -> u16 {
        self.0.error.status().as_u16()
    }

    /// Returns the time to wait before a retry; `None` if it is not known.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.error.retry_after()
    }

    /// Returns the description of the calls that were made before, as the `airlock` object of a response has
    /// it; `None` if there were none.
    pub fn airlock(&self) -> Option<&Object> {
        self.0.airlock.as_ref()
    }
}

impl fmt::Display for ChatFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.error.fmt(f)
    }
}

impl Error for ChatFailure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.error.source()
    }
}
