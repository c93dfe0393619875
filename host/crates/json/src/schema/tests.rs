use std::thread;

use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;

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
fn a_branching_recursion_is_checked_until_the_value_is_too_expensive() {
    let schema = json!({"anyOf": [
        {"type": "object", "properties": {"op": {"const": "and"}, "of": {"items": {"$ref": "#"}}}, "required": ["op"]},
        {"type": "object", "properties": {"op": {"const": "or"}, "of": {"items": {"$ref": "#"}}}, "required": ["op"]},
        {"type": "string"},
    ]});
    assert!(fits(&schema, &nested_ors(8, json!("x"))));
    assert!(
        told(&schema, &nested_ors(3, json!(1))).contains("of[0].of[0].of[0]"),
        "{}",
        told(&schema, &nested_ors(3, json!(1)))
    );
    insta::assert_snapshot!(told(&schema, &nested_ors(30, json!(1))), @"too large to be checked against the schema; pass less at once");
    let eight = json!({"anyOf": vec![json!({"properties": {"in": {"$ref": "#"}}}); 8]});
    assert!(fits(&eight, &nested_ins(4)));
    insta::assert_snapshot!(told(&eight, &nested_ins(12)), @"too large to be checked against the schema; pass less at once");
}

fn nested_ins(levels: usize) -> Value {
    (0..levels).fold(json!({}), |inner, _| json!({"in": inner}))
}

fn nested_ors(levels: usize, leaf: Value) -> Value {
    (0..levels).fold(leaf, |inner, _| json!({"op": "or", "of": [inner]}))
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
fn depth_and_size_of_a_value_are_bounded() {
    assert!(fits(&json!({}), &nested_arrays(MAX_DEPTH)));
    insta::assert_snapshot!(told(&json!({}), &nested_arrays(MAX_DEPTH + 1)), @"nested deeper than 64 levels");
    let each = json!({"items": {"enum": (0..500).collect::<Vec<_>>()}});
    assert!(fits(&each, &json!(vec![1; 10_000])));
    insta::assert_snapshot!(told(&each, &json!(vec![1; 30_000])), @"too large to be checked against the schema; pass less at once");
    insta::assert_snapshot!(told(&json!({"items": {"type": "string"}}), &json!(vec![1; 30_000])), @"does not match the schema, and is too large to say where");
}

fn nested_arrays(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!([inner]))
}

#[test]
fn comparing_items_with_each_other_is_bounded_where_their_hashes_can_be_made_equal() {
    let unique = json!({"uniqueItems": true});
    let names: Vec<_> = (0..50_000).map(|n| n.to_string()).collect();
    assert!(fits(&unique, &json!(names)));
    assert!(fits(&unique, &json!((0..50_000).collect::<Vec<_>>())));
    assert!(fits(&unique, &colliding(1_000)));
    assert!(told(&unique, &colliding(4_000)).contains("too large"));
    assert!(
        told(&unique, &json!((0..4_000).map(|n| (1_u64 << 63) + n).collect::<Vec<_>>()))
            .contains("too large")
    );
}

fn colliding(count: u64) -> Value {
    json!((0..count).map(|n| json!([(1_u64 << 63) + n])).collect::<Vec<_>>())
}

#[test]
fn a_check_is_quick_up_to_a_bound_on_its_work_and_on_its_errors() {
    let pattern = compiled(&json!({"pattern": "[01]*1[01]{350}[a-y]"}));
    assert!(pattern.is_quick(&zeros_and_ones(1)) && !pattern.is_quick(&zeros_and_ones(3_000)));
    let longest =
        (1..3_000).rfind(|length| pattern.is_quick(&zeros_and_ones(*length))).expect("the first");
    assert!((1..=longest).all(|length| pattern.is_quick(&zeros_and_ones(length))));
    assert!((longest + 1..3_000).all(|length| !pattern.is_quick(&zeros_and_ones(length))));
    assert!(pattern.check(&zeros_and_ones(longest + 1)).is_err(), "it is checked all the same");
    let items = compiled(&json!({"items": {"type": "string"}}));
    assert!(items.is_quick(&texts(100)) && !items.is_quick(&texts(2_000)), "each may be an error");
    assert!(items.check(&texts(2_000)).is_ok());
    let deep = (0..=MAX_DEPTH).fold(json!(1), |inner, _| json!([inner]));
    assert!(items.is_quick(&deep), "it is refused at once");
}

fn texts(length: usize) -> Value {
    Value::from(vec![Value::from("x"); length])
}

fn zeros_and_ones(length: usize) -> Value {
    Value::from("01".repeat(length))
}

