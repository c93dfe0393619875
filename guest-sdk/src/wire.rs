//! Conversions between the types of this crate and those of the contract.

use std::time::Duration;

use serde_json::Value;

use crate::bindings::airlock::types::types as wit;
use crate::{Annotations, Content, Descriptor, Embedded, Error, ErrorKind, Link, Output};

pub(crate) fn descriptor_to_host(descriptor: Descriptor) -> wit::ToolDescriptor {
    let Annotations { read_only, destructive, idempotent, open_world } = descriptor.annotations;
    wit::ToolDescriptor {
        name: descriptor.name,
        title: descriptor.title,
        description: descriptor.description,
        input_schema: descriptor.input_schema.as_value().to_string(),
        output_schema: descriptor.output_schema.map(|schema| schema.as_value().to_string()),
        annotations: wit::ToolAnnotations { read_only, destructive, idempotent, open_world },
        meta: None,
    }
}

pub(crate) fn descriptor_from_host(descriptor: wit::ToolDescriptor) -> Result<Descriptor, Error> {
    let schema = |text: String| {
        let schema = serde_json::from_str(&text);
        schema.map_err(|error| Error::internal(format!("the host sent an invalid schema: {error}")))
    };
    let wit::ToolAnnotations { read_only, destructive, idempotent, open_world } =
        descriptor.annotations;
    Ok(Descriptor {
        name: descriptor.name,
        title: descriptor.title,
        description: descriptor.description,
        input_schema: schema(descriptor.input_schema)?,
        output_schema: descriptor.output_schema.map(schema).transpose()?,
        annotations: Annotations { read_only, destructive, idempotent, open_world },
    })
}

pub(crate) fn output_to_host(output: Output) -> wit::ToolOutput {
    wit::ToolOutput {
        content: output.content.into_iter().map(content_to_host).collect(),
        structured: output.structured.map(|value| value.to_string()),
        meta: output.meta.map(|value| value.to_string()),
    }
}

pub(crate) fn output_from_host(output: wit::ToolOutput) -> Result<Output, Error> {
    Ok(Output {
        content: output.content.into_iter().map(content_from_host).collect(),
        structured: output.structured.map(|text| json(&text)).transpose()?,
        meta: output.meta.map(|text| json(&text)).transpose()?,
    })
}

pub(crate) fn content_to_host(content: Content) -> wit::Content {
    match content {
        Content::Text { text, mime_type } => wit::Content::Text(wit::TextPart { text, mime_type }),
        Content::Image { data, mime_type } => {
            wit::Content::Image(wit::BlobPart { data, mime_type })
        }
        Content::Audio { data, mime_type } => {
            wit::Content::Audio(wit::BlobPart { data, mime_type })
        }
        Content::Link(Link { uri, name, mime_type }) => {
            wit::Content::ResourceLink(wit::LinkPart { uri, name, mime_type })
        }
        Content::Embedded(Embedded { uri, mime_type, data, is_text }) => {
            wit::Content::Embedded(wit::EmbeddedPart { uri, mime_type, data, is_text })
        }
    }
}

fn content_from_host(content: wit::Content) -> Content {
    match content {
        wit::Content::Text(wit::TextPart { text, mime_type }) => Content::Text { text, mime_type },
        wit::Content::Image(wit::BlobPart { data, mime_type }) => {
            Content::Image { data, mime_type }
        }
        wit::Content::Audio(wit::BlobPart { data, mime_type }) => {
            Content::Audio { data, mime_type }
        }
        wit::Content::ResourceLink(wit::LinkPart { uri, name, mime_type }) => {
            Content::Link(Link { uri, name, mime_type })
        }
        wit::Content::Embedded(wit::EmbeddedPart { uri, mime_type, data, is_text }) => {
            Content::Embedded(Embedded { uri, mime_type, data, is_text })
        }
    }
}

pub(crate) fn error_to_host(error: &Error) -> wit::ToolError {
    wit::ToolError {
        kind: kind_to_host(error.kind()),
        code: error.code().map(str::to_owned),
        message: error.message().to_owned(),
        retry_after_ms: error.retry_after().map(milliseconds),
        details: error.details().map(Value::to_string),
    }
}

/// Converts the error of a nested call. Details that are not JSON are dropped, so that the error
/// itself is always reported.
pub(crate) fn error_from_host(error: wit::ToolError) -> Error {
    let mut ours = Error::new(kind_from_host(error.kind), error.message);
    if let Some(code) = error.code {
        ours = ours.with_code(code);
    }
    if let Some(after) = error.retry_after_ms {
        ours = ours.with_retry_after(Duration::from_millis(after));
    }
    match error.details.as_deref().map(json) {
        Some(Ok(details)) => ours.with_details(details),
        _ => ours,
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::internal(format!("the host sent invalid JSON: {error}")))
}

fn kind_to_host(kind: ErrorKind) -> wit::ErrorKind {
    match kind {
        ErrorKind::InvalidInput => wit::ErrorKind::InvalidInput,
        ErrorKind::NotFound => wit::ErrorKind::NotFound,
        ErrorKind::Denied => wit::ErrorKind::Denied,
        ErrorKind::AuthRequired => wit::ErrorKind::AuthRequired,
        ErrorKind::RateLimited => wit::ErrorKind::RateLimited,
        ErrorKind::Unavailable => wit::ErrorKind::Unavailable,
        ErrorKind::Timeout => wit::ErrorKind::Timeout,
        ErrorKind::Cancelled => wit::ErrorKind::Cancelled,
        ErrorKind::TooLarge => wit::ErrorKind::TooLarge,
        ErrorKind::Internal => wit::ErrorKind::Internal,
    }
}

fn kind_from_host(kind: wit::ErrorKind) -> ErrorKind {
    match kind {
        wit::ErrorKind::InvalidInput => ErrorKind::InvalidInput,
        wit::ErrorKind::NotFound => ErrorKind::NotFound,
        wit::ErrorKind::Denied => ErrorKind::Denied,
        wit::ErrorKind::AuthRequired => ErrorKind::AuthRequired,
        wit::ErrorKind::RateLimited => ErrorKind::RateLimited,
        wit::ErrorKind::Unavailable => ErrorKind::Unavailable,
        wit::ErrorKind::Timeout => ErrorKind::Timeout,
        wit::ErrorKind::Cancelled => ErrorKind::Cancelled,
        wit::ErrorKind::TooLarge => ErrorKind::TooLarge,
        wit::ErrorKind::Internal => ErrorKind::Internal,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_output_is_unchanged_after_a_round_trip() {
        let output = Output::json(&json!({ "a": [1, null] }))
            .unwrap()
            .with_image(vec![1], "image/png")
            .with_audio(vec![2], "audio/wav")
            .with_link(Link::new("x:y").with_name("z"))
            .with_embedded(Embedded::text("x:t", "text").with_mime_type("text/markdown"))
            .with_meta(json!({ "vendor/key": true }));
        assert_eq!(output_from_host(output_to_host(output.clone())), Ok(output));
    }

    #[test]
    fn an_error_is_unchanged_after_a_round_trip() {
        let error = Error::new(ErrorKind::RateLimited, "slowly")
            .with_code("quota")
            .with_retry_after(Duration::from_millis(1500))
            .with_details(json!({ "left": 0 }));
        assert_eq!(error_from_host(error_to_host(&error)), error);
    }
}
