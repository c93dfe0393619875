//! Parts of messages and results → blocks.

use serde_json::Value;

use super::{super::object_of, media};
use crate::{
    Content, NativeItem, Object, Part, Wire,
    read::{ItemSite, Result},
};

/// Member that marks the end of a prefix to cache.
pub(super) const CACHE_CONTROL: &str = "cache_control";

/// Blocks of Anthropic's that chat has no part for, and that its callers send as parts.
const OWN: [&str; 3] = ["image", "document", "search_result"];

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

/// Returns the blocks of parts. Empty texts are left out, because the Messages API refuses them. The
/// mark of such a text becomes the one of the block before it, which ends the same prefix.
pub(super) fn blocks(parts: Vec<Part>, place: ContentPlace, item: ItemSite) -> Result<Vec<Value>> {
    let mut blocks: Vec<Value> = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let Part { content, cache_control, extra } = part;
        if matches!(&content, Content::Text(text) | Content::Refusal(text) if text.is_empty()) {
            mark_last(&mut blocks, cache_control);
            continue;
        }
        let mut block = block(content, place, item.part(index))?;
        if item.wire() == Wire::Messages {
            block.extend(extra);
        }
        block.extend(cache_control.map(|mark| (CACHE_CONTROL.to_owned(), mark)));
        blocks.push(block.into());
    }
    Ok(blocks)
}

fn block(content: Content, place: ContentPlace, part: ItemSite) -> Result<Object> {
    let has_media = matches!(place, ContentPlace::User | ContentPlace::ToolResult);
    match content {
        Content::Text(text) => Ok(text_block(text)),
        // The Messages API has no type of its own for it.
        Content::Refusal(text) if place == ContentPlace::Assistant => Ok(text_block(text)),
        Content::Image { media, .. } if has_media => media::image(media, part),
        Content::File { media, name } if has_media => media::document(media, name, part),
        Content::Native(native) if has_media && is_block(&native) => Ok(native.object),
        Content::Native(native) if has_media && native.kind == "file" => {
            let rule = "it must have one of `file_data` and `file_id`, as a string.";
            Err(part.invalid_member("file", rule))
        }
        _ => Err(part.invalid_member("type", place.rule())),
    }
}

fn is_block(native: &NativeItem) -> bool {
    match native.wire {
        Wire::Messages => true,
        Wire::Chat => OWN.contains(&native.kind.as_str()),
        Wire::Responses | Wire::Gemini => false,
    }
}

pub(super) fn text_block(text: String) -> Object {
    object_of([("type", "text".into()), ("text", text.into())])
}

fn mark_last(blocks: &mut [Value], cache_control: Option<Value>) {
    if let (Some(Value::Object(last)), Some(mark)) = (blocks.last_mut(), cache_control) {
        last.entry(CACHE_CONTROL).or_insert(mark);
    }
}

impl ContentPlace {
    /// Returns the valid types of parts, for errors.
    fn rule(self) -> &'static str {
        match self {
            Self::System => "it must be 'text' in system and developer messages.",
            Self::User => "it must be 'text', 'image_url' or 'file' for Anthropic's models.",
            Self::Assistant => "it must be 'text' or 'refusal' in assistant messages.",
            Self::ToolResult => "it must be 'text', 'image_url' or 'file' in tool messages.",
        }
    }
}

#[cfg(test)]
mod tests;
