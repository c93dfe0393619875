//! Chat requests → requests of Anthropic's Messages API.
//!
//! Every member of a chat request is translated, dropped because the response is the same without
//! it, refused with its name, or passed through unchanged. Null is the same as absent.
//!
//! | chat completions | Messages API |
//! |---|---|
//! | `model` | the same |
//! | `messages` | `system` and `messages` |
//! | `tools`, `tool_choice` | the same; of an `allowed_tools` choice, only the allowed tools are offered |
//! | `parallel_tool_calls: false` | `tool_choice.disable_parallel_tool_use` |
//! | `max_completion_tokens`, `max_tokens` | `max_tokens`, [`DEFAULT_MAX_TOKENS`] if absent |
//! | `stop` | `stop_sequences` |
//! | `stream` | the same |
//! | `temperature` | the same up to 1, the maximum of the Messages API |
//! | `top_p` | the same |
//! | `reasoning_effort` | `output_config.effort`; `minimal` is its lowest level, `low`; `none` is `thinking` of type `disabled` |
//! | `response_format` | `json_schema` is `output_config.format`; `json_object` is refused, because JSON needs a schema there |
//! | `safety_identifier`, else `user` | `metadata.user_id` |
//! | `service_tier` | `auto`; `default` is `standard_only`; the other tiers are refused |
//!
//! Dropped, because they are hints that do not change the response: `stream_options` (the
//! translation of the response uses it), `seed` (documented as best effort), `prediction` (saves
//! time), `prompt_cache_key`, `prompt_cache_options` and `prompt_cache_retention` (save cost).
//!
//! Refused unless they have the value that OpenAI's API uses by default: `n`, `logprobs`,
//! `top_logprobs`, `logit_bias`, `frequency_penalty`, `presence_penalty`, `modalities`, `audio`,
//! `store`, `verbosity`, `moderation`, `functions`, `function_call`. Refused always:
//! `web_search_options` and Anthropic's `mcp_servers`, because the provider would run tools that no
//! policy of the gateway permits.
//!
//! All other members pass through: they are Anthropic's own (`thinking`, `metadata`, `container`,
//! `cache_control`, …), or unknown, and Anthropic's API refuses unknown members by name. A chat
//! member beside Anthropic's own member of the same meaning is refused.

mod output;

use serde_json::{Value, json};

use super::{
    content::{self, ContentPlace},
    messages::Conversation,
    tools::Tools,
};
use crate::{
    Object,
    translation::{Unsupported, take},
};

/// Value of the header `anthropic-version` for which requests are translated. It is the last
/// version with `temperature`, `top_p` and `top_k`, which many chat clients send: version
/// 2026-10-21 refuses even their defaults.
pub(super) const API_VERSION: &str = "2023-06-01";

/// `max_tokens` of a request that has no limit. The Messages API requires the member, and chat
/// clients expect no limit. All current models accept this many, and Anthropic's SDKs require a
/// stream above 21,333, because such a response can take more than ten minutes.
pub(super) const DEFAULT_MAX_TOKENS: u64 = 16_384;

type Predicate = fn(&Value) -> bool;

