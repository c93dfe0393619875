//! Content of messages and results.

use serde_json::Value;

use super::super::object_of;
use crate::{
    Content, Media, NativeItem, Object, Part, Wire, data_url,
    read::{ItemSite, Result, Untranslatable},
};

/// Place of content, which decides the types of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPlace {
    /// A message of the user, the system or the developer, or the result of a tool.
    Input,
    /// A message of the model.
    Assistant,
}

/// Writes content: a text if it is only one, or a list of parts.
pub(super) fn write(mut parts: Vec<Part>, place: ContentPlace, site: ItemSite) -> Result<Value> {
    match parts.as_mut_slice() {
        [] => return Ok("".into()),
        [Part { content: Content::Text(text), .. }] => return Ok(std::mem::take(text).into()),
        _ => {}
    }
    let parts = parts.into_iter().enumerate();
    let parts = parts.map(|(index, part)| write_part(part, place, site.part(index)));
    parts.map(|part| part.map(Value::Object)).collect()
}

/// Writes a part. `extra` has the unknown members of the object in which chat has an image, a sound or a
/// document; other unknown members are left out.
fn write_part(part: Part, place: ContentPlace, site: ItemSite) -> Result<Object> {
    let Part { content, mut extra, .. } = part;
    match (content, place) {
        (Content::Text(text), ContentPlace::Input) => {
            Ok(object_of([("type", "input_text".into()), ("text", text.into())]))
        }
        (Content::Text(text), ContentPlace::Assistant) => Ok(object_of([
            ("type", "output_text".into()),
            ("text", text.into()),
            ("annotations", Value::Array(Vec::new())),
        ])),
        (Content::Refusal(text), ContentPlace::Assistant) => {
            Ok(object_of([("type", "refusal".into()), ("refusal", text.into())]))
        }
        (_, ContentPlace::Assistant) => {
            Err(site.unsupported("A message of the model must have text and refusals alone."))
        }
        (Content::Image { media, detail }, _) => {
            let member = match media {
                Media::Url(url) => ("image_url", url.into()),
                Media::Base64 { media_type, data } => {
                    ("image_url", data_url(&media_type, data).into())
                }
                Media::FileId(id) => ("file_id", id.into()),
                Media::Text(_) => return Err(site.unsupported("An image must not be a text.")),
            };
            let mut image = object_of([("type", "input_image".into()), member]);
            image.extend(detail.map(|detail| ("detail".to_owned(), detail.into())));
            Ok(with_inner(image, extra.shift_remove("image_url")))
        }
        (Content::File { media, name }, _) => {
            let (member, value) = match media {
                Media::Base64 { media_type, data } if media_type.is_empty() => ("file_data", data),
                Media::Base64 { media_type, data } => ("file_data", data_url(&media_type, data)),
                // Chat has addresses in `file_data`.
                Media::Url(url) => ("file_data", url),
                Media::FileId(id) => ("file_id", id),
                Media::Text(text) => return write_part(Part::text(text), place, site),
            };
            let mut file = object_of([("type", "input_file".into()), (member, value.into())]);
            file.extend(name.map(|name| ("filename".to_owned(), name.into())));
            Ok(with_inner(file, extra.shift_remove("file")))
        }
        (Content::Audio(Media::Base64 { media_type, data }), _) => {
            let format = media_type.trim_start_matches("audio/");
            let audio = object_of([("data", data.into()), ("format", format.into())]);
            let audio = with_inner(audio, extra.shift_remove("input_audio"));
            Ok(object_of([("type", "input_audio".into()), ("input_audio", audio.into())]))
        }
        (Content::Native(native), _) if native.wire == Wire::Chat => write_native(native, site),
        _ => Err(site.unsupported("Content must be texts, images, documents and sounds.")),
    }
}

/// Writes a sound or a document of chat as it came. The provider judges it.
fn write_native(native: NativeItem, site: ItemSite) -> Result<Object> {
    let NativeItem { kind, mut object, .. } = native;
    let inner = object.shift_remove(&kind).unwrap_or_default();
    match kind.as_str() {
        "file" => Ok(with_inner(object_of([("type", "input_file".into())]), Some(inner))),
        "input_audio" => Ok(object_of([("type", kind.into()), ("input_audio", inner)])),
        _ => {
            let types = ["text", "image_url", "file", "input_audio"];
            let path = site.path();
            let error = Untranslatable::invalid_value(&path.member("type"), &kind, &types);
            Err(site.locate(error))
        }
    }
}

/// Adds the members of an inner object.
fn with_inner(mut part: Object, inner: Option<Value>) -> Object {
    if let Some(Value::Object(inner)) = inner {
        part.extend(inner.into_iter().filter(|(name, _)| name != "type"));
    }
    part
}
