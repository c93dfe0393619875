//! Translation of requests to the API of a provider, and its errors.

use std::{borrow::Cow, sync::Arc};

use http::StatusCode;
use serde_json::json;

use super::{
    ModelError, Prompt, Refusal,
    http::HttpClient,
    prompt::{HeldMembers, TargetApi},
};
use airlock_conversation::{
    Conversation, FunctionTool, Item, ItemPlace, Object, ReplyError, ToolDefinition, Wire,
    chat::{self, ChatDialect},
    messages,
    read::Untranslatable,
    responses,
};
use airlock_core::{
    memory::Charge,
    threads::{self, INLINE_BYTES},
    tool::Tool,
};
use airlock_json::{self as json, Caps, RawObject, object};

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

impl Prompt {
    /// Returns the caller's members as those of a chat completion request; `None` if they have no form as one,
    /// or if there is no memory for it.
    pub async fn as_chat(&self, held: &Charge) -> Option<&RawObject> {
        match self.translated(TargetApi::AnthropicChat).get() {
            Some(translated) => Some(&translated.members),
            None => members(self, TargetApi::Chat, held).await.ok(),
        }
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

/// Returns the error of a request as the response to it.
pub(super) fn to_refusal(error: Untranslatable) -> Refusal {
    let Untranslatable { code, param, message } = error;
    let error = object(json!({
        "message": message, "type": "invalid_request_error", "param": param, "code": code,
    }));
    Refusal { status: StatusCode::BAD_REQUEST, error, retry_after: None }
}

/// Reads the text of a chat request. Memory for its tree is held in `held`.
fn read(text: &[u8], held: &Charge) -> Result<Object, Untranslated> {
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
    let api = match (prompt.wire, api) {
        (Wire::Chat, TargetApi::Chat | TargetApi::AnthropicChat)
        | (Wire::Responses, TargetApi::Responses) => return Ok(&prompt.body),
        (Wire::Responses | Wire::Gemini, TargetApi::AnthropicChat) => TargetApi::Chat,
        (_, api) => api,
    };
    let translated = prompt.translated(api);
    if let Some(translated) = translated.get() {
        return Ok(&translated.members);
    }
    let source = match api {
        TargetApi::Responses => ReadMembers::for_others(prompt, held).await?,
        _ => ReadMembers::new(prompt),
    };
    let members = with_conversation(source, Arc::default(), held, move |conversation, _| {
        let written = match api {
            TargetApi::Chat => chat::write_request(conversation, ChatDialect::OpenAi),
            TargetApi::AnthropicChat => {
                chat::write_request(conversation, ChatDialect::WithAnthropicMembers)
            }
            TargetApi::Responses => responses::write_request(conversation),
        };
        Ok(RawObject::from(&written?))
    });
    let members = members.await?;
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
    write: impl FnOnce(Conversation) -> Result<T, Untranslatable> + Send + 'static,
) -> Result<T, Untranslated> {
    let source = ReadMembers::for_others(prompt, held).await?;
    with_rounds_after(source, prompt, held, write).await
}

/// As [`with_rounds`], for a provider that has Anthropic's API. The members that only Anthropic's models know
/// stay.
pub(super) async fn for_anthropic<T: Send + 'static>(
    prompt: &Prompt,
    held: &Charge,
    write: impl FnOnce(Conversation) -> Result<T, Untranslatable> + Send + 'static,
) -> Result<T, Untranslated> {
    let source = if prompt.wire == Wire::Messages {
        ReadMembers::chat(members(prompt, TargetApi::AnthropicChat, held).await?)
    } else {
        ReadMembers::new(prompt)
    };
    with_rounds_after(source, prompt, held, write).await
}

async fn with_rounds_after<T: Send + 'static>(
    source: ReadMembers<'_>,
    prompt: &Prompt,
    held: &Charge,
    write: impl FnOnce(Conversation) -> Result<T, Untranslatable> + Send + 'static,
) -> Result<T, Untranslated> {
    let tools = prompt.tools.clone();
    let written = with_conversation(source, prompt.rounds.clone(), held, move |read, working| {
        let mut conversation = read;
        for tool in &tools {
            conversation.tools.push(definition(tool, working)?);
        }
        if !working.grow(conversation.arguments_bytes()) {
            return Err(Untranslated::NoMemory);
        }
        Ok(write(conversation)?)
    });
    written.await
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

/// Reads the caller's members of a request, adds rounds, and writes them. While this runs, memory for the
/// text of the members in both forms, for the tree between them, and for the rounds is held.
async fn with_conversation<T: Send + 'static>(
    source: ReadMembers<'_>,
    rounds: Arc<Vec<Item>>,
    held: &Charge,
    write: impl FnOnce(Conversation, &Charge) -> Result<T, Untranslated> + Send + 'static,
) -> Result<T, Untranslated> {
    let working = held.beside();
    let ReadMembers { wire, body, places } = source;
    let bytes = rounds.iter().map(Item::bytes).fold(body.text_len(), usize::saturating_add);
    // Once as it is and once translated.
    if !working.grow(bytes.saturating_mul(2)) {
        return Err(Untranslated::NoMemory);
    }
    let tenant = held.tenant();
    // Its text is shared.
    let body = body.clone();
    let written = threads::read(&tenant, bytes, move || {
        let text = body.to_text().into_bytes();
        let body = read(&text, &working)?;
        drop(text);
        let mut conversation = match wire {
            Wire::Responses => {
                if !working.grow(responses::state_bytes(&body)) {
                    return Err(Untranslated::NoMemory);
                }
                responses::read_request(body, &places)?
            }
            Wire::Messages => messages::read_request(body)?,
            Wire::Chat | Wire::Gemini => chat::read_request(body)?,
        };
        conversation.items.extend(rounds.iter().cloned());
        write(conversation, &working)
    });
    written.await
}

