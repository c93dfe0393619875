//! Content blocks of MCP, which are the parts of a result or of an error.
//!
//! Blocks come from servers as JSON and from plugins as the contract's types. Members without a
//! field of their own are kept, so that a block leaves the gateway as it came.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Map, Value};

use super::readable::noted;
use airlock_json as json;
use airlock_strings::one_line;

/// Media type of data whose source names none.
pub(super) const BYTES: &str = "application/octet-stream";
/// Members that every kind of block has fields for.
const COMMON: [&str; 2] = ["annotations", "_meta"];
/// Members that a [`Resource`] has fields for.
const RESOURCE_FIELDS: [&str; 5] = ["uri", "mimeType", "text", "blob", "_meta"];

/// One part of a result or of an error: a content block of MCP.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Content {
    /// The content block.
    #[serde(flatten)]
    pub block: ContentBlock,
    /// Annotations, such as `audience` and `priority`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Members,
    /// Vendor keys.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Members,
    /// Other members of the block, such as the `icons` of a resource link.
    #[serde(flatten)]
    pub extra: Members,
}

/// Members of a JSON object, if there are any. Boxed, because a result may have many small parts and
/// few of them have members of their own.
pub type Members = Option<Box<Map<String, Value>>>;

/// The kinds of content block.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ContentBlock {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// A sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// A link to a resource that the caller may fetch.
    ResourceLink(Box<ResourceLink>),
    /// A resource that is part of the result.
    Resource {
        /// The resource.
        resource: Box<Resource>,
    },
    /// Any other block: its members, with a `type` that is not one of the above.
    #[serde(untagged)]
    Other(Map<String, Value>),
}

/// A link to a resource that the caller may fetch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceLink {
    /// URI of the resource.
    pub uri: String,
    /// Name of the resource, for programs.
    pub name: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// Size of the resource in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
}

/// An embedded resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// URI of the resource.
    pub uri: String,
    /// Media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The resource itself.
    #[serde(flatten)]
    pub contents: ResourceContents,
    /// Vendor keys.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Members,
    /// Other members of the resource.
    #[serde(flatten)]
    pub extra: Members,
}

/// The contents of an embedded resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceContents {
    /// Text.
    Text(String),
    /// Base64.
    Blob(String),
}

impl Content {
    /// Bytes that a part takes beside its texts, so that a million empty parts are not free.
    pub const FRAME: usize = size_of::<Self>();

    /// Creates a part that is a text.
    pub fn text(text: impl Into<String>) -> Self {
        ContentBlock::Text { text: text.into() }.into()
    }

    /// Reads a content block of MCP. A malformed block becomes text, so that no part of a result is
    /// lost; a block of an unknown type is kept as it is.
    pub fn from_mcp(block: Value) -> Self {
        let Value::Object(mut members) = block else {
            return Self::text(match block {
                Value::String(text) => text,
                other => other.to_string(),
            });
        };
        let kind = text(&members, "type").unwrap_or_default();
        let Some(block) = known(&kind, &mut members) else { return unknown(&kind, members) };
        members.shift_remove("type");
        let (annotations, meta) = take_common(&mut members);
        Self { block, annotations, meta, extra: boxed(members) }.without_duplicates()
    }

    /// Removes the members of [`extra`](Self::extra) that have a field of their own. For a source
    /// that sends them apart from the block: in JSON, a member would appear twice.
    #[must_use]
    pub fn without_duplicates(mut self) -> Self {
        remove(&mut self.extra, self.block.fields());
        self
    }

    /// Returns the text, if the part is a text.
    pub fn as_text(&self) -> Option<&str> {
        match &self.block {
            ContentBlock::Text { text } => Some(text),
            _ => None,
        }
    }

