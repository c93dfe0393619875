//! What a tool answers, in MCP's terms, and the text that a model reads of it.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;

/// A tool's answer.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolOutput {
    /// Parts in reading order.
    pub content: Vec<Content>,
    /// The answer as data.
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<Value>,
    /// Vendor keys.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Value>,
}

/// One part of an answer: MCP's content blocks.
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
    /// Something that the caller may fetch.
    #[serde(rename_all = "camelCase")]
    ResourceLink {
        /// Where it is.
        uri: String,
        /// What to call it.
        name: String,
        /// Media type.
        #[serde(skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
    },
    /// A resource that comes with the answer.
    Resource {
        /// The resource.
        resource: Resource,
    },
}

/// An embedded resource.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resource {
    /// What it is called.
    pub uri: String,
    /// Media type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    /// The resource, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The resource in base64, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl ToolOutput {
    /// An answer of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text { text: text.into() }], ..Self::default() }
    }

    /// Renders the answer for a model: texts as they are, the rest as a short note; structured data
    /// where there is nothing else. Binary data is left out, a model cannot read it as text.
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
                None => out.push_str("The tool ran and had nothing to say."),
            }
        }
        out
    }

    /// Bytes that the answer takes, roughly: what bounds on results count. Each part after the
    /// first costs its frame, so that a million empty ones are not free.
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

    /// Bytes that the part takes, roughly.
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
    fn a_model_reads_texts_as_they_are_and_notes_for_the_rest() {
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
    fn structured_data_stands_in_where_there_is_no_content() {
        let output = ToolOutput { structured: Some(json!({"n": 1})), ..ToolOutput::default() };
        assert_eq!(output.to_text(), r#"{"n":1}"#);
        assert_eq!(ToolOutput::default().to_text(), "The tool ran and had nothing to say.");
    }
}
