//! Reads a failure that a tool reports. No standard defines its structured content; the members
//! read here are those in common use, and no others.

use serde_json::{Map, Value};

use crate::limits::{MAX_FAILURE_BYTES, MAX_RAW_CHARS};
use airlock_core::tool::{Content, ErrorKind, ToolError, ToolOutput, own_code};
use airlock_strings::{self as text, MAX_WORD_BYTES, cut, one_line};

/// Builds the error of a failed tool. Its message is that of the structured content, else the text
/// of the result, else `raw`. The structured content is attached as a whole, and so is all content
/// that the message does not repeat.
pub(super) fn read(output: ToolOutput, raw: &str) -> ToolError {
    let ToolOutput { mut content, structured, meta, extra } = output;
    let code = structured.as_ref().and_then(code);
    let message = structured.as_ref().and_then(message).map(str::to_owned);
    let message = message.or_else(|| {
        let text = joined_text(&content);
        content.retain(|part| part.as_text().is_none());
        text
    });
    let message = message.unwrap_or_else(|| raw.to_owned());
    content.retain(|part| part.as_text() != Some(message.as_str()));
    let suffix = suffix(code.as_deref(), structured.as_ref().and_then(is_retriable));
    let message = printable(&message) + &suffix;
    ToolError {
        code,
        content,
        details: structured,
        meta,
        extra,
        ..ToolError::new(ErrorKind::Other, message)
    }
}

