//! Content parts → chat content parts.

use serde_json::{Value, json};

use airlock_conversation::read::{Members, Path, Untranslatable};
use airlock_model::{Object, object};

/// Place of content, which decides the parts that it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A message of the user.
    User,
    /// A system or developer message. In chat completions these take text only.
    Instructions,
    /// A message of the model.
    Assistant,
    /// The output of a tool call.
    ToolOutput,
}

impl Place {
    const fn parts(self) -> &'static [&'static str] {
        match self {
            Self::User => &["input_text", "input_image", "input_file", "input_audio"],
            Self::Instructions => &["input_text"],
            Self::Assistant => &["output_text", "input_text", "refusal"],
            Self::ToolOutput => &["input_text", "input_image", "input_file"],
        }
    }
}

/// Translates content: a text or a list of parts. A single part that is only text becomes a text,
/// because many servers take no lists outside of user messages.
pub(super) fn translate(
    content: Value,
    place: Place,
    path: &Path<'_>,
) -> Result<Value, Untranslatable> {
    let parts = match content {
        Value::String(_) => return Ok(content),
        Value::Array(parts) => parts,
        other => return Err(Untranslatable::invalid_type(path, "a string or an array", &other)),
    };
    let mut translated = Vec::with_capacity(parts.len());
    for (index, value) in parts.into_iter().enumerate() {
        translated.push(part(value, place, &path.element(index))?);
    }
    Ok(match translated.as_mut_slice() {
        [] => Value::String(String::new()),
        [Value::Object(only)] if is_only_text(only) => only["text"].take(),
        _ => translated.into(),
    })
}

/// Joins the contents of two messages.
pub(super) fn join(one: Value, other: Value) -> Value {
    let mut joined = into_parts(one);
    joined.extend(into_parts(other));
    joined.into()
}

fn into_parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({"type": "text", "text": text})],
    }
}

fn is_only_text(part: &Object) -> bool {
    part.len() == 2 && part["type"] == "text"
}

fn part(value: Value, place: Place, path: &Path<'_>) -> Result<Value, Untranslatable> {
    let mut part = Members::read(path, value)?;
    let kind = part.required_text("type")?;
    if !place.parts().contains(&kind.as_str()) {
        return Err(Untranslatable::invalid_value(&part.path("type"), &kind, place.parts()));
    }
    let mut translated = match kind.as_str() {
        "input_image" => image(&mut part)?,
        "input_file" => file(&mut part)?,
        "input_audio" => {
            let audio = part.required("input_audio")?;
            json!({"type": "input_audio", "input_audio": audio})
        }
        "refusal" => json!({"type": "refusal", "refusal": part.required_text("refusal")?}),
        _ => text(&mut part)?,
    };
    if let Value::Object(translated) = &mut translated {
        // Members that the API does not define are kept, such as `cache_control`, which is a member
        // of parts in both APIs.
        translated.extend(part.into_rest());
    }
    Ok(translated)
}

fn text(part: &mut Members<'_>) -> Result<Value, Untranslatable> {
    // Both describe the model's output, and chat completions do not take them as input.
    part.take("annotations");
    part.take("logprobs");
    Ok(json!({"type": "text", "text": part.required_text("text")?}))
}

fn image(part: &mut Members<'_>) -> Result<Value, Untranslatable> {
    part.refuse("file_id", "Images of uploaded files are not available. Use 'image_url'.")?;
    let mut image = object(json!({"url": part.required_text("image_url")?}));
    image.extend(part.take("detail").map(|detail| ("detail".to_owned(), detail)));
    Ok(json!({"type": "image_url", "image_url": image}))
}

fn file(part: &mut Members<'_>) -> Result<Value, Untranslatable> {
    part.refuse("file_url", "Chat completions take no URLs of files. Use 'file_data'.")?;
    let advice = "Chat completions have no detail of files. Only 'auto' is supported.";
    part.refuse_unless("detail", &"auto".into(), advice)?;
    let mut file = Object::new();
    for name in ["filename", "file_data", "file_id"] {
        file.extend(part.text(name)?.map(|value| (name.to_owned(), value.into())));
    }
    if !file.contains_key("file_data") && !file.contains_key("file_id") {
        return Err(Untranslatable::missing(&part.path("file_data")));
    }
    Ok(json!({"type": "file", "file": file}))
}
