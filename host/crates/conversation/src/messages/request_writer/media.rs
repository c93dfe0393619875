//! Images and documents → blocks with a source.

use serde_json::Value;

use super::super::object_of;
use crate::{
    Media, Object, Wire,
    chat::{has_scheme, is_web},
    read::{ItemSite, Result, Untranslatable, excerpt},
};

/// Media types of images that the Messages API accepts.
const IMAGES: [&str; 4] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const PDF: &str = "application/pdf";
/// Start of every PDF file in base64.
const PDF_MAGIC: &str = "JVBERi";
/// Members of a part with the data of an image and of a document, in chat completions and in the Responses
/// API.
const IMAGE_URL: [&str; 2] = ["image_url.url", "image_url"];
const FILE_DATA: [&str; 2] = ["file.file_data", "file_data"];
const FORM: &str = "it must be of the form data:TYPE;base64,DATA.";

/// Returns the block of an image. The API has no detail: it always uses the full resolution up to its
/// maximum.
pub(super) fn image(media: Media, part: ItemSite) -> Result<Object> {
    let source = match media {
        Media::FileId(id) => file(id),
        Media::Url(url) if is_web(&url) => web(url),
        Media::Url(url) if has_scheme(&url, "data:") => {
            return Err(invalid_source(part, IMAGE_URL, FORM));
        }
        Media::Url(url) => {
            let rule =
                format!("it must be a data:, http:// or https:// URL, not '{}'.", excerpt(&url));
            return Err(invalid_source(part, IMAGE_URL, &rule));
        }
        Media::Base64 { media_type, data } if IMAGES.contains(&media_type.as_str()) => {
            base64(media_type.into(), data)
        }
        Media::Base64 { media_type, .. } => {
            let found = excerpt(&media_type);
            let rule = format!("it must be one of {}, not '{found}'.", IMAGES.join(", "));
            return Err(invalid_source(part, IMAGE_URL, &rule));
        }
        Media::Text(_) => {
            return Err(invalid_source(part, IMAGE_URL, "it must be an image, and not a text."));
        }
    };
    Ok(object_of([("type", "image".into()), ("source", source.into())]))
}

/// Returns the block of a document.
pub(super) fn document(media: Media, name: Option<String>, part: ItemSite) -> Result<Object> {
    let source = match media {
        Media::FileId(id) => file(id),
        Media::Text(text) => object_of([
            ("type", "text".into()),
            ("media_type", "text/plain".into()),
            ("data", text.into()),
        ]),
        Media::Url(url) if is_web(&url) => web(url),
        Media::Url(url) if has_scheme(&url, "data:") => {
            return Err(invalid_source(part, FILE_DATA, FORM));
        }
        Media::Base64 { media_type, data } if is_pdf(&media_type, &data) => {
            base64(PDF.into(), data)
        }
        Media::Base64 { media_type, .. } if !media_type.is_empty() => {
            let rule = format!("it must be of type {PDF}, not '{}'.", excerpt(&media_type));
            return Err(invalid_source(part, FILE_DATA, &rule));
        }
        Media::Url(_) | Media::Base64 { .. } => {
            let rule = "it must be a data: URL or the base64 text of a PDF file.";
            return Err(invalid_source(part, FILE_DATA, rule));
        }
    };
    let mut block = object_of([("type", "document".into()), ("source", source.into())]);
    block.extend(name.map(|name| ("title".to_owned(), name.into())));
    Ok(block)
}

/// Returns the error of the data of a part. `members` are those that have it.
fn invalid_source(part: ItemSite, members: [&str; 2], rule: &str) -> Untranslatable {
    let [in_chat, in_responses] = members;
    let member = match part.wire() {
        Wire::Chat | Wire::Gemini => in_chat,
        Wire::Responses => in_responses,
        Wire::Messages => "source",
    };
    part.invalid_member(member, rule)
}

/// Returns whether base64 is that of a PDF file. OpenAI's reference describes `file_data` as base64
/// text, its examples as a `data:` URL, which alone has a type.
fn is_pdf(media_type: &str, data: &str) -> bool {
    media_type == PDF || (media_type.is_empty() && data.starts_with(PDF_MAGIC))
}

fn file(id: String) -> Object {
    object_of([("type", "file".into()), ("file_id", id.into())])
}

fn web(url: String) -> Object {
    object_of([("type", "url".into()), ("url", url.into())])
}

fn base64(media_type: Value, data: String) -> Object {
    object_of([("type", "base64".into()), ("media_type", media_type), ("data", data.into())])
}
