//! Conversation → request of the Responses API.
//!
//! Every member of a chat request has one of four fates: it is translated, it is dropped because
//! the answer is the same without it, it is refused with its name, or it passes through unchanged.
//!
//! | chat completions | Responses API |
//! |---|---|
//! | `messages` | `input` |
//! | `tools`, `tool_choice` | the same, without the object that is named after the type |
//! | `max_completion_tokens`, `max_tokens` | `max_output_tokens` |
//! | `response_format`, `verbosity` | `text.format`, `text.verbosity` |
//! | `reasoning_effort`, a budget of reasoning | `reasoning.effort` |
//! | `logprobs: true` | `include` with `message.output_text.logprobs` |
//!
//! Dropped, because they are hints that do not change the answer: `seed` (documented as best
//! effort), `prediction` (saves time), `stream_options`, which the writer of the reply uses, and readable
//! reasoning, which the API takes only together with its encrypted form, which repeats it.
//!
//! Refused unless they have the value that asks for nothing: `n`, `stop`, `logit_bias`,
//! `frequency_penalty`, `presence_penalty`, `modalities`, `audio`, `store`, `functions` and
//! `function_call`. Refused always: `web_search_options` and `prompt`, because the provider would run
//! tools that no policy of the gateway permits, and `conversation`, because all callers share it.
//!
//! All other members pass through: they have the same name and meaning in both APIs
//! (`temperature`, `metadata`, `service_tier`, …), or are unknown, and the provider judges them.

mod content;
mod items;
mod tools;

use serde_json::{Value, json};

use self::content::ContentPlace;
use super::object_of;
use crate::{
    Conversation, Item, Object, Part, ReplyFormat, Settings, Wire,
    chat::effort_of,
    read::{ItemSite, Path, Result, Untranslatable},
};

type Predicate = fn(&Value) -> bool;

/// Hints that this API has too.
const HINTS: [&str; 3] = ["prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"];

/// Members without a counterpart, each with the value that asks for nothing, as a predicate and as
/// text for errors.
const WITHOUT_COUNTERPART: [(&str, Predicate, &str); 12] = [
    ("conversation", never, "left out"),
    ("prompt", never, "left out"),
    ("n", |n| n.as_u64() == Some(1), "1"),
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

/// Writes the members of a request. Its sender sets `store`, `stream` and what else it decides. Fails if an
/// item, a tool or a member has no form in this API. Members whose value only the provider can judge are
/// left to it.
pub fn write_request(conversation: Conversation) -> Result<Object, Untranslatable> {
    let sites = conversation.sites();
    let Conversation { wire, model, items, tools, tool_choice, settings, extra, mut hints, .. } =
        conversation;
    let mut body = check_members(extra, &settings)?;
    if !model.is_empty() {
        body.insert("model".to_owned(), model.into());
    }
    body.insert("input".to_owned(), items::write(items, sites)?.into());
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools::write_definitions(tools)?.into());
    }
    if let Some(choice) = tool_choice {
        body.insert("tool_choice".to_owned(), tools::write_choice(choice)?);
    }
    if wire != Wire::Chat {
        hints.clear();
    }
    write_user(settings.user.as_deref(), &mut hints, &mut body);
    write_settings(settings, &mut body)?;
    set_logprobs(&mut body)?;
    for name in HINTS {
        body.extend(hints.shift_remove(name).map(|value| (name.to_owned(), value)));
    }
    Ok(body)
}

/// Writes the content of a result. Fails if a part has no form in this API.
pub fn write_content(parts: Vec<Part>) -> Result<Value, Untranslatable> {
    content::write(parts, ContentPlace::Input, ItemSite::list(Wire::Chat))
}

/// Writes the items of finished rounds as items of `input`. Fails if one has no form in this API.
pub fn write_items(items: Vec<Item>) -> Result<Vec<Value>, Untranslatable> {
    let sites = vec![ItemSite::list(Wire::Chat); items.len()];
    items::write(items, sites)
}

