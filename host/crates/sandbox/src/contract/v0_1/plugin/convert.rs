//! Conversion of what guests return to the catalog's types, and of definitions. Values from a guest are
//! checked here.

mod content;
mod definition;
mod error;
mod json;

use airlock_core::tool::{ToolOutput, result_extra};
use airlock_json::{Caps, check};

pub(super) use self::{
    content::{content_from_guest, content_json_bytes},
    definition::{definition_from_guest, descriptor_for_guest, schema_bytes},
    error::{error_bytes, error_from_guest, error_tree_bytes},
};
use self::{
    content::{content_json, contents_from_guest, least_size},
    json::{NotJson, lengths, optional_object, parse},
};
use crate::contract::v0_1::bindings::types as wit;

/// Returns the least number of bytes that a result takes. It is known before the result is
/// converted, and includes all JSON in it: a parsed document takes many times the memory of its
/// text.
pub(super) fn least_bytes(output: &wit::ToolOutput) -> usize {
    least_size(&output.content) + lengths([&output.structured_content, &output.meta, &output.extra])
}

/// Returns the most memory that the JSON in a result takes as trees, in bytes. Text that is not JSON,
/// which conversion refuses, takes none.
pub(super) fn tree_bytes(output: &wit::ToolOutput) -> usize {
    let members = [&output.structured_content, &output.meta, &output.extra].into_iter().flatten();
    trees_bytes(output.content.iter().flat_map(content_json).chain(members))
}

/// Returns the most memory that JSON texts take as trees, in bytes.
fn trees_bytes<'t>(texts: impl Iterator<Item = &'t String>) -> usize {
    let costs = texts.filter_map(|text| check(text.as_bytes(), &Caps::memory(usize::MAX)).ok());
    costs.map(|cost| cost.tree_bytes).fold(0, usize::saturating_add)
}

pub(super) fn output_from_guest(output: wit::ToolOutput) -> Result<ToolOutput, NotJson> {
    let structured = output.structured_content;
    Ok(ToolOutput {
        content: contents_from_guest(output.content)?,
        structured: structured.map(|text| parse("structured-content", &text)).transpose()?,
        meta: optional_object("meta", output.meta.as_ref())?,
        extra: optional_object("extra", output.extra.as_ref())?.and_then(result_extra),
    })
}

#[cfg(test)]
mod tests {
    use airlock_core::{
        secret::Scrubber,
        tool::{CallError, Content, ErrorKind, ToolError},
    };
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::contract::v0_1::convert::{content_for_guest, error_for_guest, output_for_guest};

    fn object(text: &str) -> Option<Map<String, Value>> {
        json!({"k": [text, null, 1.5]}).as_object().cloned()
    }

    /// Returns one block of every kind, as a server sends it.
    fn blocks() -> Vec<Content> {
        let common = json!({"audience": ["user"], "priority": 0.5});
        [
            json!({"type": "text", "text": "ä", "annotations": common, "_meta": {"k": 1}}),
            json!({"type": "image", "data": "AAE=", "mimeType": "image/png", "annotations": common}),
            json!({"type": "audio", "data": "AA==", "mimeType": "audio/wav", "_meta": {"k": {}}}),
            json!({"type": "resource_link", "uri": "file:///x", "name": "x", "title": "X",
                   "description": "d", "mimeType": "text/plain", "size": 7, "icons": [{"src": "i"}]}),
            json!({"type": "resource", "resource": {"uri": "file:///y", "mimeType": "text/plain",
                   "text": "y", "_meta": {"k": 1}, "etag": "e"}, "annotations": common}),
            json!({"type": "resource", "resource": {"uri": "file:///z", "blob": "AA=="}}),
            json!({"type": "chart", "points": [1, 2], "annotations": common, "_meta": {"k": 1}}),
        ]
        .map(Content::from_mcp)
        .into()
    }

    #[test]
    fn a_result_is_unchanged_after_a_round_trip() {
        let output = ToolOutput {
            content: blocks(),
            structured: Some(json!({"a": [1, null]})),
            meta: object("vendor"),
            extra: object("other").map(Box::new),
        };
        let back = output_from_guest(output_for_guest(output.clone())).expect("a result");
        assert_eq!(back, output);
    }

    #[test]
    fn an_error_is_unchanged_after_a_round_trip() {
        let error = ToolError {
            kind: ErrorKind::Conflict,
            code: Some("changed".to_owned()),
            message: "read it again".to_owned(),
            retry_after_ms: Some(1_500),
            content: blocks(),
            details: Some(json!([1])),
            meta: object("vendor"),
            extra: object("other").map(Box::new),
        };
        let guest = error_for_guest(error.clone().into());
        assert_eq!(error_from_guest(guest, &Scrubber::default(), 1 << 20), error);
    }

    #[test]
    fn only_an_error_of_the_host_has_a_code_with_its_prefix() {
        let busy = error_for_guest(CallError::busy());
        assert_eq!(busy.code.as_deref(), Some("airlock.busy"));
        let made = ToolError::new(ErrorKind::Denied, "made in the place of a tool's")
            .with_code("airlock.approval_denied");
        let made = error_for_guest(made.into());
        assert_eq!(made.code.as_deref(), Some("airlock.approval_denied"));
        // Returned from a tool that it called.
        for own in ["busy", "airlock.busy", "airlock.airlock.busy"] {
            assert_eq!(returned_code(&made, own).as_deref(), Some("busy"), "{own}");
        }
        assert_eq!(returned_code(&made, "airlock."), None);
    }

    fn returned_code(made: &wit::ToolError, code: &str) -> Option<String> {
        let error = wit::ToolError { code: Some(code.to_owned()), ..made.clone() };
        error_from_guest(error, &Scrubber::default(), 1 << 20).code
    }