    /// Writes the part for a reader: texts unchanged, binary data as a short note.
    pub fn render(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match &self.block {
            ContentBlock::Text { text } => write!(out, "{text}"),
            ContentBlock::Image { mime_type, .. } => write!(out, "[Image: {}]", noted(mime_type)),
            ContentBlock::Audio { mime_type, .. } => write!(out, "[Audio: {}]", noted(mime_type)),
            ContentBlock::ResourceLink(link) => {
                write!(out, "[Resource link: {} {}]", noted(&link.name), one_line(&link.uri))
            }
            ContentBlock::Resource { resource } => match &resource.contents {
                ResourceContents::Text(text) => write!(out, "{text}"),
                ResourceContents::Blob(_) => {
                    write!(
                        out,
                        "[Resource: {}]",
                        noted(resource.mime_type.as_deref().unwrap_or(BYTES))
                    )
                }
            },
            ContentBlock::Other(members) => {
                let text = string(members, "text");
                match (text.or_else(|| string(members, "data")), string(members, "mimeType")) {
                    (Some(_), Some(mime_type))
                        if text.is_none() && !mime_type.starts_with("text/") =>
                    {
                        write!(
                            out,
                            "[{}: {}]",
                            noted(string(members, "type").unwrap_or_default()),
                            noted(mime_type)
                        )
                    }
                    (Some(text), _) => write!(out, "{text}"),
                    (None, _) => write!(out, "{}", ObjectText(members)),
                }
            }
        };
    }

    /// Returns the approximate memory of the part in bytes: its size and its frame.
    pub fn cost(&self) -> usize {
        Self::FRAME + self.size()
    }

    /// Returns the approximate size of the part in bytes.
    pub fn size(&self) -> usize {
        let members = [&self.annotations, &self.meta, &self.extra];
        self.block.size() + members.into_iter().map(members_size).sum::<usize>()
    }
}

fn string<'m>(members: &'m Map<String, Value>, name: &str) -> Option<&'m str> {
    members.get(name).and_then(Value::as_str)
}

impl From<ContentBlock> for Content {
    fn from(block: ContentBlock) -> Self {
        Self { block, annotations: None, meta: None, extra: None }
    }
}

impl ContentBlock {
    /// Returns the members that a part with this block has fields for.
    fn fields(&self) -> &'static [&'static str] {
        match self {
            Self::Text { .. } => &["type", "text", "annotations", "_meta"],
            Self::Image { .. } | Self::Audio { .. } => {
                &["type", "data", "mimeType", "annotations", "_meta"]
            }
            Self::ResourceLink(_) => &[
                "type",
                "uri",
                "name",
                "title",
                "description",
                "mimeType",
                "size",
                "annotations",
                "_meta",
            ],
            Self::Resource { .. } => &["type", "resource", "annotations", "_meta"],
            Self::Other(_) => &["type", "annotations", "_meta"],
        }
    }

    fn size(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, mime_type } | Self::Audio { data, mime_type } => {
                data.len() + mime_type.len()
            }
            Self::ResourceLink(link) => {
                let optional = [&link.title, &link.description, &link.mime_type];
                link.uri.len()
                    + link.name.len()
                    + optional.into_iter().flatten().map(String::len).sum::<usize>()
            }
            Self::Resource { resource } => resource.size(),
            Self::Other(members) => json::text_len(members),
        }
    }
}

impl Resource {
    /// Removes the members of [`extra`](Self::extra) that have a field of their own, as
    /// [`Content::without_duplicates`] does.
    #[must_use]
    pub fn without_duplicates(mut self) -> Self {
        remove(&mut self.extra, &RESOURCE_FIELDS);
        self
    }

    fn size(&self) -> usize {
        let (ResourceContents::Text(contents) | ResourceContents::Blob(contents)) = &self.contents;
        let mime_type = self.mime_type.as_ref().map_or(0, String::len);
        let members = members_size(&self.meta) + members_size(&self.extra);
        self.uri.len() + mime_type + contents.len() + members
    }
}

/// JSON text of an object.
struct ObjectText<'a>(&'a Map<String, Value>);

impl std::fmt::Display for ObjectText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&serde_json::to_string(self.0).unwrap_or_default())
    }
}

