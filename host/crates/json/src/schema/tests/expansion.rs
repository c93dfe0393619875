//! Bounds on a schema: the subschemas that meet one value, and those that are compiled.

use serde_json::{Map, Value, json};

use super::{
    super::{
        CompiledSchema, Problem,
        limits::{MAX_DEPTH, MAX_SCHEMA_BYTES, MAX_SUBSCHEMAS},
    },
    compiled, fits, told, unbounded,
};

#[test]
fn a_reference_that_leads_back_without_a_step_into_the_value_has_no_bound() {
    for schema in [
        json!({"$ref": "#"}),
        json!({"allOf": [{"$ref": "#"}]}),
        json!({"anyOf": [{"type": "null"}, {"not": {"$ref": "#"}}]}),
        json!({"if": {"$ref": "#/else"}, "else": {"$ref": "#/if"}}),
        json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"oneOf": [{"$ref": "#/$defs/a"}]}}}),
        json!({"$ref": "#a", "$defs": {"x": {"$anchor": "a", "dependentSchemas": {"k": {"$ref": "#/$defs/x"}}}}}),
        json!({"$dynamicRef": "#a", "$dynamicAnchor": "a"}),
        json!({"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "dependencies": {"k": {"$ref": "#"}}}),
        json!({"properties": {"a/b%": {"$ref": "#/properties/a~1b%25"}}}),
        json!({"$ref": "#/x-own/inner", "x-own": {"inner": {"$ref": "#/x-own/inner"}}}),
    ] {
        assert_eq!(unbounded(&schema), Problem::TooNested, "{schema}");
    }
}

#[test]
fn a_recursion_that_goes_into_the_value_is_accepted() {
    let tree = json!({"type": "object", "properties": {"children": {"type": "array", "items": {"$ref": "#"}}}, "additionalProperties": false});
    assert!(fits(&tree, &json!({"children": [{"children": []}, {}]})));
    insta::assert_snapshot!(told(&tree, &json!({"children": [{"childern": []}]})), @r#"children[0].childern: not allowed here; allowed are "children"; did you mean "children"?"#);
    let expression = json!({"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [group("and"), group("or"), group("not"), {"type": "string"}]}}});
    let mut deep = json!("leaf");
    for _ in 0..31 {
        deep = json!({"and": [deep, "x"]});
    }
    assert!(fits(&expression, &deep));
}

fn group(operator: &str) -> Value {
    json!({"type": "object", "properties": {operator: {"type": "array", "items": {"$ref": "#/$defs/e"}}}, "required": [operator]})
}

#[test]
fn a_schema_whose_subschemas_multiply_has_no_bound() {
    assert!(fits(&fan(7, 2), &json!("x")));
    for (levels, width) in [(9, 2), (26, 2), (200, 2), (40, 50)] {
        let problem = unbounded(&fan(levels, width));
        assert!(matches!(problem, Problem::TooManyEvaluations | Problem::TooNested), "{problem}");
    }
    let chain: Map<String, Value> = (0..300)
        .map(|n| (format!("d{n}"), json!({"$ref": format!("#/$defs/d{}", n + 1)})))
        .collect();
    let mut chain = json!({"$ref": "#/$defs/d0", "$defs": chain});
    chain["$defs"]["d300"] = json!(true);
    assert_eq!(unbounded(&chain), Problem::TooNested);
}

fn fan(levels: usize, width: usize) -> Value {
    let definitions = (0..levels).map(|level| {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        (format!("d{level}"), json!({"anyOf": vec![next; width]}))
    });
    let mut definitions: Map<String, Value> = definitions.collect();
    definitions.insert(format!("d{levels}"), json!({"type": "string"}));
    json!({"$ref": "#/$defs/d0", "$defs": definitions})
}

#[test]
fn size_and_depth_of_a_schema_are_bounded() {
    compiled(&described(MAX_SCHEMA_BYTES));
    assert_eq!(
        unbounded(&described(MAX_SCHEMA_BYTES + 1)),
        Problem::TooLarge { found: MAX_SCHEMA_BYTES + 1 }
    );
    compiled(&nested_nots(MAX_DEPTH));
    assert_eq!(unbounded(&nested_nots(MAX_DEPTH + 1)), Problem::TooDeep);
    compiled(&json!({"anyOf": vec![json!({}); 1_000]}));
    assert_eq!(
        unbounded(&json!({"properties": {"a": {"prefixItems": vec![json!({}); MAX_SUBSCHEMAS]}}})),
        Problem::TooManySubschemas
    );
}

fn nested_nots(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"not": inner}))
}

