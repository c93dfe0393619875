//! Content blocks for guests.

use airlock_core::tool::{Content, ContentBlock, ResourceContents, ResourceLink, decode_base64};

use super::text_of;
use crate::contract::v0_1::bindings::types as wit;

/// Bytes of JSON that a block may take in addition to its texts, for the names of its members and
/// their punctuation. Data with an escape for each byte takes six times what the guest is charged
/// for.
const MAX_FRAME_BYTES: usize = 1 << 10;
/// Text in place of a block with data that is not base64 and that JSON would escape.
const DATA_LEFT_OUT: &str = "[Data left out: it is not base64.]";

/// Converts a part for a guest. A block with data that is not base64, which came from outside, is
/// passed as the JSON that it is, unless that is larger than what the guest is charged for.
pub(crate) fn content_for_guest(part: Content) -> wit::Content {
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
