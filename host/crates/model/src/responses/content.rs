//! Content of chat messages → content of items.

use serde_json::Value;

use crate::{
    Object,
    translation::{Unsupported, object_of, take, take_text},
};

/// Place of content, which decides the types of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentPlace {
    /// A message of the user, the system or the developer, or the result of a tool.
    Input,
    /// A message of the model.
    Assistant,
}

/// Translates `content`: a text, which stays one, or a list of parts.
pub(super) fn translate(content: Value, place: ContentPlace) -> Result<Value, Unsupported> {
    let parts = match content {
        Value::String(_) => return Ok(content),
        Value::Array(parts) => parts,
        _ => {
            return Err(Unsupported::new("content", "must be a string or a list of content parts"));
        }
    };
    let parts = parts.into_iter().enumerate().map(|(index, value)| {
        part(value, place).map_err(|error| error.within(format_args!("content[{index}]")))
    });
    parts.collect()
}

fn part(value: Value, place: ContentPlace) -> Result<Value, Unsupported> {
    let Value::Object(mut part) = value else {
        return Err(Unsupported::new("", "must be an object"));
    };
    let kind = take_text(&mut part, "type")?;
    let translated = match (kind.as_str(), place) {
        ("text", ContentPlace::Input) => named("input_text", "text", &mut part)?,
        ("text", ContentPlace::Assistant) => named("output_text", "text", &mut part)?,
        ("refusal", ContentPlace::Assistant) => named("refusal", "refusal", &mut part)?,
        ("image_url", ContentPlace::Input) => within("input_image", "image_url", &mut part)?,
        ("file", ContentPlace::Input) => within("input_file", "file", &mut part)?,
        ("input_audio", ContentPlace::Input) => {
            let audio = take(&mut part, "input_audio").unwrap_or_default();
            object_of([("type", "input_audio".into()), ("input_audio", audio)])
        }
        (_, ContentPlace::Input) => {
            let types = "must be \"text\", \"image_url\", \"file\" or \"input_audio\"";
            return Err(Unsupported::new("type", types));
        }
        (_, ContentPlace::Assistant) => {
            return Err(Unsupported::new(
                "type",
                "must be \"text\" or \"refusal\" in assistant messages",
            ));
        }
    };
    Ok(translated.into())
}

/// Returns a part of type `kind` that has one text.
fn named(kind: &str, name: &str, part: &mut Object) -> Result<Object, Unsupported> {
    let text = take_text(part, name)?;
    let mut translated = object_of([("type", kind.into()), (name, text.into())]);
    if kind == "output_text" {
        translated.insert("annotations".to_owned(), Value::Array(Vec::new()));
    }
    Ok(translated)
}

/// Returns a part of type `kind` with the members of the object `name`. The URL of an image has the
/// name of that object.
fn within(kind: &str, name: &str, part: &mut Object) -> Result<Object, Unsupported> {
    let Some(Value::Object(inner)) = take(part, name) else {
        return Err(Unsupported::new(name, "must be an object"));
    };
    let mut translated = object_of([("type", kind.into())]);
    for (member, value) in inner.into_iter().filter(|(member, _)| member != "type") {
        let member = if member == "url" { name.to_owned() } else { member };
        translated.insert(member, value);
    }
    Ok(translated)
}
