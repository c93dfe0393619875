//! The text that explains why a value does not fit.

use serde_json::{Map, Value, json};

use super::told;

fn search() -> Value {
    json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "minLength": 1, "maxLength": 40},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
            "mode": {"enum": ["quick", "thorough"]},
            "sort": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "filters": {"type": "array", "maxItems": 3, "items": {"$ref": "#/$defs/filter"}},
            "flags": {"type": "array", "uniqueItems": true, "items": {"type": "boolean"}},
        },
        "required": ["query"],
        "additionalProperties": false,
        "$defs": {"filter": {
            "type": "object",
            "properties": {"name": {"type": "string", "pattern": "^[a-z]+$"}, "value": {"type": ["string", "number"]}},
            "required": ["name", "value"],
        }},
    })
}

fn searched(arguments: &Value) -> String {
    told(&search(), arguments)
}

#[test]
fn a_missing_member_is_named_with_its_type_and_a_similar_name() {
    insta::assert_snapshot!(searched(&json!({})), @"query: missing, expected a string");
    insta::assert_snapshot!(searched(&json!({"qeury": "x"})), @r#"

    - qeury: not allowed here; allowed are "query", "limit", "mode", "sort", "filters", "flags"; did you mean "query"?
    - query: missing, expected a string; did you write "qeury" for it?
    "#);
    insta::assert_snapshot!(searched(&json!({"query": "x", "filters": [{"name": "a", "value": 1}, {"Value": 1, "name": "b"}]})), @r#"filters[1].value: missing; did you write "Value" for it?"#);
}

#[test]
fn a_value_of_the_wrong_type_is_reported_with_the_expected_type() {
    insta::assert_snapshot!(searched(&json!({"query": "x", "limit": "10"})), @r#"limit: found "10", expected an integer, not its text in quotes"#);
    insta::assert_snapshot!(searched(&json!({"query": "x", "limit": 2.5})), @"limit: found 2.5, expected an integer");
    insta::assert_snapshot!(searched(&json!({"query": "x", "filters": "[{\"name\": 1}]"})), @r#"filters: found "[{\"name\": 1}]", expected an array, not its text in quotes"#);
    insta::assert_snapshot!(searched(&json!({"query": ["x"]})), @"query: found an array of 1 item, expected a string");
    insta::assert_snapshot!(searched(&json!({"query": "x", "sort": 7})), @"sort: found 7, expected a string or null");
    insta::assert_snapshot!(searched(&json!({"query": "x", "filters": [{"name": "a", "value": null}]})), @"filters[0].value: found null, expected a number or a string");
}

#[test]
fn a_value_out_of_bounds_is_reported_with_the_bound() {
    insta::assert_snapshot!(searched(&json!({"query": "", "limit": 101})), @r#"

    - query: found "", expected at least 1 character
    - limit: found 101, expected at most 100
    "#);
    insta::assert_snapshot!(searched(&json!({"query": "x".repeat(41)})), @r#"query: found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…" of 41 characters, expected at most 40 characters"#);
    insta::assert_snapshot!(searched(&json!({"query": "x", "mode": "thorogh"})), @r#"mode: found "thorogh", expected one of "quick", "thorough"; did you mean "thorough"?"#);
    insta::assert_snapshot!(searched(&json!({"query": "x", "flags": [true, true]})), @"flags: found an array of 2 items, expected each item only once");
    insta::assert_snapshot!(searched(&json!({"query": "x", "filters": [{"name": "A1", "value": 1}]})), @r#"filters[0].name: found "A1", expected text that matches ^[a-z]+$"#);
}

#[test]
fn a_value_that_fits_no_form_is_explained_by_the_nearest_form() {
    let shape = json!({"oneOf": [form("square", "side"), form("circle", "radius")]});
    insta::assert_snapshot!(told(&shape, &json!({"kind": "circle", "radius": "x"})), @r#"radius: found "x", expected a number (of 2 forms, what was given is nearest to this)"#);
    insta::assert_snapshot!(told(&json!({"anyOf": [{"const": 1}, {"enum": ["a", "b"]}, {"type": "null"}]}), &json!(2)), @r#"found 2, expected 1 or one of "a", "b" or null"#);
    insta::assert_snapshot!(told(&json!({"oneOf": [{"type": "number"}, {"minimum": 1}]}), &json!(2)), @"found 2, expected exactly one of several forms, and it has more than one");
}

fn form(kind: &str, member: &str) -> Value {
    json!({"type": "object", "properties": {"kind": {"const": kind}, member: {"type": "number"}}, "required": ["kind", member]})
}

#[test]
fn violations_of_rare_keywords_are_explained() {
    insta::assert_snapshot!(told(&json!({"not": {"type": "string"}}), &json!("x")), @r#"found "x", expected anything that does not match {"type":"string"}"#);
    insta::assert_snapshot!(told(&json!({"properties": {"a": false}}), &json!({"a": {"b": 1, "c": 2}})), @"a: not allowed here");
    insta::assert_snapshot!(told(&json!({"propertyNames": {"maxLength": 2}}), &json!({"abc": 1})), @"abc: not allowed as a key, expected at most 2 characters");
    insta::assert_snapshot!(told(&json!({"contains": {"const": 1}}), &json!([2])), @r#"found an array of 1 item, expected as many items that match "contains" as the schema asks for"#);
    insta::assert_snapshot!(told(&json!({"dependentRequired": {"a": ["b"]}}), &json!({"a": 1})), @"b: missing");
    insta::assert_snapshot!(told(&json!({"multipleOf": 5}), &json!(7)), @"found 7, expected a multiple of 5");
    insta::assert_snapshot!(told(&json!({"prefixItems": [{}], "items": false}), &json!([1, 2])), @"[1]: not allowed here");
}

#[test]
fn the_text_of_violations_is_bounded_for_any_value_and_schema() {
    let long = "ä".repeat(5_000);
    let properties: Map<String, Value> =
        (0..100).map(|index| (format!("{long}{index}"), json!({"const": long}))).collect();
    let names: Vec<_> = properties.keys().cloned().collect();
    let given: Map<String, Value> = names.iter().map(|name| (name.clone(), json!(long))).collect();
    let schema = json!({"properties": {"a": {"items": {"enum": [long, long, long, long, long, long, long, long, long]}}}});
    for text in [
        told(&schema, &json!({"a": vec![format!("{long}x"); 50]})),
        told(&json!({"required": &names[..10]}), &json!({})),
        told(&json!({"additionalProperties": false}), &Value::Object(given)),
        told(&json!({"not": {"const": long}}), &json!(long)),
    ] {
        assert!(text.len() <= 2 << 10, "{} bytes", text.len());
        assert!(text.contains('…'), "{text}");
    }
    let ten =
        told(&json!({"required": ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]}), &json!({}));
    insta::assert_snapshot!(ten, @r"

    - a: missing
    - b: missing
    - c: missing
    - d: missing
    - e: missing
    - and 5 more
    ");
}
