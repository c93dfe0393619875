//! Request of the Responses API → conversation.
//!
//! | Responses API | conversation |
//! |---|---|
//! | `instructions` | a message of the role `System` |
//! | `input` | items; the result of a call follows the calls of its turn |
//! | `tools`, `tool_choice` | functions; a custom tool is native, in the form of chat completions |
//! | `max_output_tokens`, `reasoning.effort`, `text.format`, … | settings |
//! | `text.verbosity`, `top_logprobs`, `include` with log probabilities | extra members with their names in chat completions |
//!
//! A member of the API without a counterpart in chat completions is refused with its name and never
//! ignored. One that the API does not define is an extra member.

mod content;
mod items;
mod reasoning;
mod settings;
mod tools;

use serde_json::{Value, json};

pub use self::{
    reasoning::{is_own_id, is_own_reasoning, state_bytes},
    tools::{check_definition, unavailable_tool},
};
use super::object_of;
use crate::{
    Conversation, ItemPlace, Object, Wire,
    read::{Members, Path, Result, Untranslatable},
};

/// Members of chat completions that have another name in the Responses API.
const MOVED: &[(&str, &str)] = &[
    ("messages", "input"),
    ("functions", "tools"),
    ("function_call", "tool_choice"),
    ("response_format", "text.format"),
    ("verbosity", "text.verbosity"),
    ("reasoning_effort", "reasoning.effort"),
    ("max_tokens", "max_output_tokens"),
    ("max_completion_tokens", "max_output_tokens"),
    ("logprobs", "include"),
];
/// Members without a counterpart, and advice for the client.
const REFUSED: &[(&str, &str)] = &[
    ("context_management", "Items are never removed. Send a shorter 'input'."),
    ("moderation", "Its results have no counterpart in chat completions."),
    ("access_programs", "It has no counterpart in chat completions."),
    ("image", "It has no counterpart in chat completions."),
    ("background_options", "Responses cannot be made in the background."),
    ("audio", "Responses have no audio."),
];

/// Members that bound a request or choose its conversation. A misspelt one would reach the provider
/// as an unknown member, and the request would run without the bound.
const BOUNDING: [&str; 4] =
    ["max_tool_calls", "max_output_tokens", "parallel_tool_calls", "previous_response_id"];

/// Reads the body of `POST /v1/responses`. `places` are those of the elements of `input` in the
/// caller's list; elements beyond them are in their own places. Fails with the position of the first
/// member that is invalid or has no counterpart in chat completions.
pub fn read_request(body: Object, places: &[ItemPlace]) -> Result<Conversation, Untranslatable> {
    let mut request = Members::new(&Path::Root, body);
    refuse_always(&mut request)?;
    refuse(&mut request)?;
    let model = request.text("model")?.unwrap_or_default();
    let mut conversation = Conversation::new(Wire::Responses, model);
    items::read(&mut request, places, &mut conversation)?;
    conversation.tools = tools::read_definitions(&mut request)?;
    conversation.tool_choice = tools::read_choice(&mut request)?;
    settings::read(&mut request, &mut conversation)?;
    let rest = request.into_rest().into_iter().filter(|(_, value)| !value.is_null());
    conversation.extra.extend(rest);
    Ok(conversation)
}

/// Reads `input` as a list of items. A text is a message of the user.
pub fn read_input(request: &mut Members<'_>) -> Result<Vec<Value>, Untranslatable> {
    match request.required("input")? {
        Value::String(text) => {
            let content = object_of([("type", "input_text".into()), ("text", text.into())]);
            let content = vec![Value::Object(content)];
            let kind = "message".into();
            let message = [("type", kind), ("role", "user".into()), ("content", content.into())];
            Ok(vec![object_of(message).into()])
        }
        Value::Array(mut items) => {
            items.iter_mut().for_each(add_type);
            Ok(items)
        }
        other => Err(Untranslatable::invalid_type(
            &request.path("input"),
            "a string or an array of items",
            &other,
        )),
    }
}

/// Adds the `type` of a message without one. OpenAI's API permits it only there.
fn add_type(item: &mut Value) {
    if let Value::Object(members) = item
        && members.get("type").is_none_or(Value::is_null)
        && members.contains_key("role")
    {
        members.insert("type".to_owned(), "message".into());
    }
}

/// Refuses members of another API, those that the gateway itself would have to act on, and misspelt
/// ones: the request for any provider must not have them.
pub fn refuse_always(request: &mut Members<'_>) -> Result<(), Untranslatable> {
    for name in BOUNDING {
        if let Some(found) = request.like(name) {
            return Err(Untranslatable::misspelt(&request.path(found), name));
        }
    }
    for (name, replacement) in MOVED {
        let advice = format!("In the Responses API, this parameter has moved to '{replacement}'.");
        request.refuse(name, &advice)?;
    }
    let advice = "Conversations are not available. Use 'previous_response_id'.";
    request.refuse("conversation", advice)?;
    // It may name tools that run at the provider, without a decision of the gateway.
    let advice = "Stored prompts are not available. Use 'instructions' and 'input'.";
    request.refuse("prompt", advice)?;
    let advice = "Responses are made while the client waits. Only false is supported.";
    request.refuse_unless("background", &false.into(), advice)?;
    settings::check_stream_options(request)
}

fn refuse(request: &mut Members<'_>) -> Result<()> {
    for (name, advice) in REFUSED {
        request.refuse(name, advice)?;
    }
    check_truncation(request)?;
    // Codex describes its user's machine and session in it, for OpenAI alone.
    request.take("client_metadata");
    request.refuse_unless("n", &1.into(), "A response has one choice.")?;
    request.refuse_unless("modalities", &json!(["text"]), "Responses have text only.")
}

/// Checks `truncation`. `auto` permits that items are removed from the input, and does not require it.
fn check_truncation(request: &mut Members<'_>) -> Result<()> {
    match request.text("truncation")?.as_deref() {
        None | Some("auto" | "disabled") => Ok(()),
        Some(other) => {
            let supported = &["auto", "disabled"];
            Err(Untranslatable::invalid_value(&request.path("truncation"), other, supported))
        }
    }
}

#[cfg(test)]
mod tests;
