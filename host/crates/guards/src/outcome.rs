//! The outcome of a call as guards read and write it: JSON text.

use serde_json::{Map, Value};

use airlock_core::tool::{CallError, Content, Tool, ToolError, ToolOutput, result_extra};
use airlock_json::{self as json, Caps, check_unique_keys};
use airlock_sandbox::ToolOutcome;

/// Limit on the memory of the tree of a rewritten outcome, in bytes.
const TREE_CAPS: Caps = Caps::memory(64 << 20);

/// Reason that a guard's JSON is not an outcome.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadOutcome {
    #[error("it is not JSON: {0}")]
    Json(String),
    #[error("it is not an object")]
    NoObject,
    #[error("`content` is not an array")]
    Content,
    #[error("`message` is not a text")]
    Message,
    #[error("`structuredContent` is missing, and the tool has an output schema")]
    Structured,
    #[error("its content has too many parts")]
    Parts,
}

/// Writes an outcome; `None` if the call has failed otherwise than by the tool's own error.
pub(super) fn write(
    outcome: &Result<ToolOutput, CallError>,
) -> Option<serde_json::Result<ToolOutcome>> {
    Some(match outcome {
        Ok(output) => serde_json::to_string(output).map(ToolOutcome::Success),
        Err(error) => serde_json::to_string(error.tool_error()?).map(ToolOutcome::Failure),
    })
}

/// Returns the approximate size of an outcome in bytes.
pub(super) fn size(outcome: &Result<ToolOutput, CallError>) -> usize {
    match outcome {
        Ok(output) => output.size(),
        Err(error) => error.tool_error().map_or(0, ToolError::size),
    }
}

/// Reads the outcome that a guard has written in the place of another one. A result stays a result, and an error
/// keeps its kind and its code.
pub(super) fn read(
    text: &str,
    tool: &Tool,
    before: &Result<ToolOutput, CallError>,
) -> Result<Result<ToolOutput, CallError>, BadOutcome> {
    let mut members = object(text)?;
    let content = content(&mut members, text.len())?;
    let Err(error) = before else {
        let structured = members.shift_remove("structuredContent").filter(|value| !value.is_null());
        if structured.is_none() && tool.output_schema.is_some() {
            return Err(BadOutcome::Structured);
        }
        let meta = meta(&mut members);
        return Ok(Ok(ToolOutput { content, structured, meta, extra: result_extra(members) }));
    };
    let Some(own) = error.tool_error() else { return Err(BadOutcome::NoObject) };
    let Some(Value::String(message)) = members.shift_remove("message") else {
        return Err(BadOutcome::Message);
    };
    let details = members.shift_remove("details").filter(|value| !value.is_null());
    Ok(Err(ToolError {
        code: own.code.clone(),
        retry_after_ms: own.retry_after_ms,
        content,
        details,
        meta: meta(&mut members),
        ..ToolError::new(own.kind, message)
    }
    .into()))
}

/// Reads an object. Fails if a key occurs twice.
pub(super) fn object(text: &str) -> Result<Map<String, Value>, BadOutcome> {
    let (value, _) = json::parse::<Value>(text.as_bytes(), &TREE_CAPS)
        .map_err(|error| BadOutcome::Json(error.to_string()))?;
    check_unique_keys(text).map_err(|error| BadOutcome::Json(error.to_string()))?;
    if let Value::Object(members) = value { Ok(members) } else { Err(BadOutcome::NoObject) }
}

/// Takes the parts. A part of a few bytes takes a hundred times the memory of its text, so the number of parts is bounded
/// by the text that a result of the same size would have.
fn content(members: &mut Map<String, Value>, bytes: usize) -> Result<Vec<Content>, BadOutcome> {
    match members.shift_remove("content") {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(blocks)) if blocks.len() > most_parts(bytes) => Err(BadOutcome::Parts),
        Some(Value::Array(blocks)) => Ok(blocks.into_iter().map(Content::from_mcp).collect()),
        Some(_) => Err(BadOutcome::Content),
    }
}

fn most_parts(bytes: usize) -> usize {
    bytes / r#"{"type":"text","text":""}"#.len() + 1
}

fn meta(members: &mut Map<String, Value>) -> Option<Map<String, Value>> {
    match members.shift_remove("_meta") {
        Some(Value::Object(meta)) if !meta.is_empty() => Some(meta),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
