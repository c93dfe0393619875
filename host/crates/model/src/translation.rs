//! Translation between chat completions and another API: its errors, and how a request is read.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Charge, ModelError, Object, Refusal, http::HttpClient, object};
use airlock_conversation::{ReplyError, chat, read::Untranslatable};
use airlock_json::{self as json, Caps};

/// Maximum memory of a request as a tree, in bytes.
const CAPS: Caps = Caps::memory(256 << 20);

/// Reason that a request was not translated.
pub(super) enum Untranslated {
    Json(json::Error),
    NoMemory,
    /// A request that the types of a conversation, or the API that it is written in, cannot express.
    Untranslatable(Untranslatable),
}

/// Reason that a response or an event of another API has no translation.
#[derive(Debug, thiserror::Error)]
pub(super) enum ResponseError {
    /// The service reported an error, either as the response or as an event of a stream.
    #[error("the service reported an error of status {}", .0.status.as_u16())]
    Refused(Box<Refusal>),
    /// The service broke its protocol.
    #[error("{what}")]
    Invalid {
        /// Description of the violation, as a noun.
        what: &'static str,
    },
}

impl Untranslated {
    /// Returns the failure of the request.
    pub(super) fn into_model_error(self, client: &HttpClient) -> ModelError {
        match self {
            Self::Json(error) => client.bad_request(&error),
            Self::NoMemory => client.no_memory(),
            Self::Untranslatable(error) => client.refused(to_refusal(error)),
        }
    }
}

impl ResponseError {
    /// Returns the failure of the request.
    pub(super) fn into_model_error(self, client: &HttpClient) -> ModelError {
        match self {
            Self::Refused(refusal) => client.refused(*refusal),
            Self::Invalid { what } => client.bad_answer(what),
        }
    }
}

impl From<Untranslatable> for Untranslated {
    fn from(error: Untranslatable) -> Self {
        Self::Untranslatable(error)
    }
}

impl From<ReplyError> for ResponseError {
    fn from(error: ReplyError) -> Self {
        match error {
            ReplyError::Invalid { what } => Self::Invalid { what },
            ReplyError::Reported { error, status } => {
                let status = status.and_then(|status| StatusCode::from_u16(status).ok());
                let status = status.unwrap_or(StatusCode::BAD_GATEWAY);
                Self::Refused(Box::new(Refusal { status, error, retry_after: None }))
            }
        }
    }
}

/// Returns the error of a request as the response to it.
pub(super) fn to_refusal(error: Untranslatable) -> Refusal {
    let Untranslatable { code, param, message } = error;
    let error = object(json!({
        "message": message, "type": "invalid_request_error", "param": param, "code": code,
    }));
    Refusal { status: StatusCode::BAD_REQUEST, error, retry_after: None }
}

/// Reads the text of a chat request. Memory for its tree is held in `held`.
pub(super) fn read(text: &[u8], held: &Charge) -> Result<Object, Untranslated> {
    let cost = json::check(text, &CAPS).map_err(Untranslated::Json)?;
    if !held.grow(cost.tree_bytes) {
        return Err(Untranslated::NoMemory);
    }
    serde_json::from_slice(text).map_err(|error| Untranslated::Json(error.into()))
}

/// Holds memory for the arguments of all calls as objects, beside their texts: the APIs of some services
/// have no arguments as text.
pub(super) fn hold_arguments(chat: &Object, held: &Charge) -> Result<(), Untranslated> {
    let bytes = messages_of(chat).map(chat::arguments_bytes).fold(0, usize::saturating_add);
    if held.grow(bytes) { Ok(()) } else { Err(Untranslated::NoMemory) }
}

fn messages_of(chat: &Object) -> impl Iterator<Item = &Object> {
    let messages = chat.get("messages").and_then(Value::as_array);
    messages.into_iter().flatten().filter_map(Value::as_object)
}