/// Returns the bytes of members as JSON.
fn members_size(members: &Members) -> usize {
    members.as_ref().map_or(0, json::text_len)
}

/// Boxes members; `None` if there are none.
fn boxed(members: Map<String, Value>) -> Members {
    (!members.is_empty()).then(|| Box::new(members))
}

/// Removes members by name.
fn remove(members: &mut Members, names: &[&str]) {
    if let Some(found) = members {
        found.retain(|name, _| !names.contains(&name.as_str()));
        if found.is_empty() {
            *members = None;
        }
    }
}

/// Takes the members of a block of a known type; `None` if the type is not known or a required
/// member is missing. Members of another type than MCP's stay.
fn known(kind: &str, members: &mut Map<String, Value>) -> Option<ContentBlock> {
    Some(match kind {
        "text" => ContentBlock::Text { text: take(members, "text")? },
        "image" => {
            ContentBlock::Image { data: take(members, "data")?, mime_type: mime_type(members) }
        }
        "audio" => {
            ContentBlock::Audio { data: take(members, "data")?, mime_type: mime_type(members) }
        }
        "resource_link" => {
            let uri = take(members, "uri")?;
            ContentBlock::ResourceLink(Box::new(ResourceLink {
                name: take(members, "name").unwrap_or_else(|| uri.clone()),
                uri,
                title: take(members, "title"),
                description: take(members, "description"),
                mime_type: take(members, "mimeType"),
                size: take_size(members),
            }))
        }
        "resource" => {
            let resource = resource(members.get_mut("resource")?.as_object_mut()?)?;
            members.shift_remove("resource");
            ContentBlock::Resource { resource: Box::new(resource) }
        }
        _ => return None,
    })
}

fn resource(members: &mut Map<String, Value>) -> Option<Resource> {
    text(members, "uri")?;
    let contents = match take(members, "text") {
        Some(text) => ResourceContents::Text(text),
        None => ResourceContents::Blob(take(members, "blob")?),
    };
    let resource = Resource {
        uri: take(members, "uri")?,
        mime_type: take(members, "mimeType"),
        contents,
        meta: take_object(members, "_meta"),
        extra: boxed(std::mem::take(members)),
    };
    Some(resource.without_duplicates())
}

/// Keeps a block of an unknown type. A block without a type, or a known one that is malformed, has
/// no meaning to any reader and becomes text.
fn unknown(kind: &str, mut members: Map<String, Value>) -> Content {
    if matches!(kind, "" | "text" | "image" | "audio" | "resource_link" | "resource") {
        let text = take(&mut members, "text").unwrap_or_else(|| ObjectText(&members).to_string());
        return Content::text(text);
    }
    let (annotations, meta) = take_common(&mut members);
    members.retain(|name, _| !COMMON.contains(&name.as_str()));
    Content { block: ContentBlock::Other(members), annotations, meta, extra: None }
}

fn take_common(members: &mut Map<String, Value>) -> (Members, Members) {
    (take_object(members, "annotations"), take_object(members, "_meta"))
}

fn text(members: &Map<String, Value>, name: &str) -> Option<String> {
    members.get(name)?.as_str().map(str::to_owned)
}

/// Takes a member if it is a text.
fn take(members: &mut Map<String, Value>, name: &str) -> Option<String> {
    members.get(name)?.as_str()?;
    match members.shift_remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

/// Takes a member if it is an object.
fn take_object(members: &mut Map<String, Value>, name: &str) -> Members {
    members.get(name)?.as_object()?;
    match members.shift_remove(name) {
        Some(Value::Object(object)) => Some(Box::new(object)),
        _ => None,
    }
}

fn take_size(members: &mut Map<String, Value>) -> Option<u64> {
    let size = members.get("size")?.as_u64()?;
    members.shift_remove("size");
    Some(size)
}

fn mime_type(members: &mut Map<String, Value>) -> String {
    take(members, "mimeType").unwrap_or_else(|| BYTES.to_owned())
}

#[cfg(test)]
mod tests;