/// Members that do not change the response.
const HINTS: [&str; 6] = [
    "stream_options",
    "seed",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// Members without a counterpart, each with the value that asks for nothing, as a predicate and as
/// text for errors.
const WITHOUT_COUNTERPART: [(&str, Predicate, &str); 15] = [
    ("n", |n| n.as_u64() == Some(1), "1"),
    ("logprobs", is_false, "false"),
    ("top_logprobs", is_zero, "0"),
    ("logit_bias", |bias| bias.as_object().is_some_and(Object::is_empty), "{}"),
    ("frequency_penalty", is_zero, "0"),
    ("presence_penalty", is_zero, "0"),
    ("modalities", |modalities| *modalities == json!(["text"]), "[\"text\"]"),
    ("audio", never, "null"),
    ("store", is_false, "false"),
    ("verbosity", |verbosity| verbosity == "medium", "\"medium\""),
    ("moderation", never, "null"),
    ("functions", |functions| functions.as_array().is_some_and(Vec::is_empty), "null; use `tools`"),
    ("function_call", never, "null; use `tool_choice`"),
    ("web_search_options", never, "null"),
    ("mcp_servers", never, "null"),
];

/// Returns the body of `POST /v1/messages` for a chat request. Fails if a member cannot be
/// expressed. Members whose value only the provider can judge are left to it.
pub(super) fn to_messages(mut chat: Object) -> Result<Object, Unsupported> {
    drop_members(&mut chat)?;
    let mut conversation = Conversation::new(take(&mut chat, "messages"))?;
    let tools = Tools::new(
        take(&mut chat, "tools"),
        take(&mut chat, "tool_choice").as_ref(),
        take(&mut chat, "parallel_tool_calls").as_ref(),
    )?;
    set_max_tokens(&mut chat)?;
    set_stop(&mut chat)?;
    set_user(&mut chat)?;
    output::set_effort(&mut chat)?;
    output::set_format(&mut chat)?;
    set_service_tier(&mut chat)?;
    check_temperature(&chat)?;
    check_stream(&mut chat)?;
    set_system(&mut chat, std::mem::take(&mut conversation.system))?;
    chat.insert("messages".to_owned(), conversation.into_messages().into());
    if !tools.tools.is_empty() {
        chat.insert("tools".to_owned(), tools.tools.into());
    }
    if let Some(choice) = tools.choice {
        chat.insert("tool_choice".to_owned(), choice.into());
    }
    Ok(chat)
}

/// Removes `betas` from a request and returns it as the value of the header `anthropic-beta`, its
/// place in the HTTP API. Anthropic's SDKs take it as a member.
pub(super) fn take_betas(request: &mut Object) -> Result<Option<String>, Unsupported> {
    let Some(betas) = take(request, "betas") else { return Ok(None) };
    let names: Option<Vec<_>> =
        betas.as_array().and_then(|betas| betas.iter().map(beta_name).collect());
    match names {
        Some(names) if names.is_empty() => Ok(None),
        Some(names) => Ok(Some(names.join(","))),
        None => Err(Unsupported::new("betas", "must be a list of names of beta features")),
    }
}

fn beta_name(beta: &Value) -> Option<String> {
    let name = beta.as_str().filter(|name| !name.is_empty())?;
    let is_valid = name.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c));
    is_valid.then(|| name.to_owned())
}

fn drop_members(chat: &mut Object) -> Result<(), Unsupported> {
    chat.retain(|name, value| !value.is_null() && !HINTS.contains(&name.as_str()));
    for (name, asks_for_nothing, default) in WITHOUT_COUNTERPART {
        if take(chat, name).is_some_and(|value| !asks_for_nothing(&value)) {
            let problem = format_args!(
                "has no counterpart in Anthropic's Messages API; it must be {default}"
            );
            return Err(Unsupported::new(name, problem));
        }
    }
    Ok(())
}

fn set_max_tokens(chat: &mut Object) -> Result<(), Unsupported> {
    let newer = take(chat, "max_completion_tokens");
    let max_tokens = match (chat.get("max_tokens"), &newer) {
        (Some(older), Some(newer)) if older != newer => {
            return Err(Unsupported::new("max_tokens", "must be equal to `max_completion_tokens`"));
        }
        (Some(tokens), _) if !tokens.is_u64() => {
            return Err(Unsupported::new("max_tokens", "must be a positive integer"));
        }
        (_, Some(tokens)) if !tokens.is_u64() => {
            return Err(Unsupported::new("max_completion_tokens", "must be a positive integer"));
        }
        (Some(_), _) => return Ok(()),
        (None, Some(tokens)) => tokens.clone(),
        // Tokens of thinking count towards `max_tokens`, which must exceed their budget.
        (None, None) => DEFAULT_MAX_TOKENS.saturating_add(thinking_budget(chat)).into(),
    };
    chat.insert("max_tokens".to_owned(), max_tokens);
    Ok(())
}

