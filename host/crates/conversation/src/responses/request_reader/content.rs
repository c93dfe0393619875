//! Content of messages and of the outputs of calls.

use serde_json::Value;

use super::object_of;
use crate::{
    Content, Media, NativeItem, Object, Part, Wire, chat,
    read::{Members, Path, Result, Untranslatable},
};

/// Place of content, which decides the parts that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum InputPlace {
    /// A message of the user.
    User,
    /// A system or developer message. In chat completions these take text only.
    Instructions,
    /// A message of the model.
    Assistant,
    /// The output of a tool call.
    ToolOutput,
}

impl InputPlace {
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::User => &["input_text", "input_image", "input_file", "input_audio"],
            Self::Instructions => &["input_text"],
            Self::Assistant => &["output_text", "input_text", "refusal"],
            Self::ToolOutput => &["input_text", "input_image", "input_file"],
        }
    }
}

/// Reads content: a text or a list of parts.
pub(super) fn read(content: Value, place: InputPlace, path: &Path<'_>) -> Result<Vec<Part>> {
    match content {
        Value::String(text) => Ok(vec![Part::text(text)]),
        Value::Array(parts) => {
            let parts = parts.into_iter().enumerate();
            parts.map(|(index, part)| read_part(part, place, &path.element(index))).collect()
        }
        other => Err(Untranslatable::invalid_type(path, "a string or an array", &other)),
    }
}

fn read_part(value: Value, place: InputPlace, path: &Path<'_>) -> Result<Part> {
    let mut part = Members::read(path, value)?;
    let kind = part.required_text("type")?;
    if !place.parts().contains(&kind.as_str()) {
        return Err(Untranslatable::invalid_value(&part.path("type"), &kind, place.parts()));
    }
    let cache_control = part.take("cache_control");
    let mut extra = Object::new();
    let content = match kind.as_str() {
        "input_image" => read_image(&mut part, &mut extra)?,
        "input_file" => read_file(&mut part)?,
        "input_audio" if part.get("input_audio").is_none() => {
            return Err(Untranslatable::missing(&part.path("input_audio")));
        }
        "input_audio" => chat::read_audio(&mut part, &mut extra)?,
        "refusal" => Content::Refusal(part.required_text("refusal")?),
        _ => read_text(&mut part)?,
    };
    extra.extend(chat::rest(part));
    Ok(Part { content, cache_control, extra })
}

fn read_text(part: &mut Members<'_>) -> Result<Content> {
    // Both describe the model's output, and other APIs do not take them as input.
    part.take("annotations");
    part.take("logprobs");
    Ok(Content::Text(part.required_text("text")?))
}

fn read_image(part: &mut Members<'_>, extra: &mut Object) -> Result<Content> {
    part.refuse("file_id", "Images of uploaded files are not available. Use 'image_url'.")?;
    let media = chat::from_url(part.required_text("image_url")?);
    let detail = match part.take("detail") {
        Some(Value::String(detail)) => Some(detail),
        // The provider judges it.
        Some(other) => {
            let inner = object_of([("detail", other)]);
            extra.insert("image_url".to_owned(), inner.into());
            None
        }
        None => None,
    };
    Ok(Content::Image { media, detail })
}

fn read_file(part: &mut Members<'_>) -> Result<Content> {
    part.refuse("file_url", "Chat completions take no URLs of files. Use 'file_data'.")?;
    let advice = "Chat completions have no detail of files. Only 'auto' is supported.";
    part.refuse_unless("detail", &"auto".into(), advice)?;
    let name = part.text("filename")?;
    let media = match (part.text("file_data")?, part.text("file_id")?) {
        (Some(data), Some(id)) => {
            let mut file = object_of([("file_data", data.into()), ("file_id", id.into())]);
            file.extend(name.map(|name| ("filename".to_owned(), name.into())));
            let object = object_of([("type", "file".into()), ("file", file.into())]);
            return Ok(Content::Native(NativeItem::new(Wire::Chat, object)));
        }
        (Some(data), None) => chat::from_file_data(data),
        (None, Some(id)) => Media::FileId(id),
        (None, None) => return Err(Untranslatable::missing(&part.path("file_data"))),
    };
    Ok(Content::File { media, name })
}
