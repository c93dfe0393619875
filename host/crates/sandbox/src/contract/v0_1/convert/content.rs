//! Content blocks.

use airlock_core::tool::{
    Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink, decode_base64,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::json::{NotJson, lengths, optional_object, parse_object, text_of};
use crate::contract::v0_1::bindings::types as wit;

/// Bytes of JSON that a block may take in addition to its texts, for the names of its members and
/// their punctuation. Data with an escape for each byte takes six times what the guest is charged
/// for.
const MAX_FRAME_BYTES: usize = 1 << 10;
/// Bytes of a media type; a longer one is replaced by `application/octet-stream`. The contract
/// promises this number (`media`). RFC 6838 allows 127 for each half of the type.
const MAX_MIME_BYTES: usize = 255;

/// Returns the least number of bytes that parts take: their frames, and the JSON text in them. It is
/// known before they are converted.
pub(crate) fn least_size(content: &[wit::Content]) -> usize {
    let frames = Content::FRAME * content.len().saturating_sub(1);
    frames + content.iter().map(content_json_bytes).sum::<usize>()
}

/// Returns the bytes of JSON text in one part of a result.
pub(crate) fn content_json_bytes(part: &wit::Content) -> usize {
    let block = match &part.block {
        wit::ContentBlock::Other(json) => json.len(),
        wit::ContentBlock::EmbeddedResource(resource) => lengths([&resource.meta, &resource.extra]),
        _ => 0,
    };
    block + lengths([&part.annotations, &part.meta, &part.extra])
}

pub(super) fn contents_from_guest(content: Vec<wit::Content>) -> Result<Vec<Content>, NotJson> {
    content.into_iter().map(content_from_guest).collect()
}

pub(crate) fn content_from_guest(part: wit::Content) -> Result<Content, NotJson> {
    let common = Content {
        annotations: members("annotations", part.annotations.as_ref())?,
        meta: members("meta", part.meta.as_ref())?,
        extra: members("extra", part.extra.as_ref())?,
        ..Content::text("")
    };
    let block = match part.block {
        wit::ContentBlock::Text(text) => ContentBlock::Text { text },
        wit::ContentBlock::Image(wit::Media { data, mime_type }) => {
            ContentBlock::Image { data: BASE64.encode(data), mime_type: media_type(mime_type) }
        }
        wit::ContentBlock::Audio(wit::Media { data, mime_type }) => {
            ContentBlock::Audio { data: BASE64.encode(data), mime_type: media_type(mime_type) }
        }
        wit::ContentBlock::ResourceLink(link) => {
            let wit::ResourceLink { uri, name, title, description, mime_type, size } = link;
            let link = ResourceLink { uri, name, title, description, mime_type, size };
            ContentBlock::ResourceLink(Box::new(link))
        }
        wit::ContentBlock::EmbeddedResource(resource) => {
            ContentBlock::Resource { resource: Box::new(resource_from_guest(resource)?) }
        }
        wit::ContentBlock::Other(json) => return other_from_guest(&json, common),
    };
    Ok(Content { block, ..common }.without_duplicates())
}

/// Reads a block of a kind that the contract has no case for. Its own members apply unless the part
/// has them too.
fn other_from_guest(json: &str, common: Content) -> Result<Content, NotJson> {
    let mut members = parse_object("other", json)?;
    if let Some(extra) = common.extra {
        for (name, value) in *extra {
            members.entry(name).or_insert(value);
        }
    }
    if !members.get("type").is_some_and(Value::is_string) {
        return Err(NotJson::Kind { field: "other", expected: "a content block with a type" });
    }
    let mut part = Content::from_mcp(Value::Object(members));
    part.annotations = common.annotations.or(part.annotations);
    part.meta = common.meta.or(part.meta);
    Ok(part)
}

/// Parses members; `None` if there are none.
fn members(field: &'static str, text: Option<&String>) -> Result<Members, NotJson> {
    let members = optional_object(field, text)?.filter(|members| !members.is_empty());
    Ok(members.map(Box::new))
}

fn resource_from_guest(resource: wit::EmbeddedResource) -> Result<Resource, NotJson> {
    Ok(Resource {
        uri: resource.uri,
        mime_type: resource.mime_type,
        contents: match resource.contents {
            wit::ResourceContents::Text(text) => ResourceContents::Text(text),
            wit::ResourceContents::Blob(data) => ResourceContents::Blob(BASE64.encode(data)),
        },
        meta: members("meta", resource.meta.as_ref())?,
        extra: members("extra", resource.extra.as_ref())?,
    }
    .without_duplicates())
}

fn media_type(text: String) -> String {
    if text.len() > MAX_MIME_BYTES { "application/octet-stream".to_owned() } else { text }
}

/// Text in place of a block with data that is not base64 and that JSON would escape.
const DATA_LEFT_OUT: &str = "[Data left out: it is not base64.]";

/// Converts a part for a guest. A block with data that is not base64, which came from outside, is
/// passed as the JSON that it is, unless that is larger than what the guest is charged for.
pub(super) fn content_for_guest(part: Content) -> wit::Content {
    let block = match block_for_guest(part.block) {
        Ok(block) => block,
        Err(block) => {
            let part = Content::from(block);
            let json = json_of(&part);
            if json.len() <= part.size() + MAX_FRAME_BYTES {
                wit::ContentBlock::Other(json)
            } else {
                wit::ContentBlock::Text(DATA_LEFT_OUT.to_owned())
            }
        }
    };
    wit::Content {
        block,
        annotations: part.annotations.map(|members| text_of(&members)),
        meta: part.meta.map(|members| text_of(&members)),
        extra: part.extra.map(|members| text_of(&members)),
    }
}

/// Returns a part as MCP has it.
fn json_of(part: &Content) -> String {
    // It came from JSON.
    serde_json::to_string(part).unwrap_or_default()
}

/// Returns the block itself if its data is not base64.
fn block_for_guest(block: ContentBlock) -> Result<wit::ContentBlock, ContentBlock> {
    Ok(match block {
        ContentBlock::Text { text } => wit::ContentBlock::Text(text),
        ContentBlock::Image { data, mime_type } => match decode_base64(&data) {
            Some(data) => wit::ContentBlock::Image(wit::Media { data, mime_type }),
            None => return Err(ContentBlock::Image { data, mime_type }),
        },
        ContentBlock::Audio { data, mime_type } => match decode_base64(&data) {
            Some(data) => wit::ContentBlock::Audio(wit::Media { data, mime_type }),
            None => return Err(ContentBlock::Audio { data, mime_type }),
        },
        ContentBlock::ResourceLink(link) => {
            let ResourceLink { uri, name, title, description, mime_type, size } = *link;
            let link = wit::ResourceLink { uri, name, title, description, mime_type, size };
            wit::ContentBlock::ResourceLink(link)
        }
        ContentBlock::Resource { resource } => {
            let Some(contents) = contents_for_guest(&resource.contents) else {
                return Err(ContentBlock::Resource { resource });
            };
            wit::ContentBlock::EmbeddedResource(wit::EmbeddedResource {
                uri: resource.uri,
                mime_type: resource.mime_type,
                contents,
                meta: resource.meta.map(|members| text_of(&members)),
                extra: resource.extra.map(|members| text_of(&members)),
            })
        }
        ContentBlock::Other(members) => wit::ContentBlock::Other(text_of(&members)),
    })
}

/// Returns `None` if the contents are not base64.
fn contents_for_guest(contents: &ResourceContents) -> Option<wit::ResourceContents> {
    Some(match contents {
        ResourceContents::Text(text) => wit::ResourceContents::Text(text.clone()),
        ResourceContents::Blob(data) => wit::ResourceContents::Blob(decode_base64(data)?),
    })
}
