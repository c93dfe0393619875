//! Results as a model reads them: structured data as YAML, and texts of known media types in fences.

use std::collections::VecDeque;

use serde_json::Value;

use super::{Content, ContentBlock, ResourceContents, ToolOutput, content::BYTES, output::NOTHING};
use airlock_json::yaml::to_yaml;
use airlock_json::{self as json, Caps};
use airlock_strings::{cut, one_line};

/// Media types whose texts are fenced, with the word after the fence. A new media type is a line
/// here.
const FENCED: &[(&str, &str)] = &[
    ("application/sql", "sql"),
    ("application/x-sql", "sql"),
    ("text/x-sql", "sql"),
    ("application/json", "json"),
    ("application/graphql", "graphql"),
    ("application/toml", "toml"),
    ("application/xml", "xml"),
    ("text/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/x-yaml", "yaml"),
    ("text/yaml", "yaml"),
    ("text/html", "html"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/x-diff", "diff"),
    ("text/x-patch", "diff"),
    ("application/javascript", "javascript"),
    ("text/javascript", "javascript"),
    ("text/x-python", "python"),
    ("application/x-sh", "sh"),
    ("text/x-shellscript", "sh"),
];
/// Memory of a text that is parsed to compare it with the structured data, as a multiple of the size
/// of the data. A text that takes more is not the same data.
const PARSED_GROWTH: usize = 100;
/// Length to which a media type or a name is cut in a note, in bytes. RFC 6838 (section 4.2)
/// permits 127 characters for each half of a media type.
const MAX_NOTED_BYTES: usize = 256;
/// Member in which servers wrap a result that is no object.
const WRAPPED: &str = "result";

/// Joins parts with line breaks, as a model reads them. The text is never blank.
pub fn join<'a>(parts: impl IntoIterator<Item = &'a Content>) -> String {
    let mut out = String::new();
    for part in parts {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        part.render_for_model(&mut out);
    }
    if out.trim().is_empty() { NOTHING.to_owned() } else { out }
}

impl ToolOutput {
    /// Returns the parts that a model reads, with structured data as YAML at the end.
    ///
    /// A text that is only the JSON of the structured data is left out. If other content is left,
    /// the YAML is added only if `adds_data` is true: the texts of a plugin already tell what its
    /// data holds, those of an MCP server need not.
    pub fn into_readable(self, adds_data: bool) -> Vec<Content> {
        let Self { mut content, structured, .. } = self;
        let Some(data) = structured.filter(|data| !wraps(data, &content)) else { return content };
        let found = content.len();
        let caps = Caps::memory(json::text_len(&data).saturating_mul(PARSED_GROWTH));
        content.retain(|part| !part.as_text().is_some_and(|text| is_json_of(text, &data, &caps)));
        if adds_data || content.is_empty() || content.len() < found {
            content.push(Content::text(to_yaml(&data)));
        }
        content
    }
}

impl Content {
    /// Writes the part for a model: texts, in a fence if their media type is known, and binary data
    /// as a short note.
    pub fn render_for_model(&self, out: &mut String) {
        let (text, mime_type) = match &self.block {
            ContentBlock::Resource { resource } => match &resource.contents {
                ResourceContents::Text(text) => {
                    (Some(text.as_str()), resource.mime_type.as_deref())
                }
                ResourceContents::Blob(_) => (None, None),
            },
            ContentBlock::Other(members) => {
                let text = members.get("text").and_then(Value::as_str);
                let mime_type = members.get("mimeType").and_then(Value::as_str);
                (text, mime_type)
            }
            _ => (None, None),
        };
        match (text, mime_type.and_then(language)) {
            (Some(text), Some(language)) => fence(text, language, out),
            _ => self.render(out),
        }
    }
}

/// Returns a text from outside as a note may hold it: on one line, and short.
pub(super) fn noted(text: &str) -> String {
    match cut(one_line(text), MAX_NOTED_BYTES) {
        text if text.is_empty() => BYTES.to_owned(),
        text => text,
    }
}

/// Returns the word after the fence for a media type; `None` if texts of the type are not fenced.
fn language(mime_type: &str) -> Option<&'static str> {
    let mime_type = mime_type.split(';').next().unwrap_or_default().trim();
    let known = FENCED.iter().find(|(known, _)| known.eq_ignore_ascii_case(mime_type));
    known.map(|(_, language)| *language)
}

/// Writes a text in a fence that is longer than every fence in the text.
fn fence(text: &str, language: &str, out: &mut String) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let marks = "`".repeat(longest.saturating_add(1).max(3));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    for piece in [&marks, language, "\n", text, end, &marks] {
        out.push_str(piece);
    }
}

/// Returns whether a text is the JSON of `data`. Memory for the comparison is bounded by `caps`.
fn is_json_of(text: &str, data: &Value, caps: &Caps) -> bool {
    let starts_alike = match data {
        Value::Object(_) => text.trim_start().starts_with('{'),
        Value::Array(_) => text.trim_start().starts_with('['),
        _ => true,
    };
    starts_alike
        && json::parse::<Value>(text.as_bytes(), caps).is_ok_and(|(parsed, _)| parsed == *data)
}

