//! Bounds on a check: its work, and the memory of its errors.

use serde_json::{Map, Value, json};

use super::{super::limits::MAX_DEPTH, compiled, fits, told};

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

#[test]
fn a_value_fits_quickly_if_it_fits_and_its_check_is_quick() {
    let items = compiled(&json!({"items": {"type": "string"}}));
    assert!(items.fits_quickly(&texts(100)) && !items.fits_quickly(&json!(["x", 1])));
    assert!(items.fits_quickly(&texts(2_000)), "no errors are collected");
    assert!(!items.fits_quickly(&texts(30_000)) && items.check(&texts(30_000)).is_ok());
    let deepest = (0..MAX_DEPTH).fold(json!("x"), |inner, _| json!([inner]));
    let any = compiled(&json!({}));
    assert!(any.fits_quickly(&deepest) && !any.fits_quickly(&json!([deepest])));
    let pattern = compiled(&json!({"pattern": "^[01]*$"}));
    assert!(pattern.fits_quickly(&zeros_and_ones(100)));
    let long = zeros_and_ones(10_000);
    assert!(!pattern.fits_quickly(&long) && pattern.check(&long).is_ok(), "it takes longer");
}

fn texts(length: usize) -> Value {
    Value::from(vec![Value::from("x"); length])
}

fn zeros_and_ones(length: usize) -> Value {
    Value::from("01".repeat(length))
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

#[test]
fn every_application_of_a_subschema_is_charged_for_each_value() {
    let tuple = json!({"items": {"prefixItems": vec![json!(true); 4_000]}});
    assert!(fits(&tuple, &json!(vec![0; 1_000])));
    insta::assert_snapshot!(told(&tuple, &json!(vec![0; 10_000])), @"too large to be checked against the schema; pass less at once");
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
