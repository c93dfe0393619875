//! Content of messages, in both directions.

use serde_json::{Value, json};

use super::{
    form::ChatForm,
    members::{CACHE_CONTROL, keep_inner, rest, restore_inner},
};
use crate::{
    Content, Media, NativeItem, Object, Part, Wire, data_url, object_of,
    read::{ItemSite, Members, Path, Result, Untranslatable},
};

/// Scheme of URLs that hold their data.
const DATA: &str = "data:";
/// Name of a document without one. OpenAI's API requires a name beside the data.
const UNNAMED: &str = "document";
const PDF: &str = "application/pdf";

/// Reads the content of a message: a text, a list of parts, or nothing. An empty text is no part.
pub(super) fn read(content: Option<Value>, path: &Path<'_>) -> Result<Vec<Part>> {
    match content {
        None => Ok(Vec::new()),
        Some(Value::String(text)) if text.is_empty() => Ok(Vec::new()),
        Some(Value::String(text)) => Ok(vec![Part::text(text)]),
        Some(Value::Array(parts)) => {
            let parts = parts.into_iter().enumerate();
            parts.map(|(index, part)| read_part(part, &path.element(index))).collect()
        }
        Some(other) => Err(Untranslatable::invalid_type(path, "a string or an array", &other)),
    }
}

fn read_part(part: Value, path: &Path<'_>) -> Result<Part> {
    let mut part = Members::read(path, part)?;
    let cache_control = part.take(CACHE_CONTROL);
    let kind = part.required_text("type")?;
    let mut extra = Object::new();
    let content = match kind.as_str() {
        "text" => Content::Text(part.required_text("text")?),
        "refusal" => Content::Refusal(part.required_text("refusal")?),
        "image_url" => read_image(&mut part, &mut extra)?,
        "input_audio" => read_audio(&mut part, &mut extra)?,
        "file" if count_texts(&part, "file", &["file_data", "file_id"]) == 1 => {
            read_file(&mut part, &mut extra)?
        }
        // The provider judges a document of another form.
        _ => {
            let mut object = object_of([("type", kind.into())]);
            object.extend(rest(part));
            let content = Content::Native(NativeItem::new(Wire::Chat, object));
            return Ok(Part { content, cache_control, extra });
        }
    };
    extra.extend(rest(part));
    Ok(Part { content, cache_control, extra })
}

/// Counts those of the members of an inner object that are texts.
fn count_texts(part: &Members<'_>, name: &str, members: &[&str]) -> usize {
    let inner = part.get(name);
    let texts = members.iter().filter_map(|member| inner?.get(*member)?.as_str());
    texts.count()
}

fn read_image(part: &mut Members<'_>, extra: &mut Object) -> Result<Content> {
    let path = part.path("image_url");
    let mut image = match part.required("image_url")? {
        // Mistral's form.
        Value::String(url) => return Ok(Content::Image { media: from_url(url), detail: None }),
        image => Members::read(&path, image)?,
    };
    let media = from_url(image.required_text("url")?);
    let detail = image.text("detail")?;
    keep_inner(extra, "image_url", image);
    Ok(Content::Image { media, detail })
}

/// Reads a sound. The provider judges one of another form.
pub(crate) fn read_audio(part: &mut Members<'_>, extra: &mut Object) -> Result<Content> {
    const KIND: &str = "input_audio";
    if count_texts(part, KIND, &["data", "format"]) != 2 {
        let members = part.take(KIND).map(|audio| (KIND, audio));
        let mut object = object_of([("type", KIND.into())]);
        object.extend(members.map(|(name, value)| (name.to_owned(), value)));
        return Ok(Content::Native(NativeItem::new(Wire::Chat, object)));
    }
    let path = part.path(KIND);
    let mut audio = Members::read(&path, part.required(KIND)?)?;
    let data = audio.required_text("data")?;
    let media_type = format!("audio/{}", audio.required_text("format")?);
    keep_inner(extra, "input_audio", audio);
    Ok(Content::Audio(Media::Base64 { media_type, data }))
}

