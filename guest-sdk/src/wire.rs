//! Conversions between the types of this crate and those of the contract, without loss.

use std::time::Duration;

use schemars::Schema;
use serde_json::Value;

use crate::bindings::airlock::types::types as wit;
use crate::content::{Block, Contents, Media};
use crate::error::Parts;
use crate::{Annotations, Content, Descriptor, Embedded, Error, ErrorKind, Link, Output};

pub(crate) fn descriptor_to_host(descriptor: Descriptor) -> wit::ToolDescriptor {
    let Descriptor {
        name,
        title,
        description,
        input_schema,
        output_schema,
        annotations,
        meta,
        extra,
    } = descriptor;
    let Annotations { read_only, destructive, idempotent, open_world, extra: hints } = annotations;
    wit::ToolDescriptor {
        name,
        title,
        description,
        input_schema: input_schema.as_value().to_string(),
        output_schema: output_schema.map(|schema| schema.as_value().to_string()),
        annotations: wit::ToolAnnotations {
            read_only,
            destructive,
            idempotent,
            open_world,
            extra: text(hints),
        },
        meta: text(meta),
        extra: text(extra),
    }
}

pub(crate) fn descriptor_from_host(descriptor: wit::ToolDescriptor) -> Result<Descriptor, Error> {
    let wit::ToolAnnotations { read_only, destructive, idempotent, open_world, extra: hints } =
        descriptor.annotations;
    Ok(Descriptor {
        name: descriptor.name,
        title: descriptor.title,
        description: descriptor.description,
        input_schema: schema(&descriptor.input_schema)?,
        output_schema: descriptor.output_schema.as_deref().map(schema).transpose()?,
        annotations: Annotations {
            read_only,
            destructive,
            idempotent,
            open_world,
            extra: value(hints)?,
        },
        meta: value(descriptor.meta)?,
        extra: value(descriptor.extra)?,
    })
}

fn schema(text: &str) -> Result<Schema, Error> {
    Schema::try_from(json(text)?)
        .map_err(|error| Error::internal(format!("the host sent an invalid schema: {error}")))
}

pub(crate) fn output_to_host(output: Output) -> wit::ToolOutput {
    let Output { content, structured_content, meta, extra } = output;
    wit::ToolOutput {
        content: content.into_iter().map(content_to_host).collect(),
        structured_content: text(structured_content),
        meta: text(meta),
        extra: text(extra),
    }
}

pub(crate) fn output_from_host(output: wit::ToolOutput) -> Result<Output, Error> {
    Ok(Output {
        content: output.content.into_iter().map(content_from_host).collect::<Result<_, _>>()?,
        structured_content: value(output.structured_content)?,
        meta: value(output.meta)?,
        extra: value(output.extra)?,
    })
}

pub(crate) fn content_to_host(content: Content) -> wit::Content {
    let Content { block, annotations, meta, extra } = content;
    wit::Content {
        block: block_to_host(block),
        annotations: text(annotations),
        meta: text(meta),
        extra: text(extra),
    }
}

pub(crate) fn content_from_host(content: wit::Content) -> Result<Content, Error> {
    Ok(Content {
        block: block_from_host(content.block)?,
        annotations: value(content.annotations)?,
        meta: value(content.meta)?,
        extra: value(content.extra)?,
    })
}

fn block_to_host(block: Block) -> wit::ContentBlock {
    match block {
        Block::Text(text) => wit::ContentBlock::Text(text),
        Block::Image(image) => wit::ContentBlock::Image(media_to_host(image)),
        Block::Audio(audio) => wit::ContentBlock::Audio(media_to_host(audio)),
        Block::Link(link) => {
            let Link { uri, name, title, description, mime_type, size } = link;
            let link = wit::ResourceLink { uri, name, title, description, mime_type, size };
            wit::ContentBlock::ResourceLink(link)
        }
        Block::Embedded(Embedded { uri, mime_type, contents, meta, extra }) => {
            let contents = match contents {
                Contents::Text(text) => wit::ResourceContents::Text(text),
                Contents::Blob(blob) => wit::ResourceContents::Blob(blob),
            };
            let meta = text(meta);
            let extra = text(extra);
            let resource = wit::EmbeddedResource { uri, mime_type, contents, meta, extra };
            wit::ContentBlock::EmbeddedResource(resource)
        }
        Block::Other(block) => wit::ContentBlock::Other(block.to_string()),
    }
}

fn media_to_host(media: Media) -> wit::Media {
    wit::Media { data: media.data, mime_type: media.mime_type }
}

fn block_from_host(block: wit::ContentBlock) -> Result<Block, Error> {
    Ok(match block {
        wit::ContentBlock::Text(text) => Block::Text(text),
        wit::ContentBlock::Image(image) => Block::Image(media_from_host(image)),
        wit::ContentBlock::Audio(audio) => Block::Audio(media_from_host(audio)),
        wit::ContentBlock::ResourceLink(link) => {
            let wit::ResourceLink { uri, name, title, description, mime_type, size } = link;
            Block::Link(Link { uri, name, title, description, mime_type, size })
        }
        wit::ContentBlock::EmbeddedResource(resource) => {
            let wit::EmbeddedResource { uri, mime_type, contents, meta, extra } = resource;
            let contents = match contents {
                wit::ResourceContents::Text(text) => Contents::Text(text),
                wit::ResourceContents::Blob(blob) => Contents::Blob(blob),
            };
            let meta = value(meta)?;
            let extra = value(extra)?;
            Block::Embedded(Embedded { uri, mime_type, contents, meta, extra })
        }
        wit::ContentBlock::Other(block) => Block::Other(json(&block)?),
    })
}

