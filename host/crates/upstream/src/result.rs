//! Reads a server's response to `tools/call`.

mod failure;

use serde_json::{Map, Value};

use super::questions::{self, Refused, RequiredInput};
use crate::limits::MAX_RESULT_BYTES;
use airlock_core::tool::{
    CallError, Content, ErrorKind, ToolError, ToolName, ToolOutput, result_extra,
};
use airlock_wire::error::{RpcError, code};

/// Key of the metadata that names the server. It is for the operator and not for the caller.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Takes the questions out of a result that asks the caller; `None` if it asks nothing.
pub(super) fn asks(result: &mut Value) -> Option<Result<RequiredInput, Refused>> {
    let result = result.as_object_mut()?;
    let is_asking = result.get("resultType").and_then(Value::as_str) == Some("input_required");
    is_asking.then(|| questions::read_required_input(result))
}

/// Returns the error of a call that cannot be resumed without answers.
pub(super) fn not_asked(refused: Refused) -> CallError {
    unsupported("input_required", &format!("it asks for input, and {refused}"))
}

/// Reads a result. Fails if it is not a complete result, if it has more than [`MAX_RESULT_BYTES`],
/// or if it reports the tool's own failure.
pub(super) fn read(tool: &ToolName, result: Value) -> Result<ToolOutput, CallError> {
    let Value::Object(mut result) = result else {
        return Err(no_result(tool, "the result is not an object"));
    };
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some(_) => return Err(no_result(tool, "the result is of an unknown type")),
    }
    let is_failure = result.get("isError") == Some(&Value::Bool(true));
    let raw = is_failure.then(|| failure::raw(&result));
    // Checked before the blocks are read: one of a few bytes takes a hundred times its text.
    let blocks = result.get("content").and_then(Value::as_array).map_or(0, Vec::len);
    if blocks * Content::FRAME > MAX_RESULT_BYTES {
        return Err(too_large(tool));
    }
    let output = ToolOutput {
        content: content(result.remove("content")),
        structured: result.remove("structuredContent").filter(|value| !value.is_null()),
        meta: meta(result.remove("_meta")),
        extra: result_extra(result),
    };
    if output.size() > MAX_RESULT_BYTES {
        return Err(too_large(tool));
    }
    match raw {
        Some(raw) => Err(CallError::from(failure::read(output, &raw))),
        None => Ok(output),
    }
}

/// Converts a JSON-RPC error to a tool's own error.
pub(super) fn refusal(error: RpcError) -> CallError {
    let kind = match error.code {
        code::INVALID_PARAMS => ErrorKind::InvalidInput,
        _ => ErrorKind::Internal,
    };
    let message = match failure::printable(&error.message) {
        message if message.is_empty() => "the server refused the call and gave no reason".into(),
        message => message,
    };
    // The URLs of a required elicitation (2025-11-25) have not been checked for a person.
    let is_elicitation = error.code == code::URL_ELICITATION_REQUIRED;
    let details =
        error.data.filter(|data| !is_elicitation && data.to_string().len() <= MAX_RESULT_BYTES);
    CallError::from(ToolError {
        code: Some(error.code.to_string()),
        details,
        ..ToolError::new(kind, message)
    })
}

/// Returns the error for a result over the bound.
pub(super) fn too_large(tool: &ToolName) -> CallError {
    CallError::result_too_large(tool.clone(), MAX_RESULT_BYTES)
}

/// Returns the error for a response that cannot be understood.
pub(super) fn no_result(tool: &ToolName, what: &'static str) -> CallError {
    CallError::bad_result(tool.clone(), what)
}

fn unsupported(code: &str, what: &str) -> CallError {
    let message = format!("the tool cannot be used through this gateway: {what}");
    ToolError::new(ErrorKind::Unsupported, message).with_code(code).into()
}

/// Reads the member `content` of a result. Malformed content becomes text, so that no part of the
/// result is lost.
fn content(content: Option<Value>) -> Vec<Content> {
    match content {
        Some(Value::Array(blocks)) => blocks.into_iter().map(Content::from_mcp).collect(),
        None | Some(Value::Null) => Vec::new(),
        Some(other) => vec![Content::from_mcp(other)],
    }
}