fn thinking_budget(chat: &Object) -> u64 {
    let budget = chat.get("thinking").and_then(|thinking| thinking.get("budget_tokens"));
    budget.and_then(Value::as_u64).unwrap_or(0)
}

fn set_stop(chat: &mut Object) -> Result<(), Unsupported> {
    let sequences = match take(chat, "stop") {
        None => return Ok(()),
        Some(sequence @ Value::String(_)) => json!([sequence]),
        Some(Value::Array(sequences)) if sequences.iter().all(Value::is_string) => sequences.into(),
        Some(_) => return Err(Unsupported::new("stop", "must be a string or a list of strings")),
    };
    set(chat, "stop_sequences", sequences, "stop")
}

fn set_user(chat: &mut Object) -> Result<(), Unsupported> {
    let user = take(chat, "user");
    let newer = take(chat, "safety_identifier");
    let Some(id) = newer.or(user) else { return Ok(()) };
    if !id.is_string() {
        return Err(Unsupported::new("user", "must be a string"));
    }
    let metadata = member(chat, "metadata")?;
    metadata.entry("user_id").or_insert(id);
    Ok(())
}

fn set_service_tier(chat: &mut Object) -> Result<(), Unsupported> {
    let Some(tier) = chat.get_mut("service_tier") else { return Ok(()) };
    match tier.as_str() {
        Some("auto" | "standard_only") => Ok(()),
        Some("default") => {
            *tier = "standard_only".into();
            Ok(())
        }
        _ => Err(Unsupported::new(
            "service_tier",
            "must be \"auto\" or \"default\" for Anthropic's models",
        )),
    }
}

fn check_temperature(chat: &Object) -> Result<(), Unsupported> {
    match chat.get("temperature").map(Value::as_f64) {
        None => Ok(()),
        Some(Some(temperature)) if (0.0..=1.0).contains(&temperature) => Ok(()),
        _ => Err(Unsupported::new("temperature", "must be from 0 to 1 for Anthropic's models")),
    }
}

fn check_stream(chat: &mut Object) -> Result<(), Unsupported> {
    match chat.get("stream") {
        None | Some(Value::Bool(true)) => Ok(()),
        Some(Value::Bool(false)) => {
            chat.shift_remove("stream");
            Ok(())
        }
        Some(_) => Err(Unsupported::new("stream", "must be true or false")),
    }
}

/// Adds the blocks of system messages after the caller's own `system`.
fn set_system(chat: &mut Object, mut blocks: Vec<Value>) -> Result<(), Unsupported> {
    if blocks.is_empty() {
        return Ok(());
    }
    let mut system = match take(chat, "system") {
        Some(Value::Array(system)) => system,
        Some(Value::String(text)) => content::blocks(Some(text.into()), ContentPlace::System)?,
        None => Vec::new(),
        Some(_) => {
            return Err(Unsupported::new("system", "must be a string or a list of text blocks"));
        }
    };
    system.append(&mut blocks);
    chat.insert("system".to_owned(), system.into());
    Ok(())
}

/// Sets a member of Anthropic's that `param` is translated to. Fails if the caller also sent that
/// member.
fn set(target: &mut Object, name: &str, value: Value, param: &str) -> Result<(), Unsupported> {
    match target.insert(name.to_owned(), value) {
        None | Some(Value::Null) => Ok(()),
        Some(_) => {
            let problem = format_args!("must not be combined with Anthropic's own `{name}`");
            Err(Unsupported::new(param, problem))
        }
    }
}

/// Returns a member that is an object, and creates it if it is absent.
fn member<'a>(chat: &'a mut Object, name: &str) -> Result<&'a mut Object, Unsupported> {
    let value = chat.entry(name).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or_else(|| Unsupported::new(name, "must be an object"))
}

fn is_false(value: &Value) -> bool {
    *value == false
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

fn never(_: &Value) -> bool {
    false
}

#[cfg(test)]
mod tests;
