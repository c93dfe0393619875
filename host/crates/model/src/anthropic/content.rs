//! Content of chat messages → blocks of the Messages API.

use serde_json::Value;

use super::media;
use crate::{
    Object,
    translation::{Unsupported, object_of, take, take_text},
};

/// Member that marks the end of a cached prefix, on blocks, messages and tools. Chat clients of
/// Anthropic's models send it as an addition to OpenAI's format.
pub(super) const CACHE_CONTROL: &str = "cache_control";

/// Place of content, which limits the types of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPlace {
    /// A system or developer message.
    System,
    /// A user message.
    User,
    /// A message of the model.
    Assistant,
    /// The result of a tool.
    ToolResult,
}

/// Returns the blocks of `content`: text, a list of parts, or nothing. Blocks of empty text are
/// left out, because the Messages API refuses them.
pub(super) fn blocks(
    content: Option<Value>,
    place: ContentPlace,
) -> Result<Vec<Value>, Unsupported> {
    let parts = match content {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::String(text)) => return Ok(text_block(text, None).into_iter().collect()),
        Some(Value::Array(parts)) => parts,
        Some(_) => {
            return Err(Unsupported::new("content", "must be a string or a list of content parts"));
        }
    };
    let mut blocks = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let block =
            block(part, place).map_err(|error| error.within(format_args!("content[{index}]")))?;
        blocks.extend(block);
    }
    Ok(blocks)
}

/// Sets `cache_control` on the last block, unless the block has its own. Blocks of thinking cannot
/// be marked.
pub(super) fn mark_last(blocks: &mut [Value], cache_control: Option<Value>) {
    let marked = blocks.iter_mut().rev().filter_map(Value::as_object_mut).find(|b| !is_thinking(b));
    if let (Some(block), Some(cache_control)) = (marked, cache_control) {
        block.entry(CACHE_CONTROL).or_insert(cache_control);
    }
}

/// Returns whether a block is a block of thinking, readable or redacted.
pub(super) fn is_thinking(block: &Object) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

fn block(part: Value, place: ContentPlace) -> Result<Option<Value>, Unsupported> {
    let Value::Object(mut part) = part else {
        return Err(Unsupported::new("", "must be an object"));
    };
    let cache_control = take(&mut part, CACHE_CONTROL);
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let has_media = matches!(place, ContentPlace::User | ContentPlace::ToolResult);
    let mut block = match kind {
        "text" => return Ok(text_block(take_text(&mut part, "text")?, cache_control)),
        // A refusal is text of the model; the Messages API has no type of its own for it.
        "refusal" if place == ContentPlace::Assistant => {
            return Ok(text_block(take_text(&mut part, "refusal")?, cache_control));
        }
        "image_url" if has_media => media::image(&part)?,
        "file" if has_media => media::document(&part)?,
        // Blocks of the Messages API that chat has no part for.
        "image" | "document" | "search_result" if has_media => Value::Object(part),
        _ => return Err(Unsupported::new("type", format_args!("must be {}", place.types()))),
    };
    if let Some(cache_control) = cache_control {
        block[CACHE_CONTROL] = cache_control;
    }
    Ok(Some(block))
}

fn text_block(text: String, cache_control: Option<Value>) -> Option<Value> {
    if text.is_empty() {
        return None;
    }
    let mut block = object_of([("type", "text".into()), ("text", text.into())]);
    if let Some(cache_control) = cache_control {
        block.insert(CACHE_CONTROL.to_owned(), cache_control);
    }
    Some(Value::Object(block))
}

impl ContentPlace {
    /// Returns the valid types of parts, for errors.
    fn types(self) -> &'static str {
        match self {
            Self::System => "\"text\" in system and developer messages",
            Self::User => "\"text\", \"image_url\" or \"file\" for Anthropic's models",
            Self::Assistant => "\"text\" or \"refusal\" in assistant messages",
            Self::ToolResult => "\"text\", \"image_url\" or \"file\" in tool messages",
        }
    }
}

#[cfg(test)]
mod tests;
