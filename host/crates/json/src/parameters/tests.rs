use serde_json::json;

use super::*;

fn repair(schema: Value) -> (Value, Vec<String>) {
    let mut repairs = Vec::new();
    let repaired = repaired(&schema.clone().into(), &mut repairs);
    (repaired.map_or(schema, |json| json.to_value().expect("JSON")), repairs)
}

#[test]
fn a_schema_that_providers_take_stays_as_it_is() {
    let schema = json!({
        "type": "object", "$defs": {"z": {"anyOf": [{"type": "string"}, {"not": {}}]}, "a": {}},
        "additionalProperties": false, "required": ["q"],
        "properties": {
            "q": {"$ref": "#/$defs/z", "enum": ["$ref"]},
            "$ref": {"type": "array", "items": {}}, "items": {"default": [{"$ref": "http://x"}]},
        },
        "if": {"properties": {"q": {"const": 1}}}, "then": {"required": ["items"]},
    });
    let mut repairs = Vec::new();
    assert_eq!(repaired(&schema.into(), &mut repairs), None);
    assert!(repairs.is_empty(), "{repairs:?}");
}

#[test]
fn alternatives_at_the_root_become_properties_of_all_of_them() {
    let (schema, repairs) = repair(json!({
        "type": "object", "title": "T", "properties": {"x": {"type": "string"}}, "required": ["x"],
        "$defs": {"a": {"properties": {"kind": {"const": "a"}, "id": {}}, "required": ["kind", "id"]}},
        "oneOf": [
            {"$ref": "#/$defs/a"},
            {"properties": {"kind": {"const": "b"}, "x": {"maxLength": 3}}, "required": ["kind"]},
        ],
        "not": {"required": ["y"]},
    }));
    assert_eq!(
        schema,
        json!({
            "type": "object", "title": "T",
            "$defs": {"a": {"properties": {"kind": {"const": "a"}, "id": {}}, "required": ["kind", "id"]}},
            "properties": {
                "x": {"allOf": [{"type": "string"}, {"maxLength": 3}]},
                "kind": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "id": {},
            },
            "required": ["x", "kind"],
            "description": "Needs one of these sets of arguments: (kind, id) or (kind)",
        })
    );
    assert_eq!(
        repairs,
        ["for models: `anyOf`, `oneOf`, `allOf`, `not`, `enum` and `const` at the root resolved"]
    );
    let (schema, _) = repair(json!({"type": "object", "allOf": [
        {"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b", "a"]},
    ]}));
    assert_eq!(schema["required"], json!(["a", "b"]));
    assert_eq!(schema["properties"], json!({"a": {}, "b": {}}));
}

#[test]
fn references_out_of_the_document_or_to_nothing_are_removed_and_never_fetched() {
    let (schema, repairs) = repair(json!({
        "type": "object", "$defs": {"a b": {"type": "string"}},
        "properties": {
            "far": {"$ref": "http://169.254.169.254/latest", "description": "D"},
            "file": {"$ref": "file:///etc/passwd"}, "lost": {"$ref": "#/$defs/none"},
            "odd": {"$ref": 7}, "ok": {"$ref": "#/$defs/a%20b"}, "self": {"$ref": "#"},
        },
    }));
    assert_eq!(
        schema["properties"],
        json!({
            "far": {"description": "D"}, "file": {}, "lost": {}, "odd": {},
            "ok": {"$ref": "#/$defs/a%20b"}, "self": {"$ref": "#"},
        })
    );
    assert_eq!(
        repairs,
        [
            "for models: `$ref` to another document removed",
            "for models: `$ref` without a target removed"
        ]
    );
}

#[test]
fn forms_that_providers_refuse_are_changed() {
    let (schema, repairs) = repair(json!({"type": "object", "required": null, "properties": {
        "list": {"type": "array"}, "maybe": {"type": ["array", "null"]},
        "pair": {"type": "array", "items": [{"type": "string"}], "additionalItems": false},
        "n": {"minimum": 1, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
        "o": {"type": "object", "properties": [], "required": true},
    }}));
    assert_eq!(
        schema,
        json!({"type": "object", "properties": {
            "list": {"type": "array", "items": {}}, "maybe": {"type": ["array", "null"], "items": {}},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}], "items": false},
            "n": {"exclusiveMinimum": 1, "maximum": 9},
            "o": {"type": "object"},
        }})
    );
    assert_eq!(repairs.len(), 5, "{repairs:?}");
    let (schema, repairs) = repair(json!({"type": "object"}));
    assert_eq!(schema, json!({"type": "object", "properties": {}}));
    assert_eq!(repairs, ["for models: `properties` added"]);
    let (schema, repairs) = repair(json!({
        "type": "object", "$ref": "#/definitions/Args",
        "definitions": {"Args": {"properties": {"a": {}}, "required": ["a"]}},
    }));
    assert_eq!((&schema["properties"], &schema["required"]), (&json!({"a": {}}), &json!(["a"])));
    assert_eq!(repairs, ["for models: `$ref` at the root resolved"]);
}

#[test]
fn a_schema_that_multiplies_itself_is_merged_within_bounds() {
    let defs: Map<String, Value> =
        (0..60).map(|n| (n.to_string(), doubled((n + 1) % 60))).collect();
    let (schema, repairs) =
        repair(json!({"type": "object", "$defs": defs, "allOf": [{"$ref": "#/$defs/0"}]}));
    assert_eq!(schema["properties"], json!({}));
    assert!(repairs.iter().any(|repair| repair.contains("too many")), "{repairs:?}");
    let deep = (0..100).fold(json!({}), |inner, _| json!({"type": "array", "contains": inner}));
    let (_, repairs) = repair(json!({"type": "object", "properties": {"deep": deep}}));
    assert_eq!(repairs, ["for models: `items` added to arrays"]);
    let arrays: Vec<Value> = (0..MAX_SCHEMA_BYTES / 20).map(|_| json!({"type": "array"})).collect();
    let (schema, repairs) =
        repair(json!({"type": "object", "properties": {"x": {"anyOf": arrays}}}));
    assert_eq!(schema, json!({"type": "object", "properties": {}}));
    assert_eq!(
        repairs,
        ["for models: arguments not described, because the schema is too large or too deep"]
    );
    let big: Map<String, Value> =
        (0..9_000).map(|n| (format!("p{n}"), json!({"a": [n, n]}))).collect();
    let branches = vec![json!({"$ref": "#/$defs/big"}); 200];
    let (schema, repairs) =
        repair(json!({"type": "object", "$defs": {"big": {"properties": big}}, "anyOf": branches}));
    assert!(schema["properties"].is_object() && repairs.len() <= 2, "{repairs:?}");
}

fn doubled(next: usize) -> Value {
    json!({"anyOf": [{"$ref": format!("#/$defs/{next}")}, {"$ref": format!("#/$defs/{next}")}]})
}

#[test]
fn one_property_of_many_schemas_stays_shallow() {
    let all: Vec<Value> = (0..200).map(|n| json!({"properties": {"a": {"minimum": n}}})).collect();
    let (schema, _) = repair(json!({"type": "object", "allOf": all}));
    assert_eq!(schema["properties"]["a"]["allOf"].as_array().map(Vec::len), Some(200));
    let deep = (0..118).fold(json!({}), |inner, _| json!({"x": inner}));
    let deep = json!({"allOf": [{"properties": {"a": {"default": deep}}}]});
    let nested = json!({"type": "object", "anyOf": [deep, {"properties": {"a": {"const": 1}}}]});
    let (schema, repairs) = repair(nested);
    assert!(JsonText::from(schema).to_value().is_ok(), "{repairs:?}");
}