    #[test]
    fn members_with_a_field_of_their_own_are_no_other_members() {
        let result = wit::ToolOutput {
            content: Vec::new(),
            structured_content: None,
            meta: None,
            extra: Some(r#"{"isError":true,"content":[],"resultType":"task","a":1}"#.to_owned()),
        };
        let output = output_from_guest(result).expect("a result");
        assert_eq!(output.extra.as_deref(), json!({"a": 1}).as_object());
    }

    #[test]
    fn a_block_with_data_that_is_not_base64_reaches_a_guest_as_it_is_and_comes_back() {
        for (block, data) in [
            (json!({"type": "image", "data": "AAE", "mimeType": "a/b"}), Some(&[0_u8, 1][..])),
            (json!({"type": "image", "data": "%", "mimeType": "a/b", "_meta": {"k": 1}}), None),
            (json!({"type": "audio", "data": "%", "mimeType": "a/b", "x": 1}), None),
            (json!({"type": "resource", "resource": {"uri": "x", "blob": "%"}}), None),
        ] {
            let part = Content::from_mcp(block.clone());
            let guest = content_for_guest(part.clone());
            match (&guest.block, data) {
                (wit::ContentBlock::Image(media), Some(data)) => assert_eq!(media.data, data),
                (wit::ContentBlock::Other(_), None) => {
                    assert_eq!(content_from_guest(guest).expect("a part"), part, "{block}");
                }
                (other, _) => panic!("{block}: {other:?}"),
            }
        }
    }

    #[test]
    fn data_that_json_would_escape_is_left_out() {
        let block = json!({"type": "image", "data": "\u{1}".repeat(2_000), "mimeType": "a/b"});
        let guest = content_for_guest(Content::from_mcp(block));
        assert!(matches!(guest.block, wit::ContentBlock::Text(text) if text.contains("left out")));
    }

    #[test]
    fn content_of_an_error_is_replaced_if_it_is_malformed_or_too_large() {
        assert_eq!(text_of_error(&"x".repeat(10), None), "x".repeat(10));
        assert_eq!(text_of_error("x", Some("{}")), "x");
        for (text, annotations) in [
            ("xxxxxxxxxxx", None),
            ("x", Some("[]")),
            ("x", Some("{")),
            ("", Some(r#"{"abcde":1}"#)),
        ] {
            assert!(
                text_of_error(text, annotations)
                    .starts_with("[The content of this error is left out")
            );
        }
    }

    fn text_of_error(text: &str, annotations: Option<&str>) -> String {
        let error = ToolError {
            content: vec![Content::text(text)],
            ..ToolError::new(ErrorKind::Other, "m")
        };
        let mut error = error_for_guest(error.into());
        error.content[0].annotations = annotations.map(str::to_owned);
        let error = error_from_guest(error, &Scrubber::default(), 10);
        assert_eq!(error.message, "m");
        error.content[0].as_text().expect("a text").to_owned()
    }

    #[test]
    fn json_in_a_result_is_counted_and_must_be_of_its_kind() {
        let whole = output_of(wit::Content { extra: Some("{\"a\":1}".to_owned()), ..text_part() });
        assert_eq!(least_bytes(&whole), "1{}{\"a\":1}".len());
        for (content, expected) in [
            (
                wit::Content { meta: Some("[]".to_owned()), ..text_part() },
                "meta is not a JSON object",
            ),
            (wit::Content { extra: Some("{".to_owned()), ..text_part() }, "extra is not JSON"),
            (
                part(wit::ContentBlock::Other("{\"typ\":\"x\"}".to_owned())),
                "other is not a content block with a type",
            ),
        ] {
            let error = output_from_guest(output_of(content)).expect_err("malformed");
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn every_json_in_a_result_counts_as_the_tree_that_it_becomes() {
        let json = format!("[{}0]", "[0],".repeat(1_000));
        let resource = wit::EmbeddedResource {
            uri: String::new(),
            mime_type: None,
            contents: wit::ResourceContents::Text(String::new()),
            meta: Some(json.clone()),
            extra: Some(json.clone()),
        };
        let of_resource = wit::Content {
            annotations: Some(json.clone()),
            meta: Some(json.clone()),
            extra: Some(json.clone()),
            ..part(wit::ContentBlock::EmbeddedResource(resource))
        };
        let other = part(wit::ContentBlock::Other(json.clone()));
        let output = wit::ToolOutput {
            content: vec![of_resource, other],
            structured_content: Some(json.clone()),
            meta: Some(json.clone()),
            extra: Some(json.clone()),
        };
        let one = check(json.as_bytes(), &Caps::memory(usize::MAX)).expect("JSON").tree_bytes;
        assert_eq!(tree_bytes(&output), 9 * one);
        assert!(one > 20 * json.len(), "{one}");
        let malformed = wit::Content { extra: Some("[".to_owned()), ..text_part() };
        let none = wit::ToolOutput {
            content: vec![malformed],
            structured_content: None,
            meta: None,
            extra: None,
        };
        assert_eq!(tree_bytes(&none), 0);
    }

    fn text_part() -> wit::Content {
        part(wit::ContentBlock::Text("t".to_owned()))
    }

    fn part(block: wit::ContentBlock) -> wit::Content {
        wit::Content { block, annotations: None, meta: None, extra: None }
    }

    fn output_of(content: wit::Content) -> wit::ToolOutput {
        wit::ToolOutput {
            content: vec![content],
            structured_content: Some("1".to_owned()),
            meta: Some("{}".to_owned()),
            extra: None,
        }
    }
}