fn media_from_host(media: wit::Media) -> Media {
    Media { data: media.data, mime_type: media.mime_type }
}

pub(crate) fn error_to_host(error: Error) -> wit::ToolError {
    let Parts { kind, code, message, retry_after, content, details, meta, extra } =
        error.into_parts();
    wit::ToolError {
        kind: kind.into(),
        code,
        message,
        retry_after_ms: retry_after.map(milliseconds),
        content: content.into_iter().map(content_to_host).collect(),
        details: text(details),
        meta: text(meta),
        extra: text(extra),
    }
}

/// Converts the error of a nested call. Members that are not JSON are dropped, so that the error
/// itself is always reported.
pub(crate) fn error_from_host(error: wit::ToolError) -> Error {
    Error::from(Parts {
        kind: error.kind.into(),
        code: error.code,
        message: error.message,
        retry_after: error.retry_after_ms.map(Duration::from_millis),
        content: error
            .content
            .into_iter()
            .filter_map(|part| content_from_host(part).ok())
            .collect(),
        details: value(error.details).unwrap_or_default(),
        meta: value(error.meta).unwrap_or_default(),
        extra: value(error.extra).unwrap_or_default(),
    })
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn text(value: Option<Value>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn value(text: Option<String>) -> Result<Option<Value>, Error> {
    text.map(|text| json(&text)).transpose()
}

fn json(text: &str) -> Result<Value, Error> {
    serde_json::from_str(text)
        .map_err(|error| Error::internal(format!("the host sent invalid JSON: {error}")))
}

same_variants!(ErrorKind = wit::ErrorKind {
    InvalidInput NotFound Conflict Denied AuthRequired RateLimited LimitReached
    Unavailable Unsupported Timeout Cancelled TooLarge Internal Other
});

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns parts of every kind with every member set.
    fn parts() -> Vec<Content> {
        let link = Link::new("x:y", "z")
            .with_title("The Z")
            .with_description("for reading")
            .with_mime_type("text/plain")
            .with_size(u64::MAX);
        let embedded = Embedded::text("x:t", "text")
            .with_mime_type("text/markdown")
            .with_meta(json!({ "vendor/of": "resource" }))
            .with_extra(json!({ "lastModified": "2026-11-22" }));
        let full = Content::from(embedded)
            .with_annotations(json!({ "audience": ["user"], "priority": 0.5 }))
            .with_meta(json!({ "vendor/of": "part" }))
            .with_extra(json!({ "icons": [] }));
        vec![
            Content::text("text"),
            Content::image([1], "image/png"),
            Content::audio([2], "audio/wav"),
            Content::from(link),
            full,
            Content::from(Embedded::blob("x:b", [0, 255])),
            Content::other(json!({ "type": "tool_use", "id": 1 })),
        ]
    }

    #[test]
    fn an_output_is_unchanged_after_a_round_trip() {
        let output = Output::json(&json!({ "a": [1, null] }))
            .unwrap()
            .with_parts(parts())
            .with_meta(json!({ "vendor/key": true }))
            .with_extra(json!({ "ttl": 7 }));
        assert_eq!(output_from_host(output_to_host(output.clone())), Ok(output));
    }

    #[test]
    fn an_error_of_every_kind_is_unchanged_after_a_round_trip() {
        for kind in [
            ErrorKind::InvalidInput,
            ErrorKind::NotFound,
            ErrorKind::Conflict,
            ErrorKind::Denied,
            ErrorKind::AuthRequired,
            ErrorKind::RateLimited,
            ErrorKind::LimitReached,
            ErrorKind::Unavailable,
            ErrorKind::Unsupported,
            ErrorKind::Timeout,
            ErrorKind::Cancelled,
            ErrorKind::TooLarge,
            ErrorKind::Internal,
            ErrorKind::Other,
        ] {
            let error = Error::new(kind, "slowly")
                .with_code("quota")
                .with_retry_after(Duration::from_millis(1500))
                .with_parts(parts())
                .with_details(json!({ "left": 0 }))
                .with_meta(json!({ "vendor/key": true }))
                .with_extra(json!({ "ttl": 7 }));
            assert_eq!(error_from_host(error_to_host(error.clone())), error);
        }
    }

    #[test]
    fn a_descriptor_is_unchanged_after_a_round_trip() {
        let schema = Schema::try_from(json!({ "type": "object" })).unwrap();
        let descriptor = Descriptor {
            title: Some("Title".to_owned()),
            output_schema: Some(schema.clone()),
            annotations: Annotations {
                read_only: Some(true),
                extra: Some(json!({ "audience": "staff" })),
                ..Annotations::default()
            },
            meta: Some(json!({ "vendor/key": true })),
            extra: Some(json!({ "icons": [] })),
            ..Descriptor::new("name", "Description.", schema)
        };
        assert_eq!(descriptor_from_host(descriptor_to_host(descriptor.clone())), Ok(descriptor));
    }

    #[test]
    fn an_error_with_members_that_are_not_json_is_still_reported() {
        let mut error = error_to_host(Error::not_found("gone").with_code("gone"));
        error.details = Some("{".to_owned());
        error.meta = Some("}".to_owned());
        error.extra = Some("}".to_owned());
        error.content = vec![wit::Content {
            block: wit::ContentBlock::Other("[".to_owned()),
            annotations: None,
            meta: None,
            extra: None,
        }];
        assert_eq!(error_from_host(error), Error::not_found("gone").with_code("gone"));
    }
}