fn read_file(part: &mut Members<'_>, extra: &mut Object) -> Result<Content> {
    let path = part.path("file");
    let mut file = Members::read(&path, part.required("file")?)?;
    let media = match (file.text("file_data")?, file.text("file_id")?) {
        (Some(data), _) => from_file_data(data),
        (None, id) => Media::FileId(id.unwrap_or_default()),
    };
    let name = file.text("filename")?;
    keep_inner(extra, "file", file);
    Ok(Content::File { media, name })
}

/// Reads `file_data`. OpenAI's reference describes it as base64, its examples as a `data:` URL;
/// `OpenRouter` takes an address too.
pub(crate) fn from_file_data(data: String) -> Media {
    match from_url(data) {
        Media::Url(data) if !is_web(&data) && !has_scheme(&data, DATA) => {
            Media::Base64 { media_type: String::new(), data }
        }
        media => media,
    }
}

/// Reads an address. The data of a `data:` URL is moved out of it.
pub(crate) fn from_url(mut url: String) -> Media {
    let Some((media_type, start)) = data_head(&url) else { return Media::Url(url) };
    url.drain(..start);
    Media::Base64 { media_type, data: url }
}

/// Returns the media type of a `data:` URL of base64, and the offset of the base64.
fn data_head(url: &str) -> Option<(String, usize)> {
    if !has_scheme(url, DATA) {
        return None;
    }
    let comma = url.find(',')?;
    let (media_type, encoding) = url[DATA.len()..comma].rsplit_once(';')?;
    let media_type = media_type.split(';').next().unwrap_or_default().to_ascii_lowercase();
    encoding.eq_ignore_ascii_case("base64").then_some((media_type, comma + 1))
}

/// Returns whether a URL is one of the web.
pub(crate) fn is_web(url: &str) -> bool {
    has_scheme(url, "http://") || has_scheme(url, "https://")
}

/// Returns whether a URL begins with a scheme, in any case.
pub(crate) fn has_scheme(url: &str, scheme: &str) -> bool {
    url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
}

/// A part with its position in the request.
pub(super) type PlacedPart = (ItemSite, Part);

/// Returns the parts of an item with their positions.
pub(super) fn placed(parts: Vec<Part>, site: ItemSite) -> Vec<PlacedPart> {
    let parts = parts.into_iter().enumerate();
    parts.map(|(index, part)| (site.part(index), part)).collect()
}

/// Writes content. A single part that is only text becomes a text, because many servers take no lists
/// outside of user messages. With a `separator`, several such parts become one text too.
pub(super) fn write(
    parts: Vec<PlacedPart>,
    separator: Option<&str>,
    form: ChatForm,
) -> Result<Value> {
    let mut written = Vec::with_capacity(parts.len());
    for (site, part) in parts {
        written.push(write_part(part, form.at(site))?);
    }
    Ok(match (written.as_mut_slice(), separator) {
        ([], _) => "".into(),
        ([only], _) if is_only_text(only) => only["text"].take(),
        (all, Some(separator)) if all.iter().all(is_only_text) => {
            let texts: Vec<_> = all.iter().filter_map(|part| part["text"].as_str()).collect();
            texts.join(separator).into()
        }
        _ => written.into(),
    })
}

fn is_only_text(part: &Object) -> bool {
    part.len() == 2 && part.get("type").is_some_and(|kind| kind == "text")
}

fn write_part(part: Part, form: ChatForm) -> Result<Object> {
    let Part { content, cache_control, extra } = part;
    let mut extra = form.extra(extra);
    let mut out = match content {
        Content::Text(text) => object_of([("type", "text".into()), ("text", text.into())]),
        Content::Refusal(text) => object_of([("type", "refusal".into()), ("refusal", text.into())]),
        Content::Image { media, detail } => write_image(media, detail, &mut extra, form)?,
        Content::Audio(media) => write_audio(media, &mut extra, form)?,
        Content::File { media, name } => write_file(media, name, &mut extra, form)?,
        Content::Native(native) => form.native(native)?,
    };
    out.extend(extra);
    form.mark(&mut out, cache_control);
    Ok(out)
}