#[test]
fn patterns_that_are_not_linear_or_too_large_are_invalid() {
    assert!(fits(&json!({"pattern": "^(a+)+$"}), &json!("a".repeat(1_000))));
    for pattern in ["(?=a)", r"(a)\1", "(", "a{1000}{1000}", ".{5000}"] {
        assert_eq!(invalid(&json!({"pattern": pattern})), Problem::Pattern(pattern.into()));
        assert_eq!(
            invalid(&json!({"patternProperties": {pattern: {}}})),
            Problem::Pattern(pattern.into())
        );
    }
    compiled(&patterns(pattern::MAX_PATTERNS));
    assert_eq!(unbounded(&patterns(pattern::MAX_PATTERNS + 1)), Problem::TooManyPatterns);
    let costly = json!({"pattern": "[01]*1[01]{400}[a-y]"});
    assert!(fits(&costly, &json!(format!("1{}a", "0".repeat(400)))));
    assert!(told(&costly, &json!("01".repeat(50_000))).contains("too large"));
    let key = json!({"patternProperties": {"[01]*1[01]{400}[a-y]": true}});
    assert!(told(&key, &json!({"01".repeat(50_000): 1})).contains("too large"));
    assert!(fits(&json!({"pattern": "^[A-Za-z0-9+/]*={0,2}$"}), &json!("QUJD".repeat(25_000))));
}

fn patterns(count: usize) -> Value {
    let patterns: Map<String, Value> = (0..count).map(|n| (format!("^{n}x"), json!({}))).collect();
    json!({"patternProperties": patterns})
}

#[test]
fn a_pattern_is_parsed_only_within_its_length_and_work() {
    let longest = "a".repeat(pattern::MAX_PATTERN_BYTES);
    assert!(fits(&json!({"pattern": longest}), &json!(longest)));
    let found = longest.len() + 1;
    let longer = json!({"pattern": format!("{longest}b")});
    assert_eq!(unbounded(&longer), Problem::LongPattern { found });
    for part in [r"\s", r"(?i:[a-\u{10FFFF}])"] {
        let dense = part.repeat(pattern::MAX_PATTERN_BYTES / part.len());
        assert_eq!(unbounded(&json!({"pattern": dense})), Problem::TooMuchWork, "{part}");
    }
    compiled(&classes(8));
}

fn classes(count: usize) -> Value {
    let patterns = (0..count).map(|n| (format!("^{}{n}$", "[a-z][0-9]".repeat(90)), json!({})));
    json!({"patternProperties": patterns.collect::<Map<_, _>>()})
}

#[test]
fn the_schemas_of_one_source_share_the_work_of_the_compiler() {
    let mut work = CompileWork::of_documents(1);
    assert!(compile_within(&mut work, &costly_schema(0)).is_ok());
    let outcomes: Vec<_> =
        (1..40).map(|n| compile_within(&mut work, &costly_schema(n)).err()).collect();
    assert_eq!(outcomes[0], None);
    assert_eq!(outcomes.last(), Some(&Some(Problem::TooMuchWork)));
    let plain = JsonText::from(json!({"type": "object"}));
    assert_eq!(
        compile_within(&mut work, &plain).err(),
        Some(Problem::TooMuchWork),
        "nothing is left"
    );
    let mut work = CompileWork::of_documents(1);
    let refused = JsonText::from(json!({"pattern": format!("{}(", r"\s".repeat(80))}));
    for _ in 0..40 {
        assert!(compile_within(&mut work, &refused).is_err());
    }
    assert!(
        compile_within(&mut work, &costly_schema(0)).is_err(),
        "a schema that cannot be used costs the same"
    );
}

fn costly_schema(n: usize) -> JsonText {
    JsonText::from(json!({"pattern": format!("{}{n}", r"\s".repeat(80))}))
}

