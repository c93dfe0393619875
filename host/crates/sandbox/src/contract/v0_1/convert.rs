//! Conversion of the catalog's types for guests.

mod content;
mod error;

use airlock_core::tool::ToolOutput;
use serde_json::{Map, Value};

pub(super) use self::{content::content_for_guest, error::error_for_guest};
use super::bindings::types as wit;

pub(super) fn output_for_guest(output: ToolOutput) -> wit::ToolOutput {
    wit::ToolOutput {
        content: output.content.into_iter().map(content_for_guest).collect(),
        structured_content: output.structured.map(|value| value.to_string()),
        meta: output.meta.as_ref().map(text_of),
        extra: output.extra.as_deref().map(text_of),
    }
}

/// Returns members as the JSON text of an object.
fn text_of(members: &Map<String, Value>) -> String {
    // A map with text keys is always JSON.
    serde_json::to_string(members).unwrap_or_default()
}