/// Returns the members that pass through. Refuses those without a counterpart.
fn check_members(mut extra: Object, settings: &Settings) -> Result<Object> {
    for (name, asks_for_nothing, default) in WITHOUT_COUNTERPART {
        if let Some(value) = extra.shift_remove(name).filter(|value| !asks_for_nothing(value)) {
            return Err(without_counterpart(name, &value, default));
        }
    }
    match settings.stop.first() {
        None => Ok(extra),
        Some(text) => Err(without_counterpart("stop", &text.as_str().into(), "null")),
    }
}

fn without_counterpart(name: &str, found: &Value, default: &str) -> Untranslatable {
    let advice = format!("It has no counterpart in the Responses API; it must be {default}.");
    Untranslatable::unsupported_value(&Path::Root.member(name), found, &advice)
}

fn write_settings(settings: Settings, body: &mut Object) -> Result<()> {
    let members = [
        ("max_output_tokens", settings.max_output_tokens.map(Value::from)),
        ("temperature", settings.temperature.map(Value::from)),
        ("top_p", settings.top_p.map(Value::from)),
        ("top_k", settings.top_k.map(Value::from)),
        ("parallel_tool_calls", settings.parallel_tool_calls.map(Value::from)),
        ("service_tier", settings.service_tier.map(Value::from)),
    ];
    for (name, value) in members {
        body.extend(value.map(|value| (name.to_owned(), value)));
    }
    let effort = settings.effort.map(Value::from);
    let effort = effort.or_else(|| settings.reasoning_tokens.map(|limit| effort_of(limit).into()));
    // A format of a type that the reader does not know.
    let unknown = body.shift_remove("response_format");
    let verbosity = body.shift_remove("verbosity");
    for (outer, name, value) in [
        ("reasoning", "effort", effort),
        ("text", "format", settings.format.map(write_format).or(unknown)),
        ("text", "verbosity", verbosity),
    ] {
        if let Some(value) = value {
            member(body, outer)?.insert(name.to_owned(), value);
        }
    }
    Ok(())
}

/// Writes the identifier of the user, with the name that the caller used.
fn write_user(user: Option<&str>, hints: &mut Object, body: &mut Object) {
    let older = hints.shift_remove("user");
    if let Some(user) = user.filter(|user| older.as_ref().is_none_or(|older| older != user)) {
        body.insert("safety_identifier".to_owned(), user.into());
    }
    body.extend(older.map(|older| ("user".to_owned(), older)));
}

/// Returns `text.format`: a schema stands beside its type, and not in an object of its own.
fn write_format(format: ReplyFormat) -> Value {
    let (name, description, schema, strict) = match format {
        ReplyFormat::Text => return json!({"type": "text"}),
        ReplyFormat::Json => return json!({"type": "json_object"}),
        ReplyFormat::Schema { name, description, schema, strict } => {
            (name, description, schema, strict)
        }
    };
    let mut flat = object_of([("type", "json_schema".into()), ("name", name.into())]);
    flat.extend(description.map(|text| ("description".to_owned(), text.into())));
    flat.extend(schema.map(|schema| ("schema".to_owned(), schema)));
    flat.extend(strict.map(|strict| ("strict".to_owned(), strict.into())));
    flat.into()
}

fn set_logprobs(body: &mut Object) -> Result<()> {
    match body.shift_remove("logprobs") {
        None | Some(Value::Bool(false)) => Ok(()),
        Some(Value::Bool(true)) => {
            let asked = "message.output_text.logprobs".into();
            match body.entry("include").or_insert_with(|| json!([])) {
                Value::Array(include) => include.push(asked),
                other => {
                    let path = Path::Member(&Path::Root, "include");
                    return Err(Untranslatable::invalid_type(&path, "an array", other));
                }
            }
            Ok(())
        }
        Some(other) => {
            Err(Untranslatable::invalid_type(&Path::Root.member("logprobs"), "a boolean", &other))
        }
    }
}

/// Returns a member that is an object, and creates it if it is absent.
fn member<'a>(body: &'a mut Object, name: &str) -> Result<&'a mut Object> {
    match body.entry(name).or_insert_with(|| Object::new().into()) {
        Value::Object(member) => Ok(member),
        other => Err(Untranslatable::invalid_type(&Path::Root.member(name), "an object", other)),
    }
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn never(_: &Value) -> bool {
    false
}

#[cfg(test)]
mod tests;