fn write_image(
    media: Media,
    detail: Option<String>,
    extra: &mut Object,
    form: ChatForm,
) -> Result<Object> {
    let url = match media {
        Media::Url(url) => url,
        Media::Base64 { media_type, data } => data_url(&media_type, data),
        Media::FileId(id) if form.has_anthropic_blocks() => {
            let source = json!({"type": "file", "file_id": id});
            return Ok(object_of([("type", "image".into()), ("source", source)]));
        }
        Media::FileId(_) | Media::Text(_) => {
            return Err(form.refused("Chat completions take no images of uploaded files."));
        }
    };
    let mut image = object_of([("url", url.into())]);
    image.extend(detail.map(|detail| ("detail".to_owned(), detail.into())));
    restore_inner(&mut image, extra, "image_url");
    Ok(object_of([("type", "image_url".into()), ("image_url", image.into())]))
}

fn write_audio(media: Media, extra: &mut Object, form: ChatForm) -> Result<Object> {
    let Media::Base64 { media_type, data } = media else {
        return Err(form.refused("Chat completions take sounds as base64 alone."));
    };
    let format = match media_type.strip_prefix("audio/") {
        Some("mpeg") => "mp3",
        Some("x-wav" | "wave") => "wav",
        Some(format) => format,
        None => return Err(form.refused("The media type of a sound must begin with 'audio/'.")),
    };
    let mut audio = object_of([("data", data.into()), ("format", format.into())]);
    restore_inner(&mut audio, extra, "input_audio");
    Ok(object_of([("type", "input_audio".into()), ("input_audio", audio.into())]))
}

fn write_file(
    media: Media,
    name: Option<String>,
    extra: &mut Object,
    form: ChatForm,
) -> Result<Object> {
    let (member, value) = match media {
        Media::FileId(id) => ("file_id", id),
        Media::Base64 { media_type, data } if media_type.is_empty() => ("file_data", data),
        Media::Base64 { media_type, data } => ("file_data", data_url(&media_type, data)),
        Media::Url(url) if form.is_openai() => ("file_data", url),
        Media::Url(_) | Media::Text(_) if form.has_anthropic_blocks() => {
            return Ok(to_document(media, name));
        }
        Media::Text(text) => {
            return Ok(object_of([("type", "text".into()), ("text", text.into())]));
        }
        Media::Url(_) => {
            return Err(form.refused("Chat completions take no addresses of documents."));
        }
    };
    let needs_name = member == "file_data" && !form.has_anthropic_members();
    let name = name.or_else(|| needs_name.then(|| unnamed(&value)));
    let mut file = object_of([(member, value.into())]);
    file.extend(name.map(|name| ("filename".to_owned(), name.into())));
    restore_inner(&mut file, extra, "file");
    Ok(object_of([("type", "file".into()), ("file", file.into())]))
}

/// Returns a document as the block of Anthropic's that its translation takes as it is.
fn to_document(media: Media, name: Option<String>) -> Object {
    let source = match media {
        Media::Text(text) => object_of([
            ("type", "text".into()),
            ("media_type", "text/plain".into()),
            ("data", text.into()),
        ]),
        Media::Url(url) | Media::FileId(url) | Media::Base64 { data: url, .. } => {
            object_of([("type", "url".into()), ("url", url.into())])
        }
    };
    let mut document = object_of([("type", "document".into()), ("source", source.into())]);
    document.extend(name.map(|name| ("title".to_owned(), name.into())));
    document
}

fn unnamed(data: &str) -> String {
    let is_pdf = data.get(DATA.len()..).is_some_and(|rest| rest.starts_with(PDF));
    format!("{UNNAMED}{}", if is_pdf { ".pdf" } else { "" })
}

#[cfg(test)]
mod tests;
