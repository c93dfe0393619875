//! Images, sounds and documents → parts.

use serde_json::Value;

use crate::{
    Content, Media, Object,
    chat::has_scheme,
    gemini::object_of,
    read::{ItemSite, Result, excerpt},
};

/// Member of a part that has its data.
pub(super) const INLINE_DATA: &str = "inlineData";
/// Member of a part that has text.
pub(super) const TEXT: &str = "text";

const PDF: &str = "application/pdf";
/// Start of every PDF file in base64.
const PDF_MAGIC: &str = "JVBERi";
/// Schemes of addresses that Gemini fetches. Not `gs://`, with which a caller could read what the
/// operator's account may read in Google's storage.
const SCHEMES: [&str; 2] = ["https://", "http://"];
/// Media types by the end of an address, which Gemini expects beside it.
const TYPES: [(&str, &str); 6] = [
    ("jpg", "image/jpeg"),
    ("jpeg", "image/jpeg"),
    ("png", "image/png"),
    ("gif", "image/gif"),
    ("webp", "image/webp"),
    ("pdf", PDF),
];

/// Returns the part for a content. `detail` of an image has no counterpart, and the name of a document
/// only labels it.
pub(super) fn part(content: Content, site: &ItemSite) -> Result<Object> {
    match content {
        Content::Text(text) | Content::Refusal(text) => Ok(object_of([(TEXT, text.into())])),
        Content::Image { media, .. } | Content::Audio(media) | Content::File { media, .. } => {
            media_part(media, site)
        }
        Content::Native(part) => Err(site.invalid(&format!(
            "A content part of the type '{}' has no counterpart in Gemini's API.",
            excerpt(&part.kind)
        ))),
    }
}

fn media_part(media: Media, site: &ItemSite) -> Result<Object> {
    match media {
        Media::Text(text) => Ok(object_of([(TEXT, text.into())])),
        // An uploaded file has an address too.
        Media::FileId(id) if id.contains("://") => media_part(Media::Url(id), site),
        Media::FileId(id) => Ok(file_data(id, None)),
        Media::Url(url) => {
            if !SCHEMES.iter().any(|scheme| has_scheme(&url, scheme)) {
                return Err(site.invalid(&format!(
                    "The address of a file must be a data:, https:// or http:// URL, not '{}'.",
                    excerpt(&url)
                )));
            }
            let media_type = type_of(&url);
            Ok(file_data(url, media_type))
        }
        Media::Base64 { media_type, data } => {
            let media_type = match media_type.as_str() {
                "" if data.starts_with(PDF_MAGIC) => PDF.to_owned(),
                "" => {
                    let rule = "A file must be a data: URL with its media type, or a PDF file.";
                    return Err(site.invalid(rule));
                }
                _ => media_type,
            };
            let blob = object_of([("mimeType", media_type.into()), ("data", data.into())]);
            Ok(object_of([(INLINE_DATA, blob.into())]))
        }
    }
}

fn file_data(uri: String, media_type: Option<&str>) -> Object {
    let mut file = object_of([("fileUri", uri.into())]);
    if let Some(media_type) = media_type {
        file.insert("mimeType".to_owned(), media_type.into());
    }
    object_of([("fileData", Value::Object(file))])
}

fn type_of(url: &str) -> Option<&'static str> {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, end) = path.rsplit_once('.')?;
    let known = TYPES.iter().find(|(known, _)| known.eq_ignore_ascii_case(end));
    known.map(|(_, media_type)| *media_type)
}
