use serde_json::json;

use super::*;

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const EPHEMERAL: &str = r#"{"type":"ephemeral","ttl":"1h"}"#;

fn translate(part: &Value, place: ContentPlace) -> Result<Vec<Value>, Unsupported> {
    blocks(Some(json!([part])), place)
}

fn cache_control() -> Value {
    serde_json::from_str(EPHEMERAL).expect("JSON")
}

#[test]
fn each_part_becomes_its_block() {
    for (part, block) in [
        (json!({"type": "text", "text": "hi"}), json!({"type": "text", "text": "hi"})),
        (
            json!({"type": "image_url", "image_url": {"url": PNG, "detail": "high"}}),
            json!({"type": "image", "source": {
                "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="
            }}),
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "DATA:IMAGE/JPEG;charset=x;BASE64,/9j/"}}),
            json!({"type": "image", "source": {
                "type": "base64", "media_type": "image/jpeg", "data": "/9j/"
            }}),
        ),
        (
            json!({"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}),
            json!({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}),
        ),
        (
            json!({"type": "file", "file": {
                "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0x"
            }}),
            json!({"type": "document", "title": "a.pdf", "source": {
                "type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"
            }}),
        ),
        (
            json!({"type": "file", "file": {"file_data": "JVBERi0x", "file_id": null}}),
            json!({"type": "document", "source": {
                "type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"
            }}),
        ),
        (
            json!({"type": "file", "file": {"file_id": "file_1"}}),
            json!({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        ),
        (
            json!({"type": "search_result", "source": "s", "title": "t", "content": []}),
            json!({"type": "search_result", "source": "s", "title": "t", "content": []}),
        ),
    ] {
        for place in [ContentPlace::User, ContentPlace::ToolResult] {
            let plain = translate(&part, place).expect("a good part");
            assert_eq!(plain, std::slice::from_ref(&block), "{part}");
            let mut marked_part = part.clone();
            let mut marked_block = block.clone();
            marked_part["cache_control"] = cache_control();
            marked_block["cache_control"] = cache_control();
            assert_eq!(translate(&marked_part, place).expect("a good part"), [marked_block]);
        }
    }
}

#[test]
fn a_part_that_cannot_be_expressed_is_refused_by_name() {
    for (part, param, problem) in [
        (json!("text"), "content[0]", "must be an object"),
        (json!({"type": "text"}), "content[0].text", "must be a string"),
        (
            json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}),
            "content[0].type",
            "must be \"text\", \"image_url\" or \"file\" for Anthropic's models",
        ),
        (
            json!({"type": "refusal", "refusal": "no"}),
            "content[0].type",
            "must be \"text\", \"image_url\" or \"file\" for Anthropic's models",
        ),
        (json!({"type": "image_url"}), "content[0].image_url.url", "must be a string"),
        (
            image("file:///etc/passwd"),
            "content[0].image_url.url",
            "must be a data:, http:// or https:// URL, not \"file:///etc/passwd\"",
        ),
        (
            image("data:image/svg+xml;base64,PHN2Zz4="),
            "content[0].image_url.url",
            "must be one of image/jpeg, image/png, image/gif, image/webp, not \"image/svg+xml\"",
        ),
        (
            image("data:image/png,raw"),
            "content[0].image_url.url",
            "must be of the form data:TYPE;base64,DATA",
        ),
        (image("data:"), "content[0].image_url.url", "must be of the form data:TYPE;base64,DATA"),
        (file(&json!("x")), "content[0].file", "must be an object"),
        (
            file(&json!({"filename": "a.pdf"})),
            "content[0].file",
            "must have one of `file_data` and `file_id`, as a string",
        ),
        (
            file(&json!({"file_data": "JVBERi0x", "file_id": "file_1"})),
            "content[0].file",
            "must have one of `file_data` and `file_id`, as a string",
        ),
        (
            file(&json!({"file_data": "data:text/plain;base64,aGk="})),
            "content[0].file.file_data",
            "must be of type application/pdf, not \"text/plain\"",
        ),
        (
            file(&json!({"file_data": "aGk="})),
            "content[0].file.file_data",
            "must be a data: URL or the base64 text of a PDF file",
        ),
    ] {
        let expected = Unsupported::new(param, problem);
        assert_eq!(translate(&part, ContentPlace::User), Err(expected), "{part}");
    }
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url}})
}

fn file(file: &Value) -> Value {
    json!({"type": "file", "file": file})
}

#[test]
fn only_users_and_tools_can_send_media_and_only_the_model_refuses() {
    for part in [
        json!({"type": "image_url", "image_url": {"url": PNG}}),
        json!({"type": "file", "file": {"file_id": "file_1"}}),
        json!({"type": "search_result"}),
    ] {
        for place in [ContentPlace::System, ContentPlace::Assistant] {
            assert!(translate(&part, place).is_err(), "{part} {place:?}");
        }
    }
    let refusal = json!({"type": "refusal", "refusal": "No."});
    assert_eq!(
        translate(&refusal, ContentPlace::Assistant).expect("a good part"),
        [json!({"type": "text", "text": "No."})]
    );
    for place in [ContentPlace::System, ContentPlace::User, ContentPlace::ToolResult] {
        assert!(translate(&refusal, place).is_err(), "{place:?}");
    }
}

#[test]
fn content_is_text_or_parts_and_empty_text_leaves_no_block() {
    assert_eq!(
        blocks(Some(json!("hi")), ContentPlace::User).expect("text"),
        [json!({"type": "text", "text": "hi"})]
    );
    for empty in [
        json!(null),
        json!(""),
        json!([]),
        json!([{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]),
    ] {
        assert!(blocks(Some(empty), ContentPlace::User).expect("nothing").is_empty());
    }
    assert!(blocks(None, ContentPlace::User).expect("nothing").is_empty());
    let problem = "must be a string or a list of content parts";
    assert_eq!(
        blocks(Some(json!(1)), ContentPlace::User),
        Err(Unsupported::new("content", problem))
    );
}

#[test]
fn the_mark_of_a_message_goes_to_its_last_block_that_can_have_one() {
    let mut blocks = [
        json!({"type": "text", "text": "a"}),
        json!({"type": "text", "text": "b"}),
        json!({"type": "thinking"}),
        json!({"type": "redacted_thinking"}),
    ];
    mark_last(&mut blocks, None);
    assert!(blocks.iter().all(|block| block.get(CACHE_CONTROL).is_none()));
    mark_last(&mut blocks, Some(cache_control()));
    mark_last(&mut blocks, Some(json!("later")));
    let marks: Vec<_> = blocks.iter().map(|block| block.get(CACHE_CONTROL).cloned()).collect();
    assert_eq!(marks, [None, Some(cache_control()), None, None]);
    mark_last(&mut [], Some(cache_control()));
}