fn described(bytes: usize) -> Value {
    json!({"description": "x".repeat(bytes - r#"{"description":""}"#.len())})
}

#[test]
fn copies_for_unevaluated_keywords_count_as_memory_and_work() {
    let compiled = (0..12).map_while(|levels| {
        let compiled = CompiledSchema::compile("outputSchema", &doubling(levels)).ok()?;
        Some(compiled.bytes())
    });
    let bytes: Vec<_> = compiled.collect();
    assert!((4..12).contains(&bytes.len()), "{bytes:?}");
    let steps: Vec<_> = bytes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(steps.windows(2).all(|pair| pair[1] > pair[0] + pair[0] / 3), "{steps:?}");
}

fn doubling(levels: usize) -> Value {
    let defs = (0..levels).map(|n| {
        let next = json!({"$ref": format!("#/$defs/d{}", n + 1)});
        (format!("d{n}"), json!({"allOf": [next, next]}))
    });
    let mut defs: Map<String, Value> = defs.collect();
    defs.insert(format!("d{levels}"), json!({"properties": {"a": true}}));
    json!({"$defs": defs, "$ref": "#/$defs/d0", "unevaluatedProperties": false})
}

#[test]
fn evaluations_for_unevaluated_keywords_are_charged() {
    let flat = json!({"allOf": [{"properties": {"a": {}}}], "properties": {"b": {}}, "unevaluatedProperties": false});
    assert!(fits(&flat, &json!({"a": 1, "b": 1})));
    insta::assert_snapshot!(told(&flat, &json!({"a": 1, "c": 1})), @"c: not allowed here");
    compiled(&nested_unevaluated(3));
    assert_eq!(unbounded(&nested_unevaluated(6)), Problem::TooManyEvaluations);
}

fn nested_unevaluated(levels: usize) -> Value {
    (0..levels)
        .fold(json!({}), |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}))
}

#[test]
fn a_schema_that_is_compiled_again_for_each_path_has_no_bound() {
    compiled(&fan_of_paths(3));
    assert_eq!(unbounded(&fan_of_paths(30)), Problem::TooEntangled);
    // Strict types that refer to each other are followed once each.
    let mut types: Map<String, Value> = (0..20)
        .map(|n| (format!("t{n}"), strict_type(&format!("#/$defs/t{}", (n + 1) % 20))))
        .collect();
    types.insert(
        "base".into(),
        json!({"properties": {"id": {"type": "string"}, "of": {"$ref": "#/$defs/t3"}}}),
    );
    let strict = json!({"$ref": "#/$defs/t0", "$defs": types});
    assert!(fits(&strict, &json!({"id": "x", "next": {"next": {}, "of": {}}})));
    assert!(!fits(&strict, &json!({"id": "x", "next": {"other": {}}})));
}

fn fan_of_paths(levels: usize) -> Value {
    let mut definitions: Map<String, Value> = (0..levels)
        .map(|n| (format!("m{n}"), json!({"additionalProperties": level(n + 1)})))
        .collect();
    definitions.insert(format!("m{levels}"), json!({}));
    let mut nested = level(0);
    nested["$defs"] = Value::Object(definitions);
    nested
}

fn level(n: usize) -> Value {
    json!({"allOf": [{"$ref": format!("#/$defs/m{n}")}, {"$ref": format!("#/$defs/m{n}")}], "unevaluatedProperties": false})
}

fn strict_type(next: &str) -> Value {
    json!({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"next": {"$ref": next}}, "unevaluatedProperties": false})
}

#[test]
fn references_that_multiply_with_their_anchors_are_unbounded() {
    drop(compiled(&document(90)));
    assert_eq!(unbounded(&document(110)), Problem::TooEntangled);
}

fn document(references: usize) -> Value {
    let anchored = vec![json!({"$anchor": "a"}); 500];
    let properties: Map<_, _> =
        (0..references).map(|n| (format!("p{n}"), json!({"$ref": "#a"}))).collect();
    json!({"$defs": {"all": {"enum": [1], "prefixItems": anchored}}, "properties": properties})
}
