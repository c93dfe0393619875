//! The result of a tool call, as in MCP, and its text for a model.

use serde::Serialize;
use serde_json::{Map, Value};

use super::{Content, Members};
use airlock_json as json;

/// Text in place of a result without text.
pub(super) const NOTHING: &str = "The tool ran and returned nothing.";

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
    pub meta: Option<Map<String, Value>>,
    /// Other members of the result; none that has a field of its own.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub extra: Members,
}

impl ToolOutput {
    /// Creates a result of one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Renders the result for a program: texts unchanged, other content as a short note. Structured
    /// data is rendered, as JSON, only if there is no other text. Binary data is left out. The text is
    /// never blank. For a model, see [`ToolOutput::into_readable`].
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        for part in &self.content {
            if !out.is_empty() {
                out.push('\n');
            }
            part.render(&mut out);
        }
        match &self.structured {
            Some(value) if out.trim().is_empty() => value.to_string(),
            _ if out.trim().is_empty() => NOTHING.to_owned(),
            _ => out,
        }
    }

    /// Returns whether the result has anything but texts.
    pub fn has_more_than_text(&self) -> bool {
        let Self { content, structured, meta, extra } = self;
        structured.is_some()
            || meta.is_some()
            || extra.is_some()
            || content.iter().any(|part| part.as_text().is_none())
    }

    /// Returns the length of the texts of the result in bytes, or of its structured data if it has no texts.
    pub(crate) fn text_bytes(&self) -> usize {
        let texts: usize = self.content.iter().filter_map(Content::as_text).map(str::len).sum();
        match &self.structured {
            Some(structured) if texts == 0 => json::text_len(structured),
            _ => texts,
        }
    }

    /// Returns the approximate size of the result in bytes, for the limits on results.
    pub fn size(&self) -> usize {
        let structured = self.structured.as_ref().map_or(0, json::text_len);
        let meta = self.meta.as_ref().map_or(0, json::text_len);
        content_size(&self.content) + structured + meta + extra_size(&self.extra)
    }
}

/// Members of MCP's `CallToolResult` that a result has fields for, or that its kind states.
const FIELDS: [&str; 5] = ["content", "structuredContent", "isError", "_meta", "resultType"];

/// Returns the members that have no field of their own; `None` if there are none. A member with a
/// field would be there twice.
pub fn result_extra(mut members: Map<String, Value>) -> Members {
    members.retain(|name, _| !FIELDS.contains(&name.as_str()));
    (!members.is_empty()).then(|| Box::new(members))
}

pub(super) fn extra_size(extra: &Members) -> usize {
    extra.as_ref().map_or(0, json::text_len)
}

/// Returns the approximate size of parts in bytes. Each part after the first adds its frame.
pub fn content_size(content: &[Content]) -> usize {
    let frames = Content::FRAME * content.len().saturating_sub(1);
    frames + content.iter().map(Content::size).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::{ContentBlock, ResourceLink};

    #[test]
    fn texts_are_rendered_unchanged_and_other_content_as_notes() {
        let output = ToolOutput {
            content: vec![
                Content::text("a"),
                ContentBlock::Image { data: "AAAA".into(), mime_type: "image/png".into() }.into(),
                ContentBlock::ResourceLink(Box::new(ResourceLink {
                    uri: "file:///x".into(),
                    name: "x".into(),
                    ..ResourceLink::default()
                }))
                .into(),
            ],
            ..ToolOutput::default()
        };
        assert_eq!(output.to_text(), "a\n[Image: image/png]\n[Resource link: x file:///x]");
    }

    #[test]
    fn structured_data_is_rendered_if_there_is_no_content() {
        let output = ToolOutput { structured: Some(json!({"n": 1})), ..ToolOutput::default() };
        assert_eq!(output.to_text(), r#"{"n":1}"#);
        assert_eq!(ToolOutput::default().to_text(), NOTHING);
        assert_eq!(ToolOutput::text(" \n").to_text(), NOTHING);
    }
}
