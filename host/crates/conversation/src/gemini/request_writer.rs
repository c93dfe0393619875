//! Conversation → request of `generateContent`.
//!
//! Every member of a request is written, dropped because the reply is the same without it, refused
//! with its name, or passed through unchanged.
//!
//! | conversation, in the words of chat completions | `generateContent` |
//! |---|---|
//! | messages of the roles `system` and `developer` | `systemInstruction` |
//! | the other messages, calls and results | `contents` |
//! | `tools`, `tool_choice` | `tools[0].functionDeclarations`, `toolConfig.functionCallingConfig`; of an `allowed_tools` choice, only the allowed tools are offered |
//! | limits, sampling, `stop`, `n`, `seed`, `logprobs`, penalties | members of `generationConfig` |
//! | `reasoning_effort`, a budget of reasoning | `generationConfig.thinkingConfig`, with readable thoughts |
//! | `response_format` | `responseMimeType` and `responseJsonSchema` |
//! | `service_tier` | `serviceTier`; `default` is `standard` |
//!
//! Dropped, because they do not change the reply: the caller's user, hints for caches, `metadata`,
//! `stream_options`, `prediction`, `strict`, and reasoning, of which Gemini needs only the signatures.
//!
//! Refused unless they have the value that OpenAI's API uses by default: `parallel_tool_calls`,
//! `logit_bias`, `modalities`, `audio`, `store`, `verbosity`, `moderation`, `functions`,
//! `function_call`. Refused always: tools that run at the provider, `web_search_options`,
//! `mcp_servers` and `cachedContent`, because no policy of the gateway would permit their calls.
//!
//! All other members pass through: they are Gemini's own (`safetySettings`, `generationConfig`, …), or
//! unknown, and Gemini refuses unknown members by name. A member beside Gemini's own member of the same
//! meaning is refused.

mod config;
mod contents;
mod media;
mod tools;

use self::{contents::ContentsWriter, tools::write_tools};
use crate::{
    Conversation, Object,
    read::{Path, Result, Untranslatable},
    target::Target,
};

/// Members that do not change the reply.
const HINTS: [&str; 6] = [
    "stream_options",
    "metadata",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// The API, in errors.
const TARGET: Target = Target { api: "Gemini's API", owner: "Gemini's" };

/// Advice about cached contents.
const CACHED: &str = "Cached contents belong to the gateway's key, and so to all its callers.";

/// Members of Gemini's requests that this writer sets in part. Gemini accepts both spellings; only
/// the first one is written.
const OWN: [(&str, &str); 2] =
    [("generationConfig", "generation_config"), ("toolConfig", "tool_config")];

/// Members that are refused: those that this writer sets as a whole, with the place of the caller's own,
/// and cached contents, which have tools of their own and belong to the key, so to all its callers.
const REFUSED: [(&str, &str); 5] = [
    ("cachedContent", CACHED),
    ("cached_content", CACHED),
    ("contents", "Use `messages`."),
    ("systemInstruction", "Use a message of the role `system`."),
    ("system_instruction", "Use a message of the role `system`."),
];

/// Writes the body of a request. The model and whether the reply is streamed are parts of its
/// address. Fails if an item, a tool or a member has no form in this API.
pub fn write_request(conversation: Conversation) -> Result<Object, Untranslatable> {
    let sites = conversation.sites();
    let Conversation { wire, model, items, tools, tool_choice, settings, extra, hints, .. } =
        conversation;
    let mut settings = settings;
    let mut hints = hints;
    let is_old = is_before_gemini_3(&model);
    let mut extra = read_extra(extra)?;
    // A hint that this API has too.
    if let Some(seed) = hints.shift_remove("seed") {
        extra.insert("seed".to_owned(), seed);
    }
    let parallel = settings.parallel_tool_calls.take();
    if parallel == Some(false) && !tools.is_empty() {
        let advice = "Gemini's models decide how many tools they call in a turn; leave it out.";
        let path = Path::Member(&Path::Root, "parallel_tool_calls");
        return Err(Untranslatable::unsupported_value(&path, &false.into(), advice));
    }
    let tier = settings.service_tier.take();
    config::write(&mut extra, settings, is_old)?;
    let mut contents = ContentsWriter::new(wire, is_old);
    for (item, site) in items.into_iter().zip(sites) {
        contents.add(item, site)?;
    }
    let (system, contents) = contents.finish()?;
    let mut body = Object::new();
    if !system.is_empty() {
        let instruction = super::object_of([("parts", system.into())]);
        body.insert("systemInstruction".to_owned(), instruction.into());
    }
    body.insert("contents".to_owned(), contents.into());
    write_tools(tools, tool_choice, &mut body, &mut extra)?;
    write_tier(tier.as_deref(), &mut extra)?;
    body.append(&mut extra);
    Ok(body)
}

/// Returns whether a model is known to be older than Gemini 3: the series with budgets of thinking,
/// optional signatures and results of tools without media. Names that do not tell, such as
/// `gemini-flash-latest`, are those of newer ones.
fn is_before_gemini_3(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    ["gemini-1.", "gemini-2.", "gemma"].iter().any(|series| name.starts_with(series))
}

/// Returns the members that pass through. Drops hints, and refuses what has no counterpart.
fn read_extra(mut extra: Object) -> Result<Object> {
    extra.retain(|name, value| !value.is_null() && !HINTS.contains(&name.as_str()));
    TARGET.remove_foreign(&mut extra, &[])?;
    for (name, advice) in REFUSED {
        if extra.contains_key(name) {
            return Err(Untranslatable::unsupported_parameter(&Path::Root.member(name), advice));
        }
    }
    for (name, other) in OWN {
        if let Some(value) = extra.shift_remove(other) {
            TARGET.set(&mut extra, name, value, other)?;
        }
    }
    Ok(extra)
}

/// Writes the tier of service. `auto` leaves the choice to the provider.
fn write_tier(tier: Option<&str>, extra: &mut Object) -> Result<()> {
    let tier = match tier {
        None | Some("auto") => return Ok(()),
        Some("default") => "standard",
        Some(tier @ ("flex" | "priority")) => tier,
        Some(tier) => {
            let supported = ["auto", "default", "flex", "priority"];
            let path = Path::Member(&Path::Root, "service_tier");
            return Err(Untranslatable::invalid_value(&path, tier, &supported));
        }
    };
    TARGET.set(extra, "serviceTier", tier.into(), "service_tier")
}

#[cfg(test)]
mod tests;
