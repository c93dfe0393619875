//! Reads a server's response to `tools/call`, as far as it can be understood.

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::{Map, Value};

use super::limits::{MAX_FAILURE_BYTES, MAX_RAW_CHARS, MAX_RESULT_BYTES};
use crate::{
    text::cut,
    tool::{CallError, Cause, Content, ErrorKind, Resource, ToolError, ToolName, ToolOutput},
};

/// Key of the metadata that names the server. It is for the operator and not for the caller.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Reads a result. Fails if it is not a complete result, if it has more than [`MAX_RESULT_BYTES`],
/// or if it reports the tool's own failure.
pub(super) fn read(tool: &ToolName, result: Value) -> Result<ToolOutput, CallError> {
    let Value::Object(mut result) = result else {
        return Err(no_result(tool, "the result is no object"));
    };
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some("input_required") => {
            return Err(unsupported("input_required", "it asks for more input while it runs"));
        }
        Some("task") => {
            return Err(unsupported("task", "it answers with a task to ask about later"));
        }
        Some(_) => return Err(no_result(tool, "the result is of an unknown type")),
    }
    let raw = is_error(&result).then(|| raw(&result));
    let output = ToolOutput {
        content: content(result.remove("content")),
        structured: result.remove("structuredContent").filter(|value| !value.is_null()),
        meta: meta(result.remove("_meta")),
    };
    if output.size() + output.meta.as_ref().map_or(0, |meta| meta.to_string().len())
        > MAX_RESULT_BYTES
    {
        return Err(too_large(tool));
    }
    match raw {
        Some(raw) => Err(CallError::Tool(failure(output, &raw))),
        None => Ok(output),
    }
}

/// Converts a JSON-RPC error to a tool's own error.
pub(super) fn refusal(error: ErrorData) -> CallError {
    let kind = match error.code {
        ErrorCode::INVALID_PARAMS => ErrorKind::InvalidInput,
        _ => ErrorKind::Internal,
    };
    let message = match printable(&error.message) {
        message if message.is_empty() => "the server refused the call and gave no reason".into(),
        message => message,
    };
    let details = error.data.filter(|data| data.to_string().len() <= MAX_RESULT_BYTES);
    CallError::Tool(ToolError {
        code: Some(error.code.0.to_string()),
        details,
        ..ToolError::new(kind, message)
    })
}

/// Returns the error for a result over the bound.
pub(super) fn too_large(tool: &ToolName) -> CallError {
    CallError::ResultTooLarge { tool: tool.clone(), limit_bytes: MAX_RESULT_BYTES as u64 }
}

/// Returns the error for a response that cannot be understood.
pub(super) fn no_result(tool: &ToolName, what: &'static str) -> CallError {
    CallError::BadResult { tool: tool.clone(), cause: Cause::from(what) }
}

fn unsupported(code: &str, what: &str) -> CallError {
    let message = format!("the tool cannot be used through this gateway: {what}");
    CallError::Tool(ToolError {
        code: Some(code.to_owned()),
        ..ToolError::new(ErrorKind::Internal, message)
    })
}

fn is_error(result: &Map<String, Value>) -> bool {
    match result.get("isError") {
        Some(Value::Bool(error)) => *error,
        Some(Value::String(error)) => error.eq_ignore_ascii_case("true"),
        _ => false,
    }
}

fn content(content: Option<Value>) -> Vec<Content> {
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

fn meta(meta: Option<Value>) -> Option<Value> {
    let Some(Value::Object(mut meta)) = meta else { return None };
    meta.shift_remove(SERVER_INFO);
    (!meta.is_empty()).then_some(Value::Object(meta))
}

/// Builds the error of a failed tool. The message is the structured one, else the text, else the
/// raw result.
fn failure(output: ToolOutput, raw: &str) -> ToolError {
    let data = Data(output.structured.as_ref());
    let code = data.code();
    let mut message =
        data.message().or_else(|| text(&output.content)).unwrap_or_else(|| raw.to_owned());
    message = printable(&message);
    if let Some(suffix) = data.suffix() {
        message.push_str(&suffix);
    }
    ToolError { code, details: output.structured, ..ToolError::new(ErrorKind::Internal, message) }
}

/// The structured content of a failure. No standard defines it; these are the names in use.
struct Data<'a>(Option<&'a Value>);