fn compile_within(work: &mut CompileWork, schema: &JsonText) -> Result<CompiledSchema, Problem> {
    CompiledSchema::compile_text_within("outputSchema", schema, work).map_err(|bad| bad.problem)
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
fn errors_that_would_copy_a_large_value_often_are_not_collected() {
    let names: Vec<_> = (0..1_000).map(|n| format!("n{n}")).collect();
    let given: Map<String, Value> = (0..1_000).map(|n| (format!("g{n}"), json!("x"))).collect();
    let given = Value::Object(given);
    // Each missing name is an error with a copy of the object.
    let required = json!({"anyOf": [{"required": names}, {"type": "string"}]});
    insta::assert_snapshot!(told(&required, &given), @"does not match the schema, and is too large to say where");
    // So is each key that is not allowed.
    let keys = json!({"anyOf": [{"propertyNames": {"maxLength": 1}}, {"type": "string"}]});
    insta::assert_snapshot!(told(&keys, &given), @"does not match the schema, and is too large to say where");
    insta::assert_snapshot!(told(&keys, &json!({"abc": 1})), @"abc: not allowed as a key, expected at most 1 character (of 2 forms, what was given is nearest to this)");
}

#[test]
fn long_texts_are_charged_for_each_evaluation() {
    let long = "x".repeat(2 << 20);
    for (form, value) in [
        (json!({"minLength": 1}), json!(long)),
        (json!({"const": 1}), json!(long)),
        (json!({"uniqueItems": true}), json!([long, format!("{long}y")])),
        (json!({"propertyNames": {"minLength": 1}}), json!({long.clone(): 1})),
    ] {
        let told = told(&forms(&form), &value);
        assert_eq!(told, "too large to be checked against the schema; pass less at once");
    }
}

fn forms(form: &Value) -> Value {
    json!({"allOf": vec![json!({"$ref": "#/$defs/form"}); 500], "$defs": {"form": form}})
}

/// Wraps a schema into another one, and its value into a value for the new schema.
type Wrap = fn(Value, Value) -> (Value, Value);

/// Returns schemas of `levels` levels, one for each way to nest subschemas, each with a value.
fn deep_schemas(levels: usize) -> Vec<(Value, Value)> {
    let forms: [Wrap; 12] = [
        |s, v| (json!({"properties": {"a": s}}), json!({"a": v})),
        |s, v| (json!({"patternProperties": {"^a": s}}), json!({"a": v})),
        |s, v| (json!({"properties": {"b": {}}, "additionalProperties": s}), json!({"a": v})),
        |s, v| (json!({"items": s}), json!([v])),
        |s, v| (json!({"prefixItems": [s]}), json!([v])),
        |s, v| (json!({"contains": s, "minContains": 1}), json!([v])),
        |s, v| (json!({"unevaluatedItems": s}), json!([v])),
        |s, v| (json!({"anyOf": [s]}), v),
        |s, v| (json!({"oneOf": [s, false]}), v),
        |s, v| (json!({"allOf": [s, true]}), v),
        |s, v| (json!({"if": true, "then": s}), v),
        |s, v| (json!({"not": s}), v),
    ];
    forms
        .iter()
        .map(|form| {
            let start = (json!({"$ref": "#/$defs/next"}), json!(1));
            (0..levels).fold(start, |(schema, value), _| form(schema, value))
        })
        .collect()
}

#[test]
fn the_deepest_schemas_compile_without_a_stack_overflow() {
    for (deep, _) in deep_schemas(28) {
        // The compiler follows eight references on its stack.
        let mut definitions = Map::from_iter([("next".to_owned(), json!({"type": "string"}))]);
        for n in 0..10 {
            let text = deep.to_string().replace(
                "#/$defs/next",
                &if n == 0 { "#/$defs/next".to_owned() } else { format!("#/$defs/d{}", n - 1) },
            );
            definitions.insert(format!("d{n}"), serde_json::from_str(&text).expect("JSON"));
        }
        let schema = json!({"$ref": "#/$defs/d9", "$defs": definitions});
        match CompiledSchema::compile("inputSchema", &schema) {
            Ok(_) => {}
            Err(bad) => {
                assert!(matches!(bad.problem, Problem::TooNested | Problem::TooEntangled), "{bad}");
            }
        }
    }
}

#[test]
fn a_check_fits_into_half_a_megabyte_of_stack() {
    let schemas = deep_schemas(30).into_iter().filter_map(|(deep, value)| {
        let schema = json!({"allOf": [deep], "$defs": {"next": {"type": "string"}}});
        CompiledSchema::compile("inputSchema", &schema).ok().map(|compiled| (compiled, value))
    });
    let schemas: Vec<_> = schemas.collect();
    assert!(schemas.len() >= 10, "{}", schemas.len());
    // Six subschemas inside each other for each level of the value, up to the limit.
    let recursion = compiled(&json!({"$ref": "#/$defs/a", "$defs": {
        "a": {"oneOf": [{"$ref": "#/$defs/b"}]},
        "b": {"dependentSchemas": {"a": {"$ref": "#/$defs/c"}}},
        "c": {"patternProperties": {"^a$": {"$ref": "#/$defs/a"}}, "properties": {"b": {"type": "string"}}},
    }}));
    let thread = thread::Builder::new().stack_size(512 << 10).spawn(move || {
        for (schema, value) in &schemas {
            // The result does not matter, only that the check returns.
            let _ = schema.check(value);
        }
        let checked = (0..MAX_DEPTH).map(|levels| {
            recursion.check(&nested_members(levels)).expect_err("it does not fit").to_string()
        });
        checked.filter(|told| told.contains("b: found 1, expected a string")).count()
    });
    let explained = thread.expect("a thread").join().expect("no panic");
    // Values that nest deeper are not checked.
    assert!((40..50).contains(&explained), "{explained}");
}

fn nested_members(levels: usize) -> Value {
    (0..levels).fold(json!({"b": 1, "a": {}}), |inner, _| json!({"a": inner}))
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        "[ab]{0,2}".prop_map(Value::from)
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::hash_map("[ab]", inner, 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any_value().prop_map(|value| json!({"const": value})),
        prop::sample::select(vec!["string", "object", "array", "integer", "null"])
            .prop_map(|kind| json!({"type": kind})),
        prop::sample::select(vec![
            "#",
            "#/$defs/x",
            "#/$defs/y",
            "#z",
            "#/properties/a",
            "#/allOf/0"
        ])
        .prop_map(|to| json!({"$ref": to})),
        Just(json!({"uniqueItems": true, "pattern": "^a"})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let one = prop::sample::select(vec![
            "not",
            "if",
            "then",
            "else",
            "items",
            "additionalProperties",
            "contains",
            "propertyNames",
            "unevaluatedProperties",
            "unevaluatedItems",
        ]);
        let list = prop::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]);
        let named = prop::sample::select(vec![
            "properties",
            "patternProperties",
            "dependentSchemas",
            "$defs",
        ]);
        let member = prop_oneof![
            (one, inner.clone()).prop_map(|(keyword, schema)| (keyword.to_owned(), schema)),
            (list, prop::collection::vec(inner.clone(), 1..3))
                .prop_map(|(keyword, schemas)| (keyword.to_owned(), json!(schemas))),
            (named, prop::collection::hash_map("[abxy]", inner, 1..3)).prop_map(
                |(keyword, schemas)| (
                    keyword.to_owned(),
                    Value::Object(schemas.into_iter().collect())
                )
            ),
        ];
        prop::collection::hash_map(Just(()), member, 0..2)
            .prop_flat_map(|members| Just(members.into_values().collect::<Map<_, _>>()))
            .prop_map(Value::Object)
    })
}

