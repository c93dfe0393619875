use serde_json::json;

use super::{super::tests, *};

const PNG: &str = "data:image/png;base64,iVBORw0KGgo=";
const EPHEMERAL: &str = r#"{"type":"ephemeral","ttl":"1h"}"#;

/// Returns the blocks of content of chat.
fn blocks(content: &Value, place: ContentPlace) -> Result<Value> {
    let (role, result) = match place {
        ContentPlace::System => ("system", "/system"),
        ContentPlace::User => ("user", "/messages/0/content"),
        ContentPlace::Assistant => ("assistant", "/messages/0/content"),
        ContentPlace::ToolResult => ("tool", "/messages/0/content/0/content"),
    };
    let message = json!({"role": role, "content": content, "tool_call_id": "c"});
    // The last message lets the first one be empty.
    let last = json!({"role": if role == "user" { "assistant" } else { "user" }, "content": "x"});
    let mut body = tests::translate(json!({"messages": [message, last]}))?;
    Ok(body.pointer_mut(result).map(Value::take).unwrap_or_default())
}

fn translate(part: &Value, place: ContentPlace) -> Result<Value> {
    blocks(&json!([part]), place)
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
            json!({"type": "file", "file": {"file_data": "https://example.com/a.pdf"}}),
            json!({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
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
            assert_eq!(plain, json!([block]), "{part}");
            let mut marked_part = part.clone();
            let mut marked_block = block.clone();
            marked_part["cache_control"] = cache_control();
            marked_block["cache_control"] = cache_control();
            let marked = translate(&marked_part, place).expect("a good part");
            assert_eq!(marked, json!([marked_block]));
        }
    }
}

#[test]
fn a_part_that_cannot_be_expressed_is_refused_by_name() {
    for (part, member) in [
        (json!("text"), ""),
        (json!({"type": "text"}), ".text"),
        (json!({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}), ".type"),
        (json!({"type": "input_audio"}), ".type"),
        (json!({"type": "refusal", "refusal": "no"}), ".type"),
        (json!({"type": "image_url"}), ".image_url"),
        (json!({"type": "image_url", "image_url": {}}), ".image_url.url"),
        (image("file:///etc/passwd"), ".image_url.url"),
        (image("data:image/svg+xml;base64,PHN2Zz4="), ".image_url.url"),
        (image("data:image/png,raw"), ".image_url.url"),
        (image("data:"), ".image_url.url"),
        (file(&json!("x")), ".file"),
        (file(&json!({"filename": "a.pdf"})), ".file"),
        (file(&json!({"file_data": "JVBERi0x", "file_id": "file_1"})), ".file"),
        (file(&json!({"file_data": "data:text/plain;base64,aGk="})), ".file.file_data"),
        (file(&json!({"file_data": "data:application/pdf,raw"})), ".file.file_data"),
        (file(&json!({"file_data": "aGk="})), ".file.file_data"),
    ] {
        let refused = translate(&part, ContentPlace::User).expect_err("refused");
        assert_eq!(refused.param, format!("messages[0].content[0]{member}"), "{part}");
    }
}

#[test]
fn an_error_has_the_beginning_of_what_was_found_and_the_valid_values() {
    let long = format!("file:///{}", "x".repeat(1_000));
    for (part, message) in [
        (
            image("data:image/svg+xml;base64,PHN2Zz4="),
            "Invalid 'messages[0].content[0].image_url.url': it must be one of image/jpeg, image/png, \
             image/gif, image/webp, not 'image/svg+xml'.",
        ),
        (
            file(&json!({"file_data": "data:text/plain;base64,aGk="})),
            "Invalid 'messages[0].content[0].file.file_data': it must be of type application/pdf, not \
             'text/plain'.",
        ),
    ] {
        let refused = translate(&part, ContentPlace::User).expect_err("refused");
        assert_eq!((refused.code, refused.message.as_str()), ("invalid_value", message));
    }
    let refused = translate(&image(&long), ContentPlace::User).expect_err("refused");
    assert!(refused.message.len() < 250, "{}", refused.message);
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
        json!([{"type": "text", "text": "No."}])
    );
    for place in [ContentPlace::System, ContentPlace::User, ContentPlace::ToolResult] {
        assert!(translate(&refusal, place).is_err(), "{place:?}");
    }
}

#[test]
fn content_is_text_or_parts_and_empty_text_leaves_no_block() {
    assert_eq!(
        blocks(&json!("hi"), ContentPlace::User).expect("text"),
        json!([{"type": "text", "text": "hi"}])
    );
    for empty in [
        json!(null),
        json!(""),
        json!([]),
        json!([{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]),
    ] {
        for place in [ContentPlace::System, ContentPlace::ToolResult] {
            assert_eq!(blocks(&empty, place).expect("nothing"), json!(null), "{empty} {place:?}");
        }
    }
    let refused = blocks(&json!(1), ContentPlace::User).expect_err("refused");
    assert_eq!(refused.param, "messages[0].content");
}

#[test]
fn the_mark_of_a_message_goes_to_its_last_block_that_can_have_one() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let thinking = json!({"type": "thinking", "thinking": "Hm.", "signature": "s"});
    let marked =
        |text: &str| json!({"type": "text", "text": text, "cache_control": cache_control()});
    for (content, blocks) in [
        (json!([text("a"), text("b")]), json!([thinking, text("a"), marked("b")])),
        (json!([text("a"), text("")]), json!([thinking, marked("a")])),
        (json!([marked("a"), text("")]), json!([thinking, marked("a")])),
        (json!([]), json!([thinking])),
    ] {
        let message = json!({"role": "assistant", "content": content, "thinking_blocks": [thinking],
                             "cache_control": cache_control()});
        let body = tests::translate(json!({"messages": [message]})).expect("a good message");
        assert_eq!(body["messages"][0]["content"], blocks, "{content}");
    }
    let own = json!({"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}});
    let message = json!({"role": "user", "content": [own], "cache_control": cache_control()});
    let body = tests::translate(json!({"messages": [message]})).expect("a good message");
    assert_eq!(body["messages"][0]["content"], json!([own]));
}