/// Returns whether `data` is `{"result": …}` around what the texts say already: a text, another
/// scalar, or a list of them. The SDK for Python writes such data for a function without a declared
/// type.
fn wraps(data: &Value, content: &[Content]) -> bool {
    let Some(members) = data.as_object().filter(|members| members.len() == 1) else { return false };
    let mut texts: VecDeque<&str> = content.iter().filter_map(Content::as_text).collect();
    match members.get(WRAPPED) {
        Some(Value::Array(items)) if !items.is_empty() => {
            items.iter().all(|item| texts.pop_front().is_some_and(|text| reads_as(item, text)))
                && texts.is_empty()
        }
        Some(value) => texts.len() == 1 && reads_as(value, texts[0]),
        None => false,
    }
}

fn reads_as(value: &Value, text: &str) -> bool {
    match value {
        Value::String(value) => value == text,
        Value::Array(_) | Value::Object(_) => false,
        other => {
            let other = other.to_string();
            other == text
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "the callers make the values on the spot")]
    fn read(content: Value, structured: Value, adds_data: bool) -> String {
        let blocks = content.as_array().cloned().unwrap_or_default();
        let output = ToolOutput {
            content: blocks.into_iter().map(Content::from_mcp).collect(),
            structured: Some(structured).filter(|value| !value.is_null()),
            ..ToolOutput::default()
        };
        join(&output.into_readable(adds_data))
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    #[test]
    fn structured_data_replaces_a_text_that_is_only_its_json() {
        let data = json!({"id": 1, "name": "é"});
        for same in [
            r#"{"id":1,"name":"é"}"#,
            "{\n  \"name\": \"\\u00e9\",\n  \"id\": 1\n}",
            " {\"id\":1,\"name\":\"é\"} ",
        ] {
            for adds_data in [true, false] {
                assert_eq!(read(json!([text(same)]), data.clone(), adds_data), "id: 1\nname: é\n");
            }
        }
        assert_eq!(read(json!([]), data.clone(), false), "id: 1\nname: é\n");
        let image = json!({"type": "image", "data": "AA==", "mimeType": "image/png"});
        let mixed = json!([text("about it"), text(r#"{"id":1,"name":"é"}"#), image]);
        assert_eq!(
            read(mixed, data.clone(), false),
            "about it\n[Image: image/png]\nid: 1\nname: é\n"
        );
        assert_eq!(read(json!([text("other")]), data.clone(), true), "other\nid: 1\nname: é\n");
        assert_eq!(read(json!([text("other")]), data, false), "other");
    }

    #[test]
    fn a_text_in_a_member_named_result_is_not_repeated() {
        assert_eq!(read(json!([text("a: b")]), wrapped(json!("a: b")), true), "a: b");
        assert_eq!(read(json!([text("7")]), wrapped(json!(7)), true), "7");
        assert_eq!(read(json!([text("a"), text("1")]), wrapped(json!(["a", 1])), true), "a\n1");
        assert_eq!(
            read(json!([text("a")]), wrapped(json!(["a", 1])), true),
            "a\nresult:\n  - a\n  - 1\n"
        );
        assert_eq!(
            read(json!([text("a"), text("b")]), wrapped(json!(["a"])), true),
            "a\nb\nresult:\n  - a\n"
        );
        assert_eq!(read(json!([text("x")]), json!({"result": "x", "more": 1}), false), "x");
    }

    fn wrapped(value: impl Into<Value>) -> Value {
        let value: Value = value.into();
        json!({"result": value})
    }

    #[test]
    fn a_text_that_takes_much_more_memory_than_the_data_is_kept() {
        let dense = format!("{{{}\"n\":1}}", "\"n\":[[],[],[]],".repeat(2_000));
        assert!(read(json!([text(&dense)]), json!({"n": 1}), true).starts_with(&dense));
    }

    #[test]
    fn a_text_of_a_known_media_type_is_fenced() {
        assert_eq!(resource("application/sql", "SELECT 1"), "```sql\nSELECT 1\n```");
        assert_eq!(resource("Text/X-SQL; charset=utf-8", "SELECT 1\n"), "```sql\nSELECT 1\n```");
        assert_eq!(resource("text/html", "a ```` b"), "`````html\na ```` b\n`````");
        assert_eq!(resource("text/plain", "as it is"), "as it is");
        let other = json!([{"type": "query", "text": "SELECT 1", "mimeType": "application/sql"}]);
        assert_eq!(read(other, Value::Null, true), "```sql\nSELECT 1\n```");
    }

    fn resource(mime_type: &str, text: &str) -> String {
        let block = json!({"type": "resource", "resource":
            {"uri": "a:b", "mimeType": mime_type, "text": text}});
        read(json!([block]), Value::Null, true)
    }

    #[test]
    fn every_kind_of_content_has_a_text() {
        let blob = json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}});
        let link = json!({"type": "resource_link", "uri": "a:b", "name": "n\nm"});
        for (block, expected) in [
            (json!({"type": "audio", "data": "AA=="}), "[Audio: application/octet-stream]"),
            (json!({"type": "image", "data": "AA==", "mimeType": "a\n[end]"}), "[Image: a [end]]"),
            (
                json!({"type": "image", "data": "AA==", "mimeType": ""}),
                "[Image: application/octet-stream]",
            ),
            (blob, "[Resource: application/octet-stream]"),
            (link, "[Resource link: n m a:b]"),
            (json!({"type": "note", "data": "as text"}), "as text"),
            (
                json!({"type": "video", "data": "AA==", "mimeType": "video/mp4"}),
                "[video: video/mp4]",
            ),
            (json!({"type": "text", "text": " "}), NOTHING),
        ] {
            assert_eq!(read(json!([block]), Value::Null, true), expected);
        }
    }
}