proptest! {
    #[test]
    fn an_accepted_schema_gives_the_same_results_as_the_crate(schemas in prop::collection::vec(any_schema(), 1..4), value in any_value()) {
        let mut schema = json!({"allOf": schemas, "$defs": {"x": true, "y": {"type": "string"}, "w": {"$anchor": "z"}}});
        schema["properties"] = json!({"a": schema["allOf"][0]});
        if let Ok(compiled) = CompiledSchema::compile("inputSchema", &schema) {
            let plain = jsonschema::options().should_validate_formats(false).build(&schema).expect("it was accepted");
            let checked = compiled.check(&value);
            prop_assert_eq!(checked.is_ok(), plain.is_valid(&value));
            if let Err(violations) = checked {
                prop_assert!(!violations.told().is_empty());
            }
        }
    }
}

#[test]
fn every_application_of_a_subschema_is_charged_for_each_value() {
    let tuple = json!({"items": {"prefixItems": vec![json!(true); 4_000]}});
    assert!(fits(&tuple, &json!(vec![0; 1_000])));
    insta::assert_snapshot!(told(&tuple, &json!(vec![0; 10_000])), @"too large to be checked against the schema; pass less at once");
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

#[test]
fn errors_whose_paths_are_long_are_not_collected() {
    let schema = json!({"additionalProperties": {"items": {"type": "string"}}});
    assert!(told(&schema, &keyed(10)).contains("expected"), "{}", told(&schema, &keyed(10)));
    insta::assert_snapshot!(told(&schema, &keyed(200_000)), @"does not match the schema, and is too large to say where");
}

fn keyed(key: usize) -> Value {
    json!({"k".repeat(key): vec![1; 100]})
}

#[test]
fn errors_after_many_evaluations_are_not_collected() {
    let schema = json!({"items": {"title": "anything"}, "maxItems": 1});
    assert!(is_explained(&schema, 9_000) && !is_explained(&schema, 21_000));
}

fn is_explained(schema: &Value, items: usize) -> bool {
    !told(schema, &json!(vec![0; items])).contains("too large")
}
