//! The line for the model about a record whose contents are lost.

use serde_json::{Value, json};

use crate::json::raw;

/// The line. It stands at the end of the result of the caller's call.
pub(super) const LOST: &str = "[Note of the gateway: together with this call you made other calls, which ran. Their results \
     are no longer kept. Do not repeat a call that changes something before you know its effect.]";

/// Adds the line to the content of a result: a text, or a list of parts of type `kind`. Any other
/// content stays as it is.
pub(super) fn add_to(content: &mut Value, kind: &str) {
    match content {
        Value::String(text) => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(LOST);
        }
        Value::Array(parts) => parts.push(json!({"type": kind, "text": LOST})),
        _ => {}
    }
}

/// Returns the JSON text of the content of a result with the line, as [`add_to`]; `None` if the content
/// is neither a text nor a list.
pub(super) fn added_to(content: &str, kind: &str) -> Option<String> {
    if let Some(text) = raw::string(content) {
        let mut content = Value::String(text.into_owned());
        add_to(&mut content, kind);
        return Some(content.to_string());
    }
    let is_empty = raw::elements(content)?.next().is_none();
    let begin = content.trim_ascii_end().strip_suffix(']')?;
    let separator = if is_empty { "" } else { "," };
    Some(format!("{begin}{separator}{}]", json!({"type": kind, "text": LOST})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_added_to_a_tree_as_to_a_text() {
        for content in [json!(""), json!("a"), json!([]), json!([{"type": "text", "text": "a"}])] {
            let mut tree = content.clone();
            add_to(&mut tree, "text");
            let text = added_to(&content.to_string(), "text").expect("it can be added");
            assert_eq!(text.parse::<Value>().expect("JSON"), tree, "{content}");
        }
        assert_eq!(added_to("7", "text"), None);
    }
}
