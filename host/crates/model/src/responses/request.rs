//! Chat completion requests → requests of the Responses API.
//!
//! Every member of a chat request has one of four fates: it is translated, it is dropped because
//! the answer is the same without it, it is refused with its name, or it passes through unchanged.
//! Null is the same as absent.
//!
//! | chat completions | Responses API |
//! |---|---|
//! | `messages` | `input` |
//! | `tools`, `tool_choice` | the same, without the object that is named after the type |
//! | `max_completion_tokens`, `max_tokens` | `max_output_tokens` |
//! | `response_format`, `verbosity` | `text.format`, `text.verbosity` |
//! | `reasoning_effort` | `reasoning.effort` |
//! | `logprobs: true` | `include` with `message.output_text.logprobs` |
//!
//! Dropped, because they are hints that do not change the answer: `seed` (documented as best
//! effort), `prediction` (saves time), and `stream_options`, which the translation of the response
//! uses.
//!
//! Refused unless they have the value that asks for nothing: `n`, `stop`, `logit_bias`,
//! `frequency_penalty`, `presence_penalty`, `modalities`, `audio`, `store`, `functions` and
//! `function_call`. Refused always: `web_search_options` and `prompt`, because the provider would run
//! tools that no policy of the gateway permits, and `conversation`, because all callers share it.
//!
//! All other members pass through: they have the same name and meaning in both APIs
//! (`temperature`, `metadata`, `service_tier`, …), or are unknown, and the provider judges them.

use serde_json::{Value, json};

use super::{messages, tools};
use crate::{
    Object,
    translation::{Unsupported, object_of, take},
};

type Predicate = fn(&Value) -> bool;

/// Members that do not change the answer, or that the gateway sets itself.
const HINTS: [&str; 4] = ["stream", "stream_options", "seed", "prediction"];

/// Members without a counterpart, each with the value that asks for nothing, as a predicate and as
/// text for errors.
const WITHOUT_COUNTERPART: [(&str, Predicate, &str); 13] = [
    ("conversation", never, "left out"),
    ("prompt", never, "left out"),
    ("n", |n| n.as_u64() == Some(1), "1"),
    ("stop", |stop| stop.as_array().is_some_and(Vec::is_empty), "null"),
    ("logit_bias", |bias| bias.as_object().is_some_and(Object::is_empty), "{}"),
    ("frequency_penalty", is_zero, "0"),
    ("presence_penalty", is_zero, "0"),
    ("modalities", |modalities| *modalities == json!(["text"]), "[\"text\"]"),
    ("audio", never, "null"),
    ("store", |store| *store == false, "false"),
    ("functions", |functions| functions.as_array().is_some_and(Vec::is_empty), "null; use `tools`"),
    ("function_call", never, "null; use `tool_choice`"),
    ("web_search_options", never, "null"),
];

/// Returns the members of `POST /v1/responses` for a chat completion request. Fails if a member
/// cannot be expressed. Members whose value only the provider can judge are left to it.
pub(super) fn to_responses(mut chat: Object) -> Result<Object, Unsupported> {
    drop_members(&mut chat)?;
    let input = messages::to_items(take(&mut chat, "messages"))?;
    if let Some(tools) = tools::definitions(take(&mut chat, "tools"))? {
        chat.insert("tools".to_owned(), tools.into());
    }
    if let Some(choice) = take(&mut chat, "tool_choice") {
        chat.insert("tool_choice".to_owned(), tools::choice(choice)?);
    }
    set_max_tokens(&mut chat)?;
    set_text(&mut chat)?;
    if let Some(effort) = take(&mut chat, "reasoning_effort") {
        member(&mut chat, "reasoning")?.insert("effort".to_owned(), effort);
    }
    set_logprobs(&mut chat)?;
    chat.insert("input".to_owned(), input.into());
    Ok(chat)
}

fn drop_members(chat: &mut Object) -> Result<(), Unsupported> {
    chat.retain(|name, value| !value.is_null() && !HINTS.contains(&name.as_str()));
    for (name, asks_for_nothing, default) in WITHOUT_COUNTERPART {
        if take(chat, name).is_some_and(|value| !asks_for_nothing(&value)) {
            let problem =
                format_args!("has no counterpart in the Responses API; it must be {default}");
            return Err(Unsupported::new(name, problem));
        }
    }
    Ok(())
}

fn set_max_tokens(chat: &mut Object) -> Result<(), Unsupported> {
    let older = take(chat, "max_tokens");
    let newer = take(chat, "max_completion_tokens");
    let tokens = match (older, newer) {
        (Some(older), Some(newer)) if older != newer => {
            return Err(Unsupported::new("max_tokens", "must be equal to `max_completion_tokens`"));
        }
        (older, newer) => newer.or(older),
    };
    chat.extend(tokens.map(|tokens| ("max_output_tokens".to_owned(), tokens)));
    Ok(())
}

/// Translates the format of the answer and its verbosity.
fn set_text(chat: &mut Object) -> Result<(), Unsupported> {
    let format = take(chat, "response_format").map(format).transpose()?;
    let verbosity = take(chat, "verbosity");
    for (name, value) in [("format", format), ("verbosity", verbosity)] {
        if let Some(value) = value {
            member(chat, "text")?.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Returns `text.format`: a schema stands beside its type, and not in an object of its own.
fn format(mut format: Value) -> Result<Value, Unsupported> {
    if format["type"] != "json_schema" {
        return Ok(format);
    }
    match format["json_schema"].take() {
        Value::Object(schema) => {
            let mut flat = object_of([("type", "json_schema".into())]);
            flat.extend(schema.into_iter().filter(|(name, _)| name != "type"));
            Ok(flat.into())
        }
        _ => Err(Unsupported::new("response_format.json_schema", "must be an object")),
    }
}

fn set_logprobs(chat: &mut Object) -> Result<(), Unsupported> {
    match take(chat, "logprobs") {
        None | Some(Value::Bool(false)) => Ok(()),
        Some(Value::Bool(true)) => {
            let include = chat.entry("include").or_insert_with(|| json!([]));
            let list = include.as_array_mut();
            let list = list.ok_or_else(|| Unsupported::new("include", "must be a list"))?;
            list.push("message.output_text.logprobs".into());
            Ok(())
        }
        Some(_) => Err(Unsupported::new("logprobs", "must be true or false")),
    }
}

/// Returns a member that is an object, and creates it if it is absent.
fn member<'a>(chat: &'a mut Object, name: &str) -> Result<&'a mut Object, Unsupported> {
    let value = chat.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or_else(|| Unsupported::new(name, "must be an object"))
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn never(_: &Value) -> bool {
    false
}

#[cfg(test)]
mod tests;
