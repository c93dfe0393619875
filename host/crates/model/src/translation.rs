//! Translation between chat completions and another API: its errors, and how a request is translated.

use http::StatusCode;
use serde_json::{Value, json};

use super::{Charge, ModelError, Object, Refusal, http::HttpClient, object};
use airlock_conversation::{Conversation, ReplyError, chat, read::Untranslatable};
use airlock_core::threads;
use airlock_json::{self as json, Caps};

/// Maximum memory of a request as a tree, in bytes.
const CAPS: Caps = Caps::memory(256 << 20);

/// Form in which an API has the arguments of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArgumentForm {
    Text,
    Object,
}

/// Reason that a request was not translated.
enum Untranslated {
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
    fn into_model_error(self, client: &HttpClient) -> ModelError {
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

/// Writes a chat request in another API: reads `text`, and passes the conversation to `write`, on the
/// thread pool if it is long. Memory for the texts of both forms and for the trees between them is held
/// in `working` while this runs.
pub(super) async fn write<T, W>(
    client: &HttpClient,
    text: Vec<u8>,
    working: Charge,
    form: ArgumentForm,
    write: W,
) -> Result<T, ModelError>
where
    T: Send + 'static,
    W: FnOnce(Conversation) -> Result<T, Untranslatable> + Send + 'static,
{
    // Once as it is and once translated.
    if !working.grow(text.len().saturating_mul(2)) {
        return Err(client.no_memory());
    }
    let length = text.len();
    let tenant = working.tenant();
    let written = threads::read(&tenant, length, move || {
        let conversation = read(text, &working, form)?;
        write(conversation).map_err(Untranslated::Untranslatable)
    });
    written.await.map_err(|error| error.into_model_error(client))
}

fn read(text: Vec<u8>, held: &Charge, form: ArgumentForm) -> Result<Conversation, Untranslated> {
    let cost = json::check(&text, &CAPS).map_err(Untranslated::Json)?;
    hold(held, cost.tree_bytes)?;
    let chat = serde_json::from_slice(&text).map_err(|error| Untranslated::Json(error.into()))?;
    drop(text);
    if form == ArgumentForm::Object {
        hold(held, arguments_bytes(&chat))?;
    }
    chat::read_request(chat).map_err(Untranslated::Untranslatable)
}

fn hold(held: &Charge, bytes: usize) -> Result<(), Untranslated> {
    if held.grow(bytes) { Ok(()) } else { Err(Untranslated::NoMemory) }
}

/// Returns the memory of the arguments of all calls as objects, beside their texts.
fn arguments_bytes(chat: &Object) -> usize {
    let messages = chat.get("messages").and_then(Value::as_array).into_iter().flatten();
    let messages = messages.filter_map(Value::as_object);
    messages.map(chat::arguments_bytes).fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
