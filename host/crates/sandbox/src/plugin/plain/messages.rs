//! Texts for values and types in error messages. They are short, regardless of the values that were
//! sent and of the names that the component's author chose.

use airlock_strings::cut;
use serde_json::Value;

use super::{schema::MAX_SAFE, shape::Shape};

/// Bytes of a found value that an error repeats: one line of a terminal. Lists of valid values have
/// two lines, and an ellipsis.
const MAX_SHOWN: usize = 80;

/// Describes the valid values of a type.
pub(super) fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Bool => "true or false".to_owned(),
        Shape::Int(int) => {
            let (least, most) = int.range();
            if most > MAX_SAFE {
                let least = least.max(-MAX_SAFE);
                format!("an integer from {least} to {MAX_SAFE}, or a larger one as text of digits")
            } else {
                format!("an integer from {least} to {most}")
            }
        }
        Shape::F32 | Shape::F64 => "a number".to_owned(),
        Shape::Char => "text of one character".to_owned(),
        Shape::String => "text".to_owned(),
        Shape::Bytes => "base64".to_owned(),
        Shape::List(_) => "a list".to_owned(),
        Shape::Tuple(shapes) => format!("a list of {} items", shapes.len()),
        Shape::Record(fields) => {
            format!("an object with {}", listed(fields.iter().map(|field| field.key.as_str())))
        }
        Shape::Variant(cases) => format!("one case of {}", quoted(cases.keys())),
        Shape::Enum(names) => format!("one of {}", quoted(names)),
        Shape::Flags(names) => {
            format!("a list with some of {}", quoted(names))
        }
        Shape::Option(some) => format!("{} or null", expected(some)),
        Shape::Result { .. } => r#"one case of "ok", "err""#.to_owned(),
    }
}

/// Describes a found value. Short values are shown as they are.
pub(super) fn describe(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(members) => match members.keys().next() {
            Some(name) if members.len() == 1 => format!("an object with {:?}", excerpt(name)),
            _ => format!("an object of {} members", members.len()),
        },
        Value::String(text) => Value::String(excerpt(text)).to_string(),
        other => other.to_string(),
    }
}

/// Cuts a caller's text to the length that an error repeats.
pub(super) fn excerpt(text: &str) -> String {
    // One character more than fits, so that the cut is marked.
    cut(text.chars().take(MAX_SHOWN + 1).collect(), MAX_SHOWN)
}

/// Lists names in quotation marks.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    listed(names.into_iter().map(|name| format!("{name:?}")))
}

/// Lists as many names as fit, then an ellipsis.
pub(super) fn listed(names: impl Iterator<Item = impl AsRef<str>>) -> String {
    let mut text = String::new();
    for name in names {
        if text.len() > 2 * MAX_SHOWN {
            return text + ", …";
        }
        if !text.is_empty() {
            text += ", ";
        }
        text += name.as_ref();
    }
    cut(text, 4 * MAX_SHOWN)
}
