//! Reads the content blocks of a result.

use serde_json::Value;

use crate::tool::{Content, Resource};

/// Reads the member `content` of a result. Malformed content becomes text, so that no part of the
/// result is lost.
pub(super) fn read(content: Option<Value>) -> Vec<Content> {
    match content {
        Some(Value::Array(blocks)) => blocks.into_iter().map(block).collect(),
        Some(Value::String(text)) => vec![Content::Text { text }],
        None | Some(Value::Null) => Vec::new(),
        Some(other) => vec![block(other)],
    }
}

/// Reads one content block. An unknown block becomes text, so that no part of the result is lost.
/// Annotations are left out.
fn block(block: Value) -> Content {
    let known = match block.get("type").and_then(Value::as_str) {
        Some("text") => text_of(&block, "text").map(|text| Content::Text { text }),
        Some("image") => text_of(&block, "data")
            .map(|data| Content::Image { data, mime_type: mime_type_or_bytes(&block) }),
        Some("audio") => text_of(&block, "data")
            .map(|data| Content::Audio { data, mime_type: mime_type_or_bytes(&block) }),
        Some("resource_link") => text_of(&block, "uri").map(|uri| {
            let name = text_of(&block, "name").unwrap_or_else(|| uri.clone());
            Content::ResourceLink { uri, name, mime_type: text_of(&block, "mimeType") }
        }),
        Some("resource") => block.get("resource").and_then(resource),
        _ => None,
    };
    known.unwrap_or_else(|| match block {
        Value::String(text) => Content::Text { text },
        other => {
            Content::Text { text: text_of(&other, "text").unwrap_or_else(|| other.to_string()) }
        }
    })
}

fn resource(resource: &Value) -> Option<Content> {
    let resource = Resource {
        uri: text_of(resource, "uri")?,
        mime_type: text_of(resource, "mimeType"),
        text: text_of(resource, "text"),
        blob: text_of(resource, "blob"),
    };
    Some(Content::Resource { resource })
}

fn text_of(object: &Value, key: &str) -> Option<String> {
    object.get(key)?.as_str().map(str::to_owned)
}

fn mime_type_or_bytes(block: &Value) -> String {
    text_of(block, "mimeType").unwrap_or_else(|| "application/octet-stream".into())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::ToolOutput;

    #[test]
    fn every_kind_of_content_is_kept() {
        let content = json!([
            {"type": "text", "text": "a", "annotations": {"audience": ["system"]}},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "y", "mimeType": "text/plain"}},
        ]);
        insta::assert_snapshot!(serde_json::to_value(read(Some(content))).expect("JSON"), @r#"[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"resource","resource":{"uri":"file:///y","mimeType":"text/plain","text":"y"}}]"#);
    }

    #[test]
    fn malformed_content_is_repaired_or_becomes_text() {
        let text = |content| {
            ToolOutput { content: read(Some(content)), ..ToolOutput::default() }.to_text()
        };
        assert_eq!(text(json!("plain")), "plain");
        assert_eq!(text(json!([{"type": "sql", "text": "SELECT 1"}])), "SELECT 1");
        assert_eq!(
            text(json!([{"type": "chart", "points": [1, 2]}])),
            r#"{"type":"chart","points":[1,2]}"#
        );
        assert_eq!(
            text(json!([{"type": "image", "data": "AA=="}])),
            "[Image: application/octet-stream]"
        );
        assert_eq!(
            text(json!([{"type": "resource_link", "uri": "a:b"}])),
            "[Resource link: a:b a:b]"
        );
        assert_eq!(
            text(json!([{"type": "resource"}, "x", null])),
            "{\"type\":\"resource\"}\nx\nnull"
        );
        assert!(read(None).is_empty() && read(Some(Value::Null)).is_empty());
    }
}
