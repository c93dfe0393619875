//! The documents that are schemas, and the draft of each.

mod agreement;
mod expansion;
mod explanation;
mod patterns;
mod stack;
mod walk;

use serde_json::json;

use super::*;

#[test]
fn references_out_of_the_document_or_without_a_target_are_invalid() {
    for reference in [
        "https://example.com/s",
        "file:///etc/passwd",
        "other.json#/a",
        "",
        "?",
        "https://json-schema.org/draft/2020-12/schema",
    ] {
        assert_eq!(
            invalid(&json!({"properties": {"a": {"$ref": reference}}})),
            Problem::OutsideReference(reference.into())
        );
    }
    for reference in ["#/$defs/gone", "#gone", "#/%zz", "#/%ff"] {
        assert_eq!(
            invalid(&json!({"properties": {"a": {"$ref": reference}}})),
            Problem::DanglingReference(reference.into())
        );
    }
    let inner = json!({"$defs": {"a": {"$id": "https://example.com/a", "$ref": "#/b"}}, "b": true});
    assert!(matches!(invalid(&inner), Problem::InnerIdentifier(_)));
    // The document's own identifier is not used, and need not be a valid URI.
    assert!(fits(
        &json!({"$id": ":::", "$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}),
        &json!("x")
    ));
}

#[test]
fn the_draft_is_the_one_that_the_document_names() {
    for (dialect, form) in [
        (
            "http://json-schema.org/draft-04/schema#",
            json!({"minimum": 1, "exclusiveMinimum": true}),
        ),
        ("http://json-schema.org/draft-07/schema#", json!({"exclusiveMinimum": 1})),
        ("https://json-schema.org/draft/2020-12/schema", json!({"exclusiveMinimum": 1})),
    ] {
        let mut schema = form;
        schema["$schema"] = dialect.into();
        assert!(fits(&schema, &json!(2)) && !fits(&schema, &json!(1)), "{dialect}");
    }
    assert!(matches!(
        invalid(&json!({"minimum": 1, "exclusiveMinimum": true})),
        Problem::Invalid(_)
    ));
    assert!(matches!(invalid(&json!({"$schema": "https://example.com/own"})), Problem::Dialect(_)));
    assert!(matches!(
        invalid(
            &json!({"properties": {"a": {"$schema": "http://json-schema.org/draft-07/schema#"}}})
        ),
        Problem::Dialect(_)
    ));
}

#[test]
fn an_invalid_schema_is_refused_with_its_place() {
    let bad =
        CompiledSchema::compile("outputSchema", &json!({"properties": {"a": {"type": "text"}}}))
            .expect_err("no such type");
    insta::assert_snapshot!(bad, @r#"invalid outputSchema: #/properties/a/type: "text" is not valid under any of the schemas listed in the 'anyOf' keyword"#);
    assert!(matches!(invalid(&json!(7)), Problem::Invalid(_)));
    assert!(fits(&json!(true), &json!(7)) && !fits(&json!(false), &json!(7)));
}

#[test]
fn formats_and_contents_are_annotations() {
    for dialect in
        ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
    {
        let schema = json!({"$schema": dialect, "format": "email", "contentEncoding": "base64", "contentMediaType": "application/json"});
        assert!(fits(&schema, &json!("!")), "{dialect}");
    }
}

fn compiled(schema: &Value) -> CompiledSchema {
    CompiledSchema::compile("inputSchema", schema).unwrap_or_else(|error| panic!("{error}"))
}

fn refused(schema: &Value) -> BadSchema {
    match CompiledSchema::compile("inputSchema", schema) {
        Ok(_) => panic!("accepted"),
        Err(bad) => bad,
    }
}

/// Returns the problem of a schema that is not valid.
fn invalid(schema: &Value) -> Problem {
    let bad = refused(schema);
    assert!(!bad.is_unbounded(), "{bad}");
    bad.problem
}

/// Returns the problem of a schema whose check has no bound.
fn unbounded(schema: &Value) -> Problem {
    let bad = refused(schema);
    assert!(bad.is_unbounded(), "{bad}");
    bad.problem
}

/// Returns the text of the violations of a value that does not fit.
fn told(schema: &Value, value: &Value) -> String {
    compiled(schema).check(value).expect_err("it does not fit").to_string()
}

fn fits(schema: &Value, value: &Value) -> bool {
    compiled(schema).check(value).is_ok()
}
