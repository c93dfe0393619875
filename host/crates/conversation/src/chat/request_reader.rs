//! Chat completion request → conversation.

mod messages;
mod tools;

pub(crate) use self::tools::read_choice_with;

use serde_json::Value;

use super::members::{read_boolean, read_number, rest};
use crate::{
    Conversation, Object, ReplyFormat, Settings, Wire,
    read::{Members, Path, Result, Untranslatable},
};

/// Members that do not change the reply.
const HINTS: [&str; 6] = [
    "stream_options",
    "seed",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// Names of members that a later name replaced. They are kept as hints, from which the writer sees the
/// name that the caller used.
pub(super) const OUTPUT_TOKENS: &str = "max_tokens";
pub(super) const USER: &str = "user";

pub(super) use self::messages::read_message;

/// Reads the body of a chat completion request. Fails if a member that the conversation needs has no
/// valid value; the provider checks the rest. A member that is `null` counts as absent.
///
/// Of an assistant message, the reasoning comes first, then its content, then its calls. A mark of
/// Anthropic's cache on a message becomes the mark of its last call, or else of its last part.
pub fn read_request(body: Object) -> Result<Conversation, Untranslatable> {
    let mut request = Members::new(&Path::Root, body);
    let model = request.text("model")?.unwrap_or_default();
    let mut conversation = Conversation::new(Wire::Chat, model);
    let messages = request.list("messages")?;
    let path = request.path("messages");
    let messages = messages.ok_or_else(|| Untranslatable::missing(&path))?;
    (conversation.items, conversation.places) = messages::read(messages, &path)?;
    conversation.tools = tools::read_definitions(&mut request)?;
    conversation.tool_choice = tools::read_choice(&mut request)?;
    conversation.settings = read_settings(&mut request, &mut conversation.hints)?;
    for name in HINTS {
        conversation.hints.extend(request.take(name).map(|value| (name.to_owned(), value)));
    }
    conversation.extra = rest(request);
    Ok(conversation)
}

fn read_settings(request: &mut Members<'_>, hints: &mut Object) -> Result<Settings> {
    Ok(Settings {
        stream: request.flag("stream", false)?,
        max_output_tokens: read_max_tokens(request, hints)?,
        temperature: read_number(request, "temperature")?,
        top_p: read_number(request, "top_p")?,
        top_k: read_top_k(request),
        stop: read_stop(request)?,
        parallel_tool_calls: read_boolean(request, "parallel_tool_calls")?,
        effort: request.text("reasoning_effort")?,
        reasoning_tokens: None,
        format: read_format(request)?,
        user: read_user(request, hints)?,
        service_tier: request.text("service_tier")?,
    })
}

fn read_max_tokens(request: &mut Members<'_>, hints: &mut Object) -> Result<Option<u64>> {
    let older = request.count(OUTPUT_TOKENS)?;
    let newer = request.count("max_completion_tokens")?;
    match (older, newer) {
        (Some(older), Some(newer)) if older != newer => {
            let rule = "it must be equal to 'max_completion_tokens'.";
            Err(Untranslatable::invalid(&request.path(OUTPUT_TOKENS), rule))
        }
        (Some(older), None) => {
            hints.insert(OUTPUT_TOKENS.to_owned(), older.into());
            Ok(Some(older))
        }
        (_, newer) => Ok(newer),
    }
}

/// Takes `top_k`, which is a member of servers other than OpenAI's. The provider judges a value of
/// another type.
pub(crate) fn read_top_k(request: &mut Members<'_>) -> Option<u64> {
    let count = request.get("top_k").and_then(Value::as_u64)?;
    request.take("top_k");
    Some(count)
}

pub(crate) fn read_stop(request: &mut Members<'_>) -> Result<Vec<String>> {
    let path = request.path("stop");
    let texts = match request.take("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(vec![text]),
        Some(Value::Array(texts)) => texts,
        Some(other) => {
            return Err(Untranslatable::invalid_type(&path, "a string or an array", &other));
        }
    };
    let texts = texts.into_iter().enumerate().map(|(index, text)| match text {
        Value::String(text) => Ok(text),
        other => Err(Untranslatable::invalid_type(&path.element(index), "a string", &other)),
    });
    texts.collect()
}

/// Takes `response_format`. One of an unknown type stays.
fn read_format(request: &mut Members<'_>) -> Result<Option<ReplyFormat>> {
    let format = request.get("response_format");
    let format = match format.and_then(|format| format.get("type")?.as_str()) {
        Some("text") => ReplyFormat::Text,
        Some("json_object") => ReplyFormat::Json,
        Some("json_schema") => return read_schema(request).map(Some),
        _ => return Ok(None),
    };
    request.take("response_format");
    Ok(Some(format))
}

fn read_schema(request: &mut Members<'_>) -> Result<ReplyFormat> {
    let path = request.path("response_format");
    let mut format = Members::read(&path, request.required("response_format")?)?;
    let path = format.path("json_schema");
    let mut format = Members::read(&path, format.required("json_schema")?)?;
    Ok(ReplyFormat::Schema {
        name: format.text("name")?.unwrap_or_default(),
        description: format.text("description")?,
        schema: format.take("schema"),
        strict: read_boolean(&mut format, "strict")?,
    })
}

/// Takes the identifier of the user. The newer member has precedence.
pub(crate) fn read_user(request: &mut Members<'_>, hints: &mut Object) -> Result<Option<String>> {
    let user = request.text(USER)?;
    if let Some(user) = &user {
        hints.insert(USER.to_owned(), user.as_str().into());
    }
    Ok(request.text("safety_identifier")?.or(user))
}

#[cfg(test)]
mod tests;
