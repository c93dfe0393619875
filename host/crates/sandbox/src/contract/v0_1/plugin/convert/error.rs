//! Errors of tools from guests.

use airlock_core::{
    secret::Scrubber,
    tool::{Content, ToolError, content_size, own_code, result_extra},
};
use serde_json::{Map, Value};

use super::{
    content::{content_json, contents_from_guest, least_size},
    json::lengths,
    trees_bytes,
};
use crate::{
    contract::v0_1::bindings::types as wit,
    plugin::tool_guest::{MAX_CODE_BYTES, MAX_DETAILS_BYTES, MAX_ERROR_BYTES},
};

/// Text in place of an error's content that is malformed or larger than the limit.
const CONTENT_LEFT_OUT: &str =
    "[The content of this error is left out: it is malformed or too large.]";

/// Returns the bytes of the texts that the conversion of an error reads.
pub(crate) fn error_bytes(error: &wit::ToolError) -> usize {
    let members = lengths([&error.code, &error.details, &error.meta, &error.extra]);
    error.message.len() + least_size(&error.content) + members
}

/// Returns the most memory that the JSON in an error takes as trees, in bytes. What is too long to be
/// kept, `limit` bytes for the content, is not read.
pub(crate) fn error_tree_bytes(error: &wit::ToolError, limit: usize) -> usize {
    let content = if least_size(&error.content) <= limit { &error.content[..] } else { &[] };
    let members = [&error.details, &error.meta, &error.extra].into_iter().flatten();
    let members = members.filter(|text| text.len() <= MAX_DETAILS_BYTES);
    trees_bytes(content.iter().flat_map(content_json).chain(members))
}

/// Converts a guest's error. Secrets are redacted before the texts are cut, because half a secret
/// would no longer be found. `limit` is the most bytes of its content.
pub(crate) fn error_from_guest(
    error: wit::ToolError,
    scrubber: &Scrubber,
    limit: usize,
) -> ToolError {
    let is_small = least_size(&error.content) <= limit;
    let content = is_small.then(|| contents_from_guest(error.content).ok()).flatten();
    // The error itself is always reported; of the rest, what is malformed or too long is left out.
    ToolError {
        kind: error.kind.into(),
        code: error.code.map(|code| scrubber.cut(&code, MAX_CODE_BYTES)).and_then(own_code),
        message: scrubber.cut(&error.message, MAX_ERROR_BYTES),
        retry_after_ms: error.retry_after_ms,
        content: content
            .filter(|content| content_size(content) <= limit)
            .unwrap_or_else(|| vec![Content::text(CONTENT_LEFT_OUT)]),
        details: data(error.details),
        meta: data(error.meta).and_then(object),
        extra: data(error.extra).and_then(object).and_then(result_extra),
    }
}

fn data(text: Option<String>) -> Option<Value> {
    let text = text.filter(|text| text.len() <= MAX_DETAILS_BYTES)?;
    serde_json::from_str::<Value>(&text).ok()
}

fn object(value: Value) -> Option<Map<String, Value>> {
    match value {
        Value::Object(members) => Some(members),
        _ => None,
    }
}