impl Data<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0?.get(key)
    }

    fn message(&self) -> Option<String> {
        let error = self.get("error");
        let candidates = [
            self.get("message"),
            error,
            error.and_then(|error| error.get("message")),
            self.get("detail"),
        ];
        candidates
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .find(|text| !text.trim().is_empty())
            .map(str::to_owned)
    }

    fn code(&self) -> Option<String> {
        let code = ["code", "errorCode", "statusCode"].into_iter().find_map(|key| {
            match self.get(key)? {
                Value::String(code) if !code.is_empty() => Some(code.clone()),
                Value::Number(code) => Some(code.to_string()),
                _ => None,
            }
        })?;
        Some(cut(printable(&code), 64))
    }

    fn is_retriable(&self) -> Option<bool> {
        ["retriable", "retryable"].into_iter().find_map(|key| match self.get(key)? {
            Value::Bool(flag) => Some(*flag),
            Value::Number(flag) => Some(flag.as_i64()? != 0),
            Value::String(flag) => match flag.to_ascii_lowercase().as_str() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => None,
            },
            _ => None,
        })
    }

    /// Returns ` (code=E_TIMEOUT retriable=false)` with the facts that are known; `None` if there
    /// are none.
    fn suffix(&self) -> Option<String> {
        let code = self.code().map(|code| format!("code={code}"));
        let retriable = self.is_retriable().map(|flag| format!("retriable={flag}"));
        let facts: Vec<String> = [code, retriable].into_iter().flatten().collect();
        (!facts.is_empty()).then(|| format!(" ({})", facts.join(" ")))
    }
}

