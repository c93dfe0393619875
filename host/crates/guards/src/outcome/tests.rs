use serde_json::json;

use super::*;
use airlock_core::tool::{ClientName, ErrorKind, ToolDefinition};

fn tool(output_schema: bool) -> Tool {
    let mut definition = json!({"name": "t", "inputSchema": {}});
    if output_schema {
        definition["outputSchema"] = json!({"type": "object"});
    }
    let definition: ToolDefinition = serde_json::from_value(definition).expect("a definition");
    Tool::adopt(&ClientName::parse("a").expect("a name"), definition).expect("a good tool")
}

fn output() -> ToolOutput {
    let meta = json!({"k": 1}).as_object().cloned();
    ToolOutput { structured: Some(json!({"n": 1})), meta, ..ToolOutput::text("four") }
}

fn failure() -> CallError {
    let details = Some(json!({"secret": 1}));
    ToolError { details, ..ToolError::new(ErrorKind::Conflict, "no").with_code("taken") }.into()
}

#[test]
fn a_result_is_read_as_it_is_written() {
    let written = write(&Ok(output())).expect("it has a form").expect("it is JSON");
    let ToolOutcome::Success(text) = written else { panic!("it is a result") };
    let read = read(&text, &tool(true), &Ok(ToolOutput::default())).expect("a result");
    assert_eq!(read.expect("a result"), output());
}

#[test]
fn an_error_of_the_tool_keeps_its_code_and_loses_what_is_left_out() {
    let written = write(&Err(failure())).expect("it has a form").expect("it is JSON");
    let ToolOutcome::Failure(text) = written else { panic!("it is an error") };
    assert!(text.contains("taken") && text.contains("secret"), "{text}");
    let read = read(r#"{"message":"changed"}"#, &tool(false), &Err(failure())).expect("an error");
    let error = read.expect_err("an error").into_tool_error().expect("the tool's own");
    assert_eq!((error.message.as_str(), error.code.as_deref()), ("changed", Some("taken")));
    assert_eq!((error.kind, error.details), (ErrorKind::Conflict, None));
    assert!(write(&Err(CallError::busy())).is_none());
}

#[test]
fn what_is_no_outcome_is_refused() {
    let result = Ok(ToolOutput::default());
    for (text, problem) in [
        ("", "JSON"),
        ("{", "JSON"),
        ("[]", "object"),
        (r#"{"content":1}"#, "content"),
        (r#"{"content":[],"content":[]}"#, "JSON"),
    ] {
        let refused = read(text, &tool(false), &result).expect_err("it is refused");
        assert!(refused.to_string().contains(problem), "{text}: {refused}");
    }
    let refused = read(r#"{"content":[]}"#, &tool(true), &result).expect_err("it is refused");
    assert!(matches!(refused, BadOutcome::Structured));
    let refused = read(r#"{"content":[]}"#, &tool(false), &Err(failure()));
    assert!(matches!(refused.expect_err("it is refused"), BadOutcome::Message));
    let many = format!(r#"{{"content":[{}1]}}"#, "1,".repeat(100));
    let refused = read(&many, &tool(false), &result).expect_err("it is refused");
    assert!(matches!(refused, BadOutcome::Parts));
}
