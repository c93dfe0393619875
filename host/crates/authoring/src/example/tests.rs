use super::*;

fn tool(schema: &Value) -> ToolDefinition {
    serde_json::from_value(json!({"name": "t", "inputSchema": schema})).expect("a definition")
}

fn valid(tool: &ToolDefinition) -> String {
    match arguments(tool) {
        Sample::Valid(arguments) => arguments.to_string(),
        Sample::Outline(outline) => panic!("{outline}"),
    }
}

#[test]
fn an_example_fits_bounds_references_and_alternatives() {
    let schema = json!({
        "type": "object",
        "required": ["code", "tags", "size", "even", "part", "choice", "day", "pair", "short"],
        "properties": {
            "code": {"type": "string", "minLength": 6},
            "short": {"type": "string", "maxLength": 2},
            "tags": {"type": "array", "minItems": 2, "items": {"type": "string"}},
            "size": {"type": "integer", "exclusiveMinimum": 7},
            "even": {"type": "integer", "minimum": 3, "multipleOf": 2},
            "part": {"$ref": "#/$defs/part"},
            "choice": {"anyOf": [{"type": "null"}, {"type": "integer", "maximum": -2}]},
            "day": {"type": "string", "format": "date"},
            "pair": {"type": "array", "minItems": 2, "prefixItems": [{"type": "integer"}, {"type": "boolean"}]},
        },
        "$defs": {"part": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}}},
    });
    insta::assert_snapshot!(
        valid(&tool(&schema)),
        @r#"{"code":"codeco","tags":["tags","tags"],"size":8,"even":4,"part":{"id":1},"choice":-2,"day":"2026-01-31","pair":[1,true],"short":"sh"}"#
    );
}

#[test]
fn a_text_without_a_format_is_that_of_its_name_if_this_is_one() {
    let schema = json!({
        "type": "object",
        "required": ["url", "email", "uri"],
        "properties": {
            "url": {"type": "string"},
            "email": {"type": "string"},
            "uri": {"type": "string", "format": "uuid"},
        },
    });
    insta::assert_snapshot!(
        valid(&tool(&schema)),
        @r#"{"url":"https://example.com","email":"ann@example.com","uri":"00000000-0000-4000-8000-000000000000"}"#
    );
}

#[test]
fn an_outline_has_the_required_names_if_no_values_that_fit_can_be_made() {
    let outline = Sample::Outline(r#"{"a": ..., "b": ...}"#.to_owned());
    assert_eq!(with_property(&json!({"type": "string", "pattern": "^[0-9]{4}$"})), outline);
    assert_eq!(with_property(&json!({"type": "array", "items": {}, "minItems": 5})), outline);
    assert_eq!(with_property(&json!({"not": {}})), outline);
    // A reference to itself has no end, so the schema is not checked; the example has one.
    let endless = json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}});
    let _ = arguments(&tool(&endless));
    let none = json!({"type": "object", "minProperties": 1});
    assert_eq!(arguments(&tool(&none)), Sample::Outline("{...}".to_owned()));
}

fn with_property(property: &Value) -> Sample {
    let schema = json!({"type": "object", "required": ["a", "b"], "properties": {"b": property}});
    arguments(&tool(&schema))
}

#[test]
fn an_example_has_the_required_properties_and_prefers_the_values_of_the_author() {
    let tool: ToolDefinition = serde_json::from_value(json!({
            "name": "t",
            "inputSchema": {
                "type": "object",
                "required": ["city", "unit", "days", "deep", "unknown"],
                "properties": {
                    "city": {"type": "string", "examples": ["Oslo"]},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "days": {"type": ["integer", "null"], "minimum": 3},
                    "deep": {"type": "object", "required": ["on"], "properties": {"on": {"type": "boolean"}}},
                    "left": {"type": "string"},
                },
            },
        }))
        .expect("a definition");
    insta::assert_snapshot!(
        valid(&tool),
        @r#"{"city":"Oslo","unit":"c","days":3,"deep":{"on":true},"unknown":"unknown"}"#
    );
    insta::assert_snapshot!(
        signature(&tool),
        @"(city: string, unit: string, days: integer or null, deep: object, left?: string)"
    );
}
