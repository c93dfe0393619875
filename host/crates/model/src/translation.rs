//! Translation between chat completions and another API: its errors, and what its modules share.

use std::{fmt::Display, sync::Arc};

use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Charge, ModelError, Object, Prompt, Refusal,
    http::HttpClient,
    object,
    prompt::{HeldMembers, TargetApi},
};
use airlock_conversation::{
    Conversation, FunctionTool, ReplyError, ToolDefinition, Wire,
    chat::{self, ChatDialect},
    messages,
    read::Untranslatable,
    responses,
};
use airlock_core::{threads, tool::Tool};
use airlock_json::{self as json, Caps, RawObject};

/// Maximum memory of a request as a tree, in bytes.
const CAPS: Caps = Caps::memory(256 << 20);

/// Reason that a request was not translated.
pub(super) enum Untranslated {
    Json(json::Error),
    NoMemory,
    Unsupported(Unsupported),
    /// A request that the types of a conversation, or the API that it is written in, cannot express.
    Untranslatable(Untranslatable),
}

/// A chat request that another API cannot express.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{param}` {problem}")]
pub(super) struct Unsupported {
    /// The field, as a path from the request: `messages[2].content[0].type`.
    pub(super) param: String,
    /// Description of the value that was found and of valid values, to be read after the field.
    pub(super) problem: String,
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

impl Unsupported {
    pub(super) fn new(param: impl Display, problem: impl Display) -> Self {
        Self { param: param.to_string(), problem: problem.to_string() }
    }

    /// Returns the error of a field that lies inside `parent`.
    pub(super) fn within(self, parent: impl Display) -> Self {
        let param = match self.param.as_str() {
            "" => parent.to_string(),
            element if element.starts_with('[') => format!("{parent}{element}"),
            member => format!("{parent}.{member}"),
        };
        Self { param, ..self }
    }

    /// Returns the error as the response to the request.
    pub(super) fn into_refusal(self) -> Refusal {
        let error = object(json!({
            "message": self.to_string(),
            "type": "invalid_request_error",
            "param": self.param,
            "code": "unsupported_parameter",
        }));
        Refusal { status: StatusCode::BAD_REQUEST, error, retry_after: None }
    }
}

impl Untranslated {
    /// Returns the failure of the request.
    pub(super) fn into_model_error(self, client: &HttpClient) -> ModelError {
        match self {
            Self::NoMemory => client.no_memory(),
            error => error.into_error_of(&client.provider),
        }
    }

