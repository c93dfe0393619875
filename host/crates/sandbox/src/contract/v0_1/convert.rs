//! Conversion between contract types and the catalog's. Values from a guest are checked here.

use airlock_core::{
    secret::Scrubber,
    tool::{
        Annotations, CallError, Content, ErrorKind, Resource, Tool, ToolDefinition, ToolError,
        ToolOutput,
    },
};
use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::Value;

use super::bindings::types as wit;

/// Bytes of a guest's error message; the rest is cut. The message is meant for a model.
const MAX_ERROR_BYTES: usize = 4 << 10;
/// Bytes of an error's code; the rest is cut.
const MAX_CODE_BYTES: usize = 128;
/// Bytes of a media type; a longer one is replaced by `application/octet-stream`.
const MAX_MIME_BYTES: usize = 255;
/// Bytes of an error's details; longer details are left out.
const MAX_DETAILS_BYTES: usize = 64 << 10;

/// Text from a guest that should be JSON and does not parse.
#[derive(Debug, thiserror::Error)]
#[error("{field} is not JSON")]
pub(super) struct NotJson {
    field: &'static str,
    #[source]
    source: serde_json::Error,
}

fn parse(field: &'static str, text: &str) -> Result<Value, NotJson> {
    serde_json::from_str(text).map_err(|source| NotJson { field, source })
}

/// Returns the bytes of JSON text in a result.
pub(super) fn json_bytes(output: &wit::ToolOutput) -> usize {
    [&output.structured, &output.meta].into_iter().flatten().map(String::len).sum()
}

/// Returns the bytes of JSON text in tool descriptors.
pub(super) fn schema_bytes(tools: &[wit::ToolDescriptor]) -> usize {
    let bytes = |tool: &wit::ToolDescriptor| {
        [Some(&tool.input_schema), tool.output_schema.as_ref(), tool.meta.as_ref()]
            .into_iter()
            .flatten()
            .map(String::len)
            .sum::<usize>()
    };
    tools.iter().map(bytes).sum()
}

pub(super) fn output_from_guest(output: wit::ToolOutput) -> Result<ToolOutput, NotJson> {
    Ok(ToolOutput {
        content: output.content.into_iter().map(content_from_guest).collect(),
        structured: output.structured.map(|text| parse("structured", &text)).transpose()?,
        meta: output.meta.map(|text| parse("meta", &text)).transpose()?,
    })
}

pub(super) fn content_from_guest(part: wit::Content) -> Content {
    match part {
        wit::Content::Text(part) => Content::Text { text: part.text },
        wit::Content::Image(part) => {
            Content::Image { data: BASE64.encode(part.data), mime_type: media_type(part.mime_type) }
        }
        wit::Content::Audio(part) => {
            Content::Audio { data: BASE64.encode(part.data), mime_type: media_type(part.mime_type) }
        }
        wit::Content::ResourceLink(part) => Content::ResourceLink {
            name: part.name.unwrap_or_else(|| part.uri.clone()),
            uri: part.uri,
            mime_type: part.mime_type,
        },
        wit::Content::Embedded(part) => {
            let (text, blob) = match String::from_utf8(part.data) {
                Ok(text) if part.is_text => (Some(text), None),
                Ok(text) => (None, Some(BASE64.encode(text))),
                Err(bytes) => (None, Some(BASE64.encode(bytes.as_bytes()))),
            };
            Content::Resource {
                resource: Resource { uri: part.uri, mime_type: part.mime_type, text, blob },
            }
        }
    }
}

fn media_type(text: String) -> String {
    if text.len() > MAX_MIME_BYTES { "application/octet-stream".to_owned() } else { text }
}

/// Converts a guest's error. Secrets are redacted before the texts are cut, because half a secret
/// would no longer be found.
pub(super) fn error_from_guest(error: wit::ToolError, scrubber: &Scrubber) -> ToolError {
    ToolError {
        kind: kind_from_guest(error.kind),
        code: error.code.map(|code| scrubber.cut(&code, MAX_CODE_BYTES)),
        message: scrubber.cut(&error.message, MAX_ERROR_BYTES),
        retry_after_ms: error.retry_after_ms,
        // Details are read by programs: details that do not parse or are too long are dropped.
        details: error
            .details
            .filter(|text| text.len() <= MAX_DETAILS_BYTES)
            .and_then(|text| serde_json::from_str(&text).ok()),
    }
}

