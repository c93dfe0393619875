//! The line for the model about a record whose contents are lost.

use serde_json::{Value, json};

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