/// Returns the first [`MAX_RAW_CHARS`] characters of a result's JSON text.
pub(super) fn raw(result: &Map<String, Value>) -> String {
    let text = serde_json::to_string(result).unwrap_or_default();
    match text.char_indices().nth(MAX_RAW_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns a message without control characters, cut to [`MAX_FAILURE_BYTES`].
pub(super) fn printable(message: &str) -> String {
    cut(text::printable(message.trim()), MAX_FAILURE_BYTES)
}

/// Returns the first of the members `message`, `error`, `error.message` and `detail` that is a text
/// and not blank.
fn message(data: &Value) -> Option<&str> {
    let error = data.get("error");
    let members = [
        data.get("message"),
        error,
        error.and_then(|error| error.get("message")),
        data.get("detail"),
    ];
    let mut texts = members.into_iter().flatten().filter_map(Value::as_str);
    texts.find(|text| !text.trim().is_empty())
}

fn code(data: &Value) -> Option<String> {
    let code = ["code", "errorCode", "statusCode"].into_iter().find_map(|name| {
        match data.get(name)? {
            Value::String(code) if !code.is_empty() => Some(code.clone()),
            Value::Number(code) => Some(code.to_string()),
            _ => None,
        }
    })?;
    own_code(cut(one_line(&code), MAX_WORD_BYTES))
}

/// Reads `retriable` or `retryable`: a boolean, `"true"` or `"false"`, `1` or `0`.
fn is_retriable(data: &Value) -> Option<bool> {
    ["retriable", "retryable"].into_iter().find_map(|name| match data.get(name)? {
        Value::Bool(flag) => Some(*flag),
        Value::String(flag) => flag.parse().ok(),
        Value::Number(flag) => match flag.as_u64() {
            Some(0) => Some(false),
            Some(1) => Some(true),
            _ => None,
        },
        _ => None,
    })
}

/// Returns ` (code=E_TIMEOUT retriable=false)` with the facts that are known; an empty text if
/// there are none.
fn suffix(code: Option<&str>, is_retriable: Option<bool>) -> String {
    match (code, is_retriable) {
        (None, None) => String::new(),
        (Some(code), None) => format!(" (code={code})"),
        (None, Some(flag)) => format!(" (retriable={flag})"),
        (Some(code), Some(flag)) => format!(" (code={code} retriable={flag})"),
    }
}

fn joined_text(content: &[Content]) -> Option<String> {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(Content::as_text)
        .filter(|text| !text.trim().is_empty())
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn error(structured: Value, text: &str) -> ToolError {
        let content = vec![Content::text(text)];
        let structured = Some(structured);
        read(ToolOutput { content, structured, ..ToolOutput::default() }, "raw")
    }

    fn message(structured: Value) -> String {
        error(structured, "text").message
    }

    #[test]
    fn the_message_is_message_then_error_then_its_message_then_detail_then_text_then_raw() {
        let nested = json!({"message": "em"});
        assert_eq!(message(json!({"message": "m", "error": "e", "detail": "d"})), "m");
        assert_eq!(message(json!({"error": "e", "detail": "d"})), "e");
        assert_eq!(message(json!({"error": nested, "detail": "d"})), "em");
        assert_eq!(message(json!({"detail": "d"})), "d");
        assert_eq!(message(json!({"message": " ", "error": 7, "detail": null})), "text");
        assert_eq!(message(json!({"msg": "x", "reason": "x", "errors": ["x"]})), "text");
        assert_eq!(message(json!("a text")), "text");
        assert_eq!(error(json!({}), " ").message, "raw");
    }

    #[test]
    fn the_code_is_code_then_error_code_then_status_code() {
        let all = json!({"code": "a", "errorCode": "b", "statusCode": 3, "detail": "d"});
        assert_eq!(error(all, "").code.as_deref(), Some("a"));
        assert_eq!(
            error(json!({"code": "", "errorCode": "b", "statusCode": 3}), "").code.as_deref(),
            Some("b")
        );
        assert_eq!(message(json!({"statusCode": 503, "detail": "d"})), "d (code=503)");
        assert_eq!(message(json!({"status": 503, "error_code": "x", "code": true})), "text");
        let odd = error(json!({"code": format!("a\n\0{}", "b".repeat(100))}), "t");
        assert!(odd.message.starts_with("t (code=a \u{fffd}bb"), "{}", odd.message);
        assert_eq!(odd.code.map(|code| code.len()), Some(MAX_WORD_BYTES));
    }

    #[test]
    fn the_retriable_flag_is_a_boolean_a_word_or_a_digit() {
        for (flag, expected) in [
            (json!(true), "text (retriable=true)"),
            (json!("true"), "text (retriable=true)"),
            (json!(1), "text (retriable=true)"),
            (json!(false), "text (retriable=false)"),
            (json!("false"), "text (retriable=false)"),
            (json!(0), "text (retriable=false)"),
        ] {
            assert_eq!(message(json!({"retriable": flag})), expected);
            assert_eq!(message(json!({"retryable": flag})), expected);
        }
        for flag in [json!("TRUE"), json!("yes"), json!("1"), json!(2), json!(-1), json!(null)] {
            assert_eq!(message(json!({"retriable": flag})), "text", "{flag}");
        }
        assert_eq!(
            message(json!({"retriable": false, "retryable": true})),
            "text (retriable=false)"
        );
        assert_eq!(message(json!({"canRetry": true})), "text");
    }

    #[test]
    fn a_failure_keeps_its_structured_content_and_has_no_control_characters() {
        let structured =
            json!({"message": "no\u{7} answer", "errorCode": "E_TIMEOUT", "retryable": 0});
        let error = error(structured.clone(), "");
        assert_eq!(error.message, "no\u{fffd} answer (code=E_TIMEOUT retriable=false)");
        assert_eq!(error.code.as_deref(), Some("E_TIMEOUT"));
        assert_eq!(error.details, Some(structured));
    }

    #[test]
    fn content_that_the_message_does_not_repeat_is_kept() {
        let image = Content::from_mcp(json!({"type": "image", "data": "AA==", "mimeType": "a/b"}));
        let error = read(output(&image, None), "raw");
        assert_eq!((error.message.as_str(), error.content), ("text", vec![image.clone()]));
        let error = read(output(&image, Some(json!({"message": "m"}))), "raw");
        assert_eq!(error.content, [Content::text("text"), image.clone()]);
        let same = read(output(&image, Some(json!({"message": "text"}))), "raw");
        assert_eq!(same.content, [image]);
    }

    fn output(image: &Content, structured: Option<Value>) -> ToolOutput {
        let content = vec![Content::text("text"), image.clone()];
        ToolOutput { content, structured, ..ToolOutput::default() }
    }

    #[test]
    fn a_message_and_a_raw_result_are_cut() {
        let error = error(json!({"message": "x".repeat(MAX_FAILURE_BYTES + 1), "code": 7}), "");
        assert_eq!(error.message.len(), MAX_FAILURE_BYTES + " (code=7)".len());
        let Value::Object(result) = json!({"isError": true, "why": "ä".repeat(3_000)}) else {
            unreachable!("it is an object")
        };
        let raw = raw(&result);
        assert!(raw.starts_with(r#"{"isError":true"#) && raw.ends_with('…'), "{raw}");
        assert_eq!(raw.chars().count(), MAX_RAW_CHARS + 1);
    }
}