pub(super) fn output_for_guest(output: ToolOutput) -> wit::ToolOutput {
    wit::ToolOutput {
        content: output.content.into_iter().map(content_for_guest).collect(),
        structured: output.structured.map(|value| value.to_string()),
        meta: output.meta.map(|value| value.to_string()),
    }
}

fn content_for_guest(part: Content) -> wit::Content {
    // Base64 that does not decode came from outside; the guest receives empty data instead of wrong
    // data.
    let decode = |data: String| BASE64.decode(data).unwrap_or_default();
    match part {
        Content::Text { text } => wit::Content::Text(wit::TextPart { text, mime_type: None }),
        Content::Image { data, mime_type } => {
            wit::Content::Image(wit::BlobPart { data: decode(data), mime_type })
        }
        Content::Audio { data, mime_type } => {
            wit::Content::Audio(wit::BlobPart { data: decode(data), mime_type })
        }
        Content::ResourceLink { uri, name, mime_type } => {
            wit::Content::ResourceLink(wit::LinkPart { uri, name: Some(name), mime_type })
        }
        Content::Resource { resource } => {
            let is_text = resource.text.is_some();
            let data = match (resource.text, resource.blob) {
                (Some(text), _) => text.into_bytes(),
                (None, Some(blob)) => decode(blob),
                (None, None) => Vec::new(),
            };
            wit::Content::Embedded(wit::EmbeddedPart {
                uri: resource.uri,
                mime_type: resource.mime_type,
                data,
                is_text,
            })
        }
    }
}

/// Converts the error of a nested call for the guest that made the call.
pub(super) fn error_for_guest(error: &CallError) -> wit::ToolError {
    let (code, details) = match error {
        CallError::Tool(error) => {
            (error.code.clone(), error.details.as_ref().map(Value::to_string))
        }
        other => (Some(other.code().to_owned()), None),
    };
    let retry_after_ms =
        error.retry_after().map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
    wit::ToolError {
        kind: kind_for_guest(error.kind()),
        code,
        message: error.to_string(),
        retry_after_ms,
        details,
    }
}

pub(super) fn definition_from_guest(tool: wit::ToolDescriptor) -> Result<ToolDefinition, NotJson> {
    Ok(ToolDefinition {
        name: tool.name,
        title: tool.title,
        description: tool.description,
        input_schema: parse("input-schema", &tool.input_schema)?.into(),
        output_schema: tool
            .output_schema
            .map(|text| parse("output-schema", &text))
            .transpose()?
            .map(Into::into),
        annotations: Annotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        },
        meta: tool.meta.map(|text| parse("meta", &text)).transpose()?.map(Into::into),
    })
}

/// Converts the descriptor of a tool that the guest calls `name`.
pub(super) fn descriptor_for_guest(name: String, tool: &Tool) -> wit::ToolDescriptor {
    wit::ToolDescriptor {
        name,
        title: tool.title.clone(),
        description: tool.description.clone(),
        input_schema: tool.input_schema.to_string(),
        output_schema: tool.output_schema.as_ref().map(ToString::to_string),
        annotations: wit::ToolAnnotations {
            read_only: tool.annotations.read_only,
            destructive: tool.annotations.destructive,
            idempotent: tool.annotations.idempotent,
            open_world: tool.annotations.open_world,
        },
        meta: None,
    }
}

macro_rules! kinds {
    ($($kind:ident)*) => {
        fn kind_from_guest(kind: wit::ErrorKind) -> ErrorKind {
            match kind { $(wit::ErrorKind::$kind => ErrorKind::$kind,)* }
        }
        fn kind_for_guest(kind: ErrorKind) -> wit::ErrorKind {
            match kind { $(ErrorKind::$kind => wit::ErrorKind::$kind,)* }
        }
    };
}
kinds!(InvalidInput NotFound Denied AuthRequired RateLimited Unavailable Timeout Cancelled TooLarge Internal);
