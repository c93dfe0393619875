//! Content blocks.

use airlock_core::tool::{Content, ContentBlock, Resource, ResourceContents, ResourceLink};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::{NotJson, lengths, optional_object, parse_object, text_of, text_of_any, wit};

/// Bytes of a media type; a longer one is replaced by `application/octet-stream`.
const MAX_MIME_BYTES: usize = 255;

/// Returns the bytes of JSON text in one part of a result.
pub(in super::super) fn content_json_bytes(part: &wit::Content) -> usize {
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

pub(in super::super) fn content_from_guest(part: wit::Content) -> Result<Content, NotJson> {
    let common = Content {
        annotations: optional_object("annotations", part.annotations.as_ref())?,
        meta: optional_object("meta", part.meta.as_ref())?,
        extra: optional_object("extra", part.extra.as_ref())?.unwrap_or_default(),
        ..Content::text("")
    };
    let block = match part.block {
        wit::ContentBlock::Text(text) => ContentBlock::Text { text },
        wit::ContentBlock::Image(media) => {
            let (data, mime_type) = media_from_guest(media);
            ContentBlock::Image { data, mime_type }
        }
        wit::ContentBlock::Audio(media) => {
            let (data, mime_type) = media_from_guest(media);
            ContentBlock::Audio { data, mime_type }
        }
        wit::ContentBlock::ResourceLink(link) => ContentBlock::ResourceLink(ResourceLink {
            uri: link.uri,
            name: link.name,
            title: link.title,
            description: link.description,
            mime_type: link.mime_type,
            size: link.size,
        }),
        wit::ContentBlock::EmbeddedResource(resource) => {
            ContentBlock::Resource { resource: resource_from_guest(resource)? }
        }
        wit::ContentBlock::Other(json) => return other_from_guest(&json, common),
    };
    Ok(Content { block, ..common }.without_duplicates())
}

/// Reads a block of a kind that the contract has no case for. Its own annotations and vendor keys
/// apply unless the part has them too.
fn other_from_guest(json: &str, common: Content) -> Result<Content, NotJson> {
    let members = parse_object("other", json)?;
    if !members.get("type").is_some_and(Value::is_string) {
        return Err(NotJson::Kind { field: "other", expected: "a content block with a type" });
    }
    let mut part = Content::from_mcp(Value::Object(members));
    part.annotations = common.annotations.or(part.annotations);
    part.meta = common.meta.or(part.meta);
    Ok(part)
}

fn media_from_guest(media: wit::Media) -> (String, String) {
    (BASE64.encode(media.data), media_type(media.mime_type))
}

fn resource_from_guest(resource: wit::EmbeddedResource) -> Result<Resource, NotJson> {
    Ok(Resource {
        uri: resource.uri,
        mime_type: resource.mime_type,
        contents: match resource.contents {
            wit::ResourceContents::Text(text) => ResourceContents::Text(text),
            wit::ResourceContents::Blob(data) => ResourceContents::Blob(BASE64.encode(data)),
        },
        meta: optional_object("meta", resource.meta.as_ref())?,
        extra: optional_object("extra", resource.extra.as_ref())?.unwrap_or_default(),
    }
    .without_duplicates())
}

fn media_type(text: String) -> String {
    if text.len() > MAX_MIME_BYTES { "application/octet-stream".to_owned() } else { text }
}

pub(super) fn content_for_guest(part: Content) -> wit::Content {
    let block = match part.block {
        ContentBlock::Text { text } => wit::ContentBlock::Text(text),
        ContentBlock::Image { data, mime_type } => {
            wit::ContentBlock::Image(wit::Media { data: decode(data), mime_type })
        }
        ContentBlock::Audio { data, mime_type } => {
            wit::ContentBlock::Audio(wit::Media { data: decode(data), mime_type })
        }
        ContentBlock::ResourceLink(link) => wit::ContentBlock::ResourceLink(wit::ResourceLink {
            uri: link.uri,
            name: link.name,
            title: link.title,
            description: link.description,
            mime_type: link.mime_type,
            size: link.size,
        }),
        ContentBlock::Resource { resource } => {
            wit::ContentBlock::EmbeddedResource(wit::EmbeddedResource {
                uri: resource.uri,
                mime_type: resource.mime_type,
                contents: match resource.contents {
                    ResourceContents::Text(text) => wit::ResourceContents::Text(text),
                    ResourceContents::Blob(data) => wit::ResourceContents::Blob(decode(data)),
                },
                meta: resource.meta.map(text_of),
                extra: text_of_any(resource.extra),
            })
        }
        ContentBlock::Other(members) => wit::ContentBlock::Other(text_of(members)),
    };
    wit::Content {
        block,
        annotations: part.annotations.map(text_of),
        meta: part.meta.map(text_of),
        extra: text_of_any(part.extra),
    }
}

/// Decodes base64. Base64 that does not decode came from outside; the guest receives empty data
/// instead of wrong data.
fn decode(data: String) -> Vec<u8> {
    BASE64.decode(data).unwrap_or_default()
}
