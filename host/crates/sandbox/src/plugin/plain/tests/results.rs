//! Results of functions: outputs, tool errors, and none.

use super::*;
use airlock_core::tool::{Content, ErrorKind, ToolError};

/// Returns a component whose function `f` returns a `result` that is read from `memory`.
fn answering(definitions: &str, result: &str, memory: &str) -> Plain {
    let functions = format!(
        r#"(data (i32.const 0) "{memory}") (func (export "f") (result i32) (i32.const 0))"#
    );
    let core = core(&functions);
    let lift = lift("f");
    let component =
        format!(r#"(component {definitions} {core} (func (export "f") (result {result}) {lift}))"#);
    load(&component).expect("a usable component")
}

#[tokio::test]
async fn a_top_level_result_is_an_output_or_a_tool_error() {
    let text = r"\00\00\00\00\10\00\00\00\02\00\00\00\00\00\00\00hi";
    let failed = format!(r"\01{}", &text[3..]);
    let kinds =
        named("trouble", r#"(variant (case "not-found") (case "slow" u8) (case "other" string))"#);
    let codes = named("codes", r#"(enum "no-such-city" "too-far")"#);
    let records = named("report", r#"(record (field "line-number" u8))"#);

    let output = call(&answering("", "(result string (error string))", text), "f", &json!({}))
        .await
        .expect("an answer");
    assert_eq!(output.structured, Some(json!({"result": "hi"})));
    assert_eq!(output.content, [Content::text("hi")]);
    for (definitions, result, memory, code, message, details) in [
        ("", "(result string (error string))", failed.as_str(), None, "hi", None),
        ("", "(result string)", &failed, None, "the tool failed and gave no reason", None),
        ("", "(result string (error (list u8)))", &failed, None, "aGk=", None),
        (
            &codes,
            "(result string (error $codes))",
            r"\01\00\00\00\01",
            Some("too-far"),
            "too-far",
            None,
        ),
        (
            &kinds,
            "(result string (error $trouble))",
            r"\01\00\00\00\00",
            Some("not-found"),
            "not-found",
            None,
        ),
        (
            &kinds,
            "(result string (error $trouble))",
            r"\01\00\00\00\01\00\00\00\07",
            Some("slow"),
            "slow: 7",
            Some(json!(7)),
        ),
        (
            &kinds,
            "(result string (error $trouble))",
            r"\01\00\00\00\02\00\00\00\10\00\00\00\02\00\00\00hi",
            Some("other"),
            "hi",
            None,
        ),
        (
            &records,
            "(result string (error $report))",
            r"\01\00\00\00\05",
            None,
            r#"{"line_number":5}"#,
            Some(json!({"line_number": 5})),
        ),
    ] {
        let called = call(&answering(definitions, result, memory), "f", &json!({})).await;
        let error = called.expect_err("it fails").into_tool_error().expect("its own error");
        let expected = ToolError {
            code: code.map(str::to_owned),
            details,
            ..ToolError::new(ErrorKind::Internal, message)
        };
        assert_eq!(error, expected, "{result}");
    }
}

#[tokio::test]
async fn a_function_that_returns_nothing_has_an_empty_output() {
    let core = core(r#"(func (export "f")) (func (export "g") (result i32) (i32.const 0))"#);
    let f = lift("f");
    let g = lift("g");
    let component = format!(
        r#"(component {core} (func (export "f") {f}) (func (export "g") (result (result (error string))) {g}))"#
    );
    let plain = load(&component).expect("a usable component");
    for definition in plain.definitions() {
        assert_eq!(definition.output_schema, None, "{}", definition.name);
        assert_eq!(
            call(&plain, &definition.name, &json!({})).await.expect("an answer"),
            ToolOutput::default()
        );
    }
}