fn text(content: &[Content]) -> Option<String> {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|part| match part {
            Content::Text { text } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect();
    (!texts.is_empty()).then(|| texts.join("\n"))
}

fn raw(result: &Map<String, Value>) -> String {
    let text = serde_json::to_string(result).unwrap_or_default();
    match text.char_indices().nth(MAX_RAW_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns the text without control characters other than newlines and tabs, cut to
/// [`MAX_FAILURE_BYTES`].
fn printable(text: &str) -> String {
    let kept =
        text.trim().chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    cut(kept, MAX_FAILURE_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::ClientName;

    fn tool() -> ToolName {
        ToolName::new(&ClientName::parse("x").expect("a good name"), "t")
    }

    fn output(result: Value) -> ToolOutput {
        read(&tool(), result).expect("an output")
    }

    fn error(result: Value) -> ToolError {
        match read(&tool(), result) {
            Err(CallError::Tool(error)) => error,
            other => panic!("expected the tool's own error, found {other:?}"),
        }
    }

    #[test]
    fn every_kind_of_content_is_kept() {
        let result = json!({"content": [
            {"type": "text", "text": "a", "annotations": {"audience": ["system"]}},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
            {"type": "resource", "resource": {"uri": "file:///y", "text": "y", "mimeType": "text/plain"}},
        ]});
        insta::assert_snapshot!(serde_json::to_value(output(result)).expect("JSON")["content"], @r#"[{"type":"text","text":"a"},{"type":"image","data":"AA==","mimeType":"image/png"},{"type":"audio","data":"AA==","mimeType":"audio/wav"},{"type":"resource_link","uri":"file:///x","name":"x"},{"type":"resource","resource":{"uri":"file:///y","mimeType":"text/plain","text":"y"}}]"#);
    }

    #[test]
    fn structured_data_keeps_its_order_and_the_servers_name_is_left_out() {
        let named = json!({"structuredContent": {"b": 1, "a": null}, "_meta": {"k": 1, SERVER_INFO: {"name": "internal-7"}}});
        let output = output(named);
        assert_eq!(output.structured.expect("data").to_string(), r#"{"b":1,"a":null}"#);
        assert_eq!(output.meta, Some(json!({"k": 1})));
    }

    #[test]
    fn malformed_content_is_repaired_or_becomes_text() {
        let text = |result| output(result).to_text();
        assert_eq!(text(json!({"content": "plain"})), "plain");
        assert_eq!(text(json!({"content": [{"type": "sql", "text": "SELECT 1"}]})), "SELECT 1");
        assert_eq!(
            text(json!({"content": [{"type": "chart", "points": [1, 2]}]})),
            r#"{"type":"chart","points":[1,2]}"#
        );
        assert_eq!(
            text(json!({"content": [{"type": "image", "data": "AA=="}]})),
            "[Image: application/octet-stream]"
        );
        assert_eq!(
            text(json!({"content": [{"type": "resource_link", "uri": "a:b"}]})),
            "[Resource link: a:b a:b]"
        );
        assert_eq!(
            text(json!({"content": [{"type": "resource"}, "x", null]})),
            "{\"type\":\"resource\"}\nx\nnull"
        );
        assert_eq!(text(json!({"structuredContent": [1]})), "[1]");
        assert_eq!(output(json!({})), ToolOutput::default());
    }

    #[test]
    fn a_failure_uses_the_most_specific_message() {
        let message = |structured: Value, text: &str| {
            error(json!({"isError": true, "content": [{"type": "text", "text": text}], "structuredContent": structured})).message
        };
        assert_eq!(message(json!({"message": "m", "error": "e", "detail": "d"}), "t"), "m");
        assert_eq!(message(json!({"error": "e", "detail": "d"}), "t"), "e");
        assert_eq!(message(json!({"error": {"message": "em"}, "detail": "d"}), "t"), "em");
        assert_eq!(message(json!({"detail": "d"}), "t"), "d");
        assert_eq!(message(json!({"other": 1}), "t"), "t");
        assert_eq!(message(json!({"message": " "}), "t"), "t");
        let nothing = error(json!({"isError": true, "content": [], "why": "x".repeat(3000)}));
        assert!(
            nothing.message.starts_with(r#"{"isError":true"#) && nothing.message.ends_with('…'),
            "{}",
            nothing.message
        );
        assert_eq!(nothing.message.chars().count(), MAX_RAW_CHARS + 1);
    }

    #[test]
    fn a_failure_keeps_its_code_its_retriable_flag_and_its_data() {
        let structured =
            json!({"message": "no\u{7} answer", "errorCode": "E_TIMEOUT", "retryable": "0"});
        let error = error(json!({"isError": true, "structuredContent": structured}));
        assert_eq!(error.message, "no answer (code=E_TIMEOUT retriable=false)");
        assert_eq!(error.code.as_deref(), Some("E_TIMEOUT"));
        assert_eq!(error.details, Some(structured));
    }

    #[test]
    fn a_result_is_bounded_to_the_byte() {
        let of = |length: usize| json!({"content": [{"type": "text", "text": "x".repeat(length)}]});
        assert!(read(&tool(), of(MAX_RESULT_BYTES)).is_ok());
        assert!(matches!(
            read(&tool(), of(MAX_RESULT_BYTES + 1)),
            Err(CallError::ResultTooLarge { .. })
        ));
        let failed = json!({"isError": true, "structuredContent": "x".repeat(MAX_RESULT_BYTES)});
        assert!(matches!(read(&tool(), failed), Err(CallError::ResultTooLarge { .. })));
    }

    #[test]
    fn results_of_another_type_are_refused() {
        assert_eq!(
            error(json!({"resultType": "input_required"})).code.as_deref(),
            Some("input_required")
        );
        assert_eq!(error(json!({"resultType": "task"})).code.as_deref(), Some("task"));
        assert!(output(json!({"resultType": "complete", "content": []})).content.is_empty());
        for odd in [json!({"resultType": "novel"}), json!([]), json!(null)] {
            assert!(matches!(read(&tool(), odd), Err(CallError::BadResult { .. })));
        }
    }

    #[test]
    fn a_json_rpc_error_becomes_invalid_input_or_internal() {
        let refused =
            |code, message: &str| match refusal(ErrorData::new(code, message.to_owned(), None)) {
                CallError::Tool(error) => (error.kind, error.message),
                other => panic!("expected the tool's own error, found {other:?}"),
            };
        assert_eq!(
            refused(ErrorCode::INVALID_PARAMS, "no\u{0} tool"),
            (ErrorKind::InvalidInput, "no tool".into())
        );
        let (kind, message) =
            refused(ErrorCode::INTERNAL_ERROR, &"x".repeat(MAX_FAILURE_BYTES * 2));
        assert_eq!((kind, message.len()), (ErrorKind::Internal, MAX_FAILURE_BYTES));
        assert!(!refused(ErrorCode(7), "").1.is_empty());
    }
}