fn meta(meta: Option<Value>) -> Option<Map<String, Value>> {
    let Some(Value::Object(mut meta)) = meta else { return None };
    meta.shift_remove(SERVER_INFO);
    (!meta.is_empty()).then_some(meta)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::limits::MAX_FAILURE_BYTES;
    use airlock_core::tool::{ClientName, HostCode};

    fn tool() -> ToolName {
        ToolName::new(&ClientName::parse("x").expect("a good name"), "t")
    }

    fn output(result: Value) -> ToolOutput {
        read(&tool(), result).expect("an output")
    }

    fn error(result: Value) -> ToolError {
        let error = read(&tool(), result).expect_err("the call failed");
        error.into_tool_error().expect("it is the tool's own")
    }

    #[test]
    fn structured_data_keeps_its_order_and_the_servers_name_is_left_out() {
        let named = json!({"structuredContent": {"b": 1, "a": null}, "ttl": 7, "resultType": "complete",
                           "_meta": {"k": 1, SERVER_INFO: {"name": "internal-7"}}});
        let output = output(named);
        assert_eq!(output.structured.expect("data").to_string(), r#"{"b":1,"a":null}"#);
        assert_eq!(output.meta, json!({"k": 1}).as_object().cloned());
        assert_eq!(output.extra.as_deref(), json!({"ttl": 7}).as_object());
    }

    #[test]
    fn content_that_is_no_list_is_one_part() {
        assert_eq!(output(json!({"content": "plain"})).to_text(), "plain");
        assert_eq!(output(json!({"content": {"type": "text", "text": "t"}})).to_text(), "t");
        assert!(output(json!({"content": null})).content.is_empty());
        assert!(output(json!({})).content.is_empty());
    }

    #[test]
    fn only_a_boolean_marks_a_failure() {
        let content = json!([{"type": "text", "text": "t"}]);
        assert_eq!(error(json!({"isError": true, "content": content})).message, "t");
        for flag in [json!(false), json!("true"), json!(1), json!(null)] {
            assert_eq!(output(json!({"isError": flag, "content": content})).to_text(), "t");
        }
    }

    #[test]
    fn a_result_is_bounded_to_the_byte() {
        assert!(read(&tool(), text_of(MAX_RESULT_BYTES)).is_ok());
        assert_eq!(code(text_of(MAX_RESULT_BYTES + 1)), HostCode::ResultTooLarge);
        let failed = json!({"isError": true, "structuredContent": "x".repeat(MAX_RESULT_BYTES)});
        assert_eq!(code(failed), HostCode::ResultTooLarge);
    }

    fn code(result: Value) -> HostCode {
        read(&tool(), result).expect_err("it is no result").code()
    }

    fn text_of(length: usize) -> Value {
        json!({"content": [{"type": "text", "text": "x".repeat(length)}]})
    }

    #[test]
    fn a_result_of_very_many_small_blocks_is_too_large() {
        let most = MAX_RESULT_BYTES / Content::FRAME;
        assert_eq!(output(blocks(most / 2)).content.len(), most / 2);
        assert_eq!(code(blocks(most + 1)), HostCode::ResultTooLarge);
    }

    fn blocks(count: usize) -> Value {
        json!({"content": vec![json!(1); count]})
    }

    #[test]
    fn results_of_another_type_are_refused() {
        let mut asking = json!({"resultType": "input_required", "requestState": "s"});
        assert!(asks(&mut asking).expect("it asks").is_ok());
        assert!(asks(&mut json!({"content": []})).is_none());
        assert!(output(json!({"resultType": "complete", "content": []})).content.is_empty());
        for odd in
            [json!({"resultType": "novel"}), json!({"resultType": "task"}), json!([]), json!(null)]
        {
            assert_eq!(code(odd), HostCode::BadResult);
        }
    }

    #[test]
    fn a_json_rpc_error_becomes_invalid_input_or_internal() {
        assert_eq!(
            refused(code::INVALID_PARAMS, "no\u{0} tool"),
            (ErrorKind::InvalidInput, "no\u{fffd} tool".into())
        );
        let (kind, message) = refused(-32_603, &"x".repeat(MAX_FAILURE_BYTES * 2));
        assert_eq!((kind, message.len()), (ErrorKind::Internal, MAX_FAILURE_BYTES));
        assert!(!refused(7, "").1.is_empty());
    }

    fn refused(code: i64, message: &str) -> (ErrorKind, String) {
        let error = refusal(RpcError::new(code, message));
        (error.kind(), error.to_string())
    }
}
