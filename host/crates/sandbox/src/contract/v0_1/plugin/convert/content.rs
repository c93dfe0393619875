//! Content blocks from guests.

use airlock_core::tool::{
    Content, ContentBlock, Members, Resource, ResourceContents, ResourceLink,
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::json::{NotJson, optional_object, parse_object};
use crate::contract::v0_1::bindings::types as wit;

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
    content_json(part).map(String::len).sum()
}

/// Returns the JSON texts in one part of a result.
pub(super) fn content_json(part: &wit::Content) -> impl Iterator<Item = &String> {
    let of_block = match &part.block {
        wit::ContentBlock::Other(json) => [Some(json), None],
        wit::ContentBlock::EmbeddedResource(resource) => {
            [resource.meta.as_ref(), resource.extra.as_ref()]
        }
        _ => [None, None],
    };
    let members = [&part.annotations, &part.meta, &part.extra].map(Option::as_ref);
    of_block.into_iter().chain(members).flatten()
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