/// Members that are read into a conversation.
struct ReadMembers<'p> {
    wire: Wire,
    body: &'p RawObject,
    places: Arc<[ItemPlace]>,
}

impl<'p> ReadMembers<'p> {
    /// Returns the members as they came.
    fn new(prompt: &'p Prompt) -> Self {
        Self { wire: prompt.wire, body: &prompt.body, places: prompt.places.clone() }
    }

    /// Returns members that were written as those of a chat completion request.
    fn chat(body: &'p RawObject) -> Self {
        Self { wire: Wire::Chat, body, places: Arc::default() }
    }

    /// Returns the members for an API that is neither chat completions nor Anthropic's. Those of a request of
    /// the Messages API are written as chat completions first, which leaves out or refuses what only
    /// Anthropic's models know.
    async fn for_others(prompt: &'p Prompt, held: &Charge) -> Result<Self, Untranslated> {
        if prompt.wire != Wire::Messages {
            return Ok(Self::new(prompt));
        }
        let body = Box::pin(members(prompt, TargetApi::Chat, held)).await?;
        Ok(Self::chat(body))
    }
}

/// Returns a request as the text of a chat completion request. The members of `set` replace the caller's.
pub(super) async fn chat_text(
    prompt: &Prompt,
    api: TargetApi,
    set: Vec<(&'static str, Cow<'static, str>)>,
    held: &Charge,
) -> Result<Vec<u8>, Untranslated> {
    let members = members(prompt, api, held).await?;
    let scanned = prompt.scanned_bytes(members);
    let written = write_text(prompt, members, scanned, held, move |prompt, members| {
        prompt.to_chat(members, &set)
    });
    written.await
}

/// Writes the text of a request: here, or on a blocking thread if its finished rounds and the `scanned` bytes
/// of its members are many.
pub(super) async fn write_text(
    prompt: &Prompt,
    members: &RawObject,
    scanned: usize,
    held: &Charge,
    write: impl FnOnce(&Prompt, &RawObject) -> Result<Vec<u8>, Untranslatable> + Send + 'static,
) -> Result<Vec<u8>, Untranslated> {
    let bytes = prompt.rounds_bytes().saturating_add(scanned);
    if bytes <= INLINE_BYTES {
        return Ok(write(prompt, members)?);
    }
    // Their texts are shared.
    let prompt = prompt.clone();
    let members = members.clone();
    let tenant = held.tenant();
    Ok(threads::read(&tenant, bytes, move || write(&prompt, &members)).await?)
}

#[cfg(test)]
mod tests;
