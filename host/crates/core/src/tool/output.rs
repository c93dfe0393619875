//! The result of a tool call, as in MCP, and its text for a model.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// Result of a tool call.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// Parts in reading order.
    pub content: Vec<Content>,
    /// The result as data.
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Vendor keys.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// One part of a result: a content block of MCP.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    #[serde(rename_all = "camelCase")]
    Image {
        /// Base64.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// A sound.
    #[serde(rename_all = "camelCase")]
    Audio {
        /// Base64.
        data: String,
        /// Media type.
        mime_type: String,
    },
    /// A link to a resource that the caller may fetch.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// URI of the resource.
        uri: String,
        /// Name of the resource.
        name: String,
        /// Media type.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A resource that is part of the result.
    Resource {
        /// The resource.
        resource: Resource,
    },
}

/// An embedded resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// URI of the resource.
    pub uri: String,
    /// Media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The resource, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The resource in base64, if it is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl ToolOutput {
    /// Creates a result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text { text: text.into() }], ..Self::default() }
    }

    /// Renders the result for a model: texts unchanged, other content as a short note. Structured
    /// data is rendered only if there is no content. Binary data is left out, because a model
    /// cannot read it as text.
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for part in &self.content {
            if !out.is_empty() {
                out.push('\n');
            }
            part.render(&mut out);
        }
        if self.content.is_empty() {
            match &self.structured {
                Some(value) => out = value.to_string(),
                None => out.push_str("The tool ran and returned nothing."),
            }
        }
        out
    }

    /// Returns the approximate size of the result in bytes, for the limits on results. Each part
    /// after the first adds 32 bytes for its frame, so that a million empty parts are not free.
    pub fn size(&self) -> usize {
        const FRAME: usize = 32;
        let frames = FRAME * self.content.len().saturating_sub(1);
        let parts: usize = self.content.iter().map(Content::size).sum();
        let data = [&self.structured, &self.meta]
            .into_iter()
            .flatten()
            .map(|value| value.to_string().len());
        frames + parts + data.sum::<usize>()
    }
}

impl Content {
    fn render(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Text { text } => write!(out, "{text}"),
            Self::Image { mime_type, .. } => write!(out, "[Image: {mime_type}]"),
            Self::Audio { mime_type, .. } => write!(out, "[Audio: {mime_type}]"),
            Self::ResourceLink { uri, name, .. } => write!(out, "[Resource link: {name} {uri}]"),
            Self::Resource { resource } => match &resource.text {
                Some(text) => write!(out, "{text}"),
                None => write!(
                    out,
                    "[Resource: {}]",
                    resource.mime_type.as_deref().unwrap_or("application/octet-stream")
                ),
            },
        };
    }

    /// Returns the approximate size of the part in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::Text { text } => text.len(),
            Self::Image { data, mime_type } | Self::Audio { data, mime_type } => {
                data.len() + mime_type.len()
            }
            Self::ResourceLink { uri, name, mime_type } => {
                uri.len() + name.len() + mime_type.as_ref().map_or(0, String::len)
            }
            Self::Resource { resource } => {
                let optional = [&resource.mime_type, &resource.text, &resource.blob];
                resource.uri.len() + optional.into_iter().flatten().map(String::len).sum::<usize>()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_rendered_unchanged_and_other_content_as_notes() {
        let output = ToolOutput {
            content: vec![
                Content::Text { text: "a".into() },
                Content::Image { data: "AAAA".into(), mime_type: "image/png".into() },
                Content::ResourceLink {
                    uri: "file:///x".into(),
                    name: "x".into(),
                    mime_type: None,
                },
            ],
            ..ToolOutput::default()
        };
        assert_eq!(output.to_text(), "a\n[Image: image/png]\n[Resource link: x file:///x]");
    }

    #[test]
    fn structured_data_is_rendered_if_there_is_no_content() {
        let output = ToolOutput { structured: Some(json!({"n": 1})), ..ToolOutput::default() };
        assert_eq!(output.to_text(), r#"{"n":1}"#);
        assert_eq!(ToolOutput::default().to_text(), "The tool ran and returned nothing.");
    }
}
