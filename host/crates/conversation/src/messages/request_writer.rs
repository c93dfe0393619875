//! Conversation → request of the Messages API.
//!
//! Every member of a request is written, dropped because the reply is the same without it, refused
//! with its name, or passed through unchanged.
//!
//! | conversation, in the words of chat completions | Messages API |
//! |---|---|
//! | messages of the roles `system` and `developer` | `system` |
//! | the other messages, reasoning, calls and results | `messages` |
//! | `tools`, `tool_choice` | the same; of an `allowed_tools` choice, only the allowed tools are offered |
//! | `parallel_tool_calls: false` | `tool_choice.disable_parallel_tool_use` |
//! | `max_completion_tokens`, `max_tokens` | `max_tokens`, [`settings::DEFAULT_MAX_TOKENS`] if absent |
//! | `stop` | `stop_sequences` |
//! | `temperature` | the same up to 1, the maximum of the Messages API |
//! | `top_p`, `top_k`, `stream` | the same |
//! | `reasoning_effort` | `output_config.effort`; `minimal` is its lowest level, `low`; `none` is `thinking` of type `disabled` |
//! | a budget of reasoning | `thinking` |
//! | `response_format` | `json_schema` is `output_config.format`; `json_object` is refused, because JSON needs a schema there |
//! | `safety_identifier`, else `user` | `metadata.user_id` |
//! | `service_tier` | `auto`; `default` is `standard_only`; the other tiers are refused |
//!
//! Dropped, because they do not change the reply: the hints of other APIs, and reasoning without a
//! proof of Anthropic's, which the API refuses.
//!
//! Refused unless they have the value that OpenAI's API uses by default: `n`, `logprobs`,
//! `top_logprobs`, `logit_bias`, `frequency_penalty`, `presence_penalty`, `modalities`, `audio`,
//! `store`, `verbosity`, `moderation`, `functions`, `function_call`. Refused always:
//! `web_search_options`, Anthropic's `mcp_servers`, and tools that run at the provider, because no
//! policy of the gateway would permit their calls.
//!
//! All other members pass through: they are Anthropic's own (`thinking`, `metadata`, `container`,
//! `cache_control`, …), or unknown, and Anthropic's API refuses unknown members by name. A member
//! beside Anthropic's own member of the same meaning is refused. What came in a request of the
//! Messages API leaves as it came.

mod content;
mod media;
mod settings;
mod target;
mod tools;
mod turns;

use serde_json::Value;

use self::{target::TARGET, turns::TurnWriter};
use crate::{
    Conversation, Object, Wire,
    read::Untranslatable,
    target::{ForeignMember, is_false},
};

/// Members without a counterpart, beside those that Gemini's API does not have either.
const FOREIGN: [ForeignMember; 5] = [
    ("n", |n| n.as_u64() == Some(1), "1"),
    ("logprobs", is_false, "false"),
    ("top_logprobs", is_zero, "0"),
    ("frequency_penalty", is_zero, "0"),
    ("presence_penalty", is_zero, "0"),
];

/// Writes the body of `POST /v1/messages`. Fails if an item, a tool or a member has no form in this
/// API. Members whose value only the provider can judge are left to it.
///
/// `betas` stays a member, as in Anthropic's SDKs; its sender moves it to a header.
pub fn write_request(conversation: Conversation) -> Result<Object, Untranslatable> {
    let sites = conversation.sites();
    let Conversation { wire, model, items, tools, tool_choice, settings, extra, hints, .. } =
        conversation;
    let mut settings = settings;
    let mut body = extra;
    body.retain(|_, value| !value.is_null());
    TARGET.remove_foreign(&mut body, &FOREIGN)?;
    if wire == Wire::Messages {
        body.extend(hints);
    }
    if !model.is_empty() {
        body.insert("model".to_owned(), model.into());
    }
    let parallel = settings.parallel_tool_calls.take();
    settings::write(settings, wire, &mut body)?;
    let mut turns = TurnWriter::new(wire);
    for (item, site) in items.into_iter().zip(sites) {
        turns.add(item, site)?;
    }
    turns.finish(&mut body)?;
    tools::write(tools, tool_choice, parallel, &mut body)?;
    Ok(body)
}

fn is_zero(value: &Value) -> bool {
    value.as_f64() == Some(0.0)
}

#[cfg(test)]
mod tests;