    /// Returns the failure of the request to a provider.
    pub(super) fn into_error_of(self, provider: &str) -> ModelError {
        let provider = provider.to_owned();
        let refusal = match self {
            Self::Json(error) => {
                return ModelError::BadRequest { provider, reason: error.to_string() };
            }
            Self::NoMemory => return ModelError::NoMemory { provider },
            Self::Unsupported(error) => error.into_refusal(),
            Self::Untranslatable(error) => to_refusal(error),
        };
        ModelError::Refused { provider, refusal: Box::new(refusal) }
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

fn to_refusal(error: Untranslatable) -> Refusal {
    let error = object_of([
        ("message", error.message.into()),
        ("type", "invalid_request_error".into()),
        ("param", error.param.into()),
        ("code", error.code.into()),
    ]);
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

/// Returns the caller's members of a request in an API. If it came in another one, they are read and written
/// when they are first needed, and their text is held with the request.
pub(super) async fn members<'p>(
    prompt: &'p Prompt,
    api: TargetApi,
    held: &Charge,
) -> Result<&'p RawObject, Untranslated> {
    match (prompt.wire, api) {
        (Wire::Chat, TargetApi::Chat) | (Wire::Responses, TargetApi::Responses) => {
            return Ok(&prompt.body);
        }
        _ => {}
    }
    let translated = prompt.translated(api);
    if let Some(translated) = translated.get() {
        return Ok(&translated.members);
    }
    let write = move |conversation, _: &Charge| {
        let written = match api {
            TargetApi::Chat => chat::write_request(conversation, ChatDialect::OpenAi),
            TargetApi::Responses => responses::write_request(conversation),
        };
        Ok(RawObject::from(&written?))
    };
    let members = with_conversation(prompt, held, write).await?;
    let own = held.beside();
    if !own.grow(members.text_len()) {
        return Err(Untranslated::NoMemory);
    }
    Ok(&translated.get_or_init(|| Arc::new(HeldMembers { members, _held: own })).members)
}

/// Reads a request, with the rounds and the tools of the gateway, and writes it; see [`with_conversation`].
/// Memory for the arguments of all calls as objects is held too, because most APIs have no arguments as
/// text.
pub(super) async fn with_rounds<T: Send + 'static>(
    prompt: &Prompt,
    held: &Charge,
    write: impl FnOnce(Conversation) -> Result<T, Untranslated> + Send + 'static,
) -> Result<T, Untranslated> {
    let rounds = prompt.rounds.clone();
    let tools = prompt.tools.clone();
    let write = move |mut conversation: Conversation, working: &Charge| {
        conversation.items.extend(rounds);
        for tool in &tools {
            conversation.tools.push(definition(tool, working)?);
        }
        if !working.grow(conversation.arguments_bytes()) {
            return Err(Untranslated::NoMemory);
        }
        write(conversation)
    };
    with_conversation(prompt, held, write).await
}

/// Returns the definition of a tool of the gateway. Memory for its schema is held.
fn definition(tool: &Tool, held: &Charge) -> Result<ToolDefinition, Untranslated> {
    let schema = tool.parameters();
    let schema = schema.as_str().as_bytes();
    let cost = json::check(schema, &CAPS).map_err(Untranslated::Json)?;
    if !held.grow(cost.tree_bytes) {
        return Err(Untranslated::NoMemory);
    }
    let parameters = serde_json::from_slice(schema);
    Ok(ToolDefinition::Function(FunctionTool {
        name: tool.name.as_str().to_owned(),
        description: Some(tool.described().into()),
        parameters: Some(parameters.map_err(|error| Untranslated::Json(error.into()))?),
        strict: None,
        cache_control: None,
        extra: Object::new(),
    }))
}

/// Reads the caller's members of a request and writes them. While this runs, memory for their text in both
/// forms and for the tree between them is held.
pub(super) async fn with_conversation<T: Send + 'static>(
    prompt: &Prompt,
    held: &Charge,
    write: impl FnOnce(Conversation, &Charge) -> Result<T, Untranslated> + Send + 'static,
) -> Result<T, Untranslated> {
    let working = held.beside();
    let text = prompt.body.to_text().into_bytes();
    // Once as it is and once translated.
    if !working.grow(text.len().saturating_mul(2)) {
        return Err(Untranslated::NoMemory);
    }
    let bytes = text.len();
    let wire = prompt.wire;
    let places = prompt.places.clone();
    let work = move || {
        let body = read(&text, &working)?;
        drop(text);
        let conversation = match wire {
            Wire::Responses => {
                if !working.grow(responses::state_bytes(&body)) {
                    return Err(Untranslated::NoMemory);
                }
                responses::read_request(body, &places)?
            }
            Wire::Messages => messages::read_request(body)?,
            Wire::Chat | Wire::Gemini => chat::read_request(body)?,
        };
        write(conversation, &working)
    };
    threads::read(&held.tenant(), bytes, work).await
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

/// Returns an object of `members`. They are moved; `json!` would copy them, images and all.
pub(super) fn object_of<const N: usize>(members: [(&str, Value); N]) -> Object {
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Removes a member; `None` if it is absent or null.
pub(super) fn take(object: &mut Object, name: &str) -> Option<Value> {
    object.shift_remove(name).filter(|value| !value.is_null())
}

/// Removes a member that must be a string.
pub(super) fn take_text(object: &mut Object, name: &str) -> Result<String, Unsupported> {
    match object.shift_remove(name) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Unsupported::new(name, "must be a string")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_field_is_named_with_its_whole_path() {
        let inner = Unsupported::new("type", "must be \"text\"").within("[0]");
        let refusal = inner.within("content").within("messages[2]").into_refusal();
        assert_eq!(refusal.status, StatusCode::BAD_REQUEST);
        assert_eq!(
            Value::from(refusal.error),
            json!({
                "message": "`messages[2].content[0].type` must be \"text\"",
                "type": "invalid_request_error",
                "param": "messages[2].content[0].type",
                "code": "unsupported_parameter"
            })
        );
    }
}
