use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::classes::Side;

/// Renders a schema as a type, with its classes after it.
fn typed(schema: &Value) -> String {
    let budget = RenderBudget::whole();
    let mut classes = Classes::new(Side::Result);
    let kind = TypeWriter::new(Types::new(schema, &budget), Some(&mut classes)).text(schema, "");
    let lines = classes.named_in(&kind);
    [vec![kind], lines].concat().join("\n").replace('\0', "")
}

#[test]
fn each_schema_is_rendered_as_its_python_type() {
    for (schema, expected) in [
        (json!({"type": "string"}), "str"),
        (json!({"type": "number"}), "float"),
        (json!({"type": "integer"}), "int"),
        (json!({"type": "boolean"}), "bool"),
        (json!({"type": "null"}), "None"),
        (json!({"type": "array"}), "list[Any]"),
        (
            json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}),
            "list[list[int]]",
        ),
        (json!({"items": {"type": "string"}}), "list[str]"),
        (
            json!({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}], "items": false}),
            "tuple[float, str]",
        ),
        (
            json!({"type": "array", "items": [{"type": "number"}, {"type": "number"}]}),
            "tuple[float, float]",
        ),
        (
            json!({"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "string"}}),
            "list[str | None]",
        ),
        (json!({"type": "array", "prefixItems": vec![json!({}); 9]}), "list[Any]"),
        (json!({"type": "object"}), "dict"),
        (json!({"type": "object", "additionalProperties": {}}), "dict"),
        (json!({"type": "object", "additionalProperties": {"type": "integer"}}), "dict[str, int]"),
        (json!({"patternProperties": {"^x-": {"type": "string"}}}), "dict[str, str]"),
        (json!({"enum": ["a", "b\"c"]}), r#"Literal["a", "b\"c"]"#),
        (json!({"type": "integer", "enum": [1, -2, true, null]}), "Literal[1, -2, True] | None"),
        (json!({"const": false}), "Literal[False]"),
        (json!({"const": null}), "None"),
        (json!({"enum": [{"a": 1}]}), "dict"),
        (json!({"enum": [], "type": "string"}), "str"),
        (json!({"type": ["null", "string", "integer"]}), "str | int | None"),
        (
            json!({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}),
            "str | list[str]",
        ),
        (json!({"oneOf": [{"type": "string"}, {}]}), "Any"),
        (json!({"allOf": [{"type": "string"}]}), "str"),
        (json!({"type": "string", "nullable": true}), "str | None"),
        (json!({"$ref": "https://example.com/schema"}), "Any"),
        (json!(true), "Any"),
        (json!({}), "Any"),
    ] {
        assert_eq!(typed(&schema), expected, "{schema}");
    }
}

#[test]
fn objects_with_known_fields_are_classes() {
    let schema = json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": ["object", "null"], "properties": {"c": {}}}}}},
        "user-id": {"type": "string"},
    }});
    insta::assert_snapshot!(typed(&schema), @r#"
    Result
    Result = TypedDict("Result", {"a": list[ResultA], "user-id": NotRequired[str]})
    class ResultA(TypedDict): b: NotRequired[ResultB | None]
    class ResultB(TypedDict): c: NotRequired[Any]
    "#);
    assert_eq!(Types::new(&schema, &RenderBudget::whole()).outline(&schema), "dict");
}

#[test]
fn the_parts_of_an_all_of_are_one_class() {
    let schema = json!({"allOf": [{"$ref": "#/$defs/base"}, {"required": ["b"], "properties": {"b": {"const": 1}, "id": {}}}],
        "$defs": {"base": {"required": ["id"], "properties": {"id": {"type": "integer"}}}}});
    insta::assert_snapshot!(typed(&schema), @r"
    Result
    class Result(TypedDict): b: Literal[1]; id: int
    ");
    let endless = json!({"allOf": [{"$ref": "#"}, {"$ref": "#"}], "properties": {"a": {}}});
    assert!(typed(&endless).starts_with("Result\n"));
}

#[test]
fn own_properties_are_not_lost_to_those_of_ancestors() {
    // Inheritance in OpenAPI documents: each level refers to the one above it, then has its own.
    let level = |above: &str, own: &str| json!({"allOf": [{"$ref": format!("#/$defs/{above}")}, {"required": [own], "properties": {own: {}}}]});
    let mut schema = level("b1", "own");
    schema["$defs"] = json!({
        "b1": level("b2", "c1"), "b2": level("b3", "c2"), "b3": level("b4", "c3"), "b4": {"properties": {"c4": {}}},
    });
    let typed = typed(&schema);
    for own in ["own: Any", "c1: Any", "c2: Any"] {
        assert!(typed.contains(own), "{own} in {typed}");
    }
}

#[test]
fn references_are_followed_and_cycles_end() {
    let schema = json!({"$defs": {
        "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "tags": {"$ref": "#/$defs/tags"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "loop": {"$ref": "#/$defs/loop"},
        "nest": {"type": "array", "items": {"$ref": "#/$defs/nest"}},
    }});
    insta::assert_snapshot!(typed_definition(&schema, "node"), @r"
    ResultNode
    class ResultNode(TypedDict): next: NotRequired[ResultNode]; tags: NotRequired[list[str]]
    ");
    assert_eq!(typed_definition(&schema, "loop"), "Any");
    assert_eq!(typed_definition(&schema, "nest"), "list[Any]");
}

/// Renders a definition of a schema.
fn typed_definition(schema: &Value, name: &str) -> String {
    typed(&json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]}))
}

#[test]
fn a_reference_is_paid_by_its_length_and_not_followed_without_budget() {
    let root = (0..100).fold(json!({"type": "string"}), |inner, _| json!({"a": inner}));
    let reference = json!({"$ref": format!("#{}", "/a".repeat(100))});
    let budget = RenderBudget::whole();
    let types = Types::new(&root, &budget);
    assert_eq!(types.outline(&reference), "str");
    // The schema, the segments and the bytes.
    assert_eq!(budget.spent(), 1 + 100 / SEGMENTS_OF_UNIT + 200 / 64);
    while budget.pay(1) {}
    assert_eq!(types.resolve(&reference), &reference);
}

#[test]
fn names_and_permitted_values_are_paid_by_their_bytes() {
    let named = json!({"properties": {"x".repeat(6_400): {}}});
    let budget = RenderBudget::whole();
    assert!(Types::new(&named, &budget).fields(&named).is_some());
    assert_eq!(budget.spent(), 1 + 100);
    for permitted in [json!({"const": "x".repeat(127)}), json!({"enum": ["x".repeat(127)]})] {
        let budget = RenderBudget::whole();
        let types = Types::new(&permitted, &budget);
        assert!(types.outline(&permitted).starts_with("Literal[\"x"));
        assert_eq!(budget.spent(), 1 + 2, "{permitted}");
        // It is too long for an example, which reads it before its type.
        assert_eq!(types.placeholder(&permitted), "\"...\"");
        assert_eq!(budget.spent(), 3 + 1 + 3, "{permitted}");
    }
}

#[test]
fn classes_of_types_that_are_not_shown_are_left_out() {
    assert_eq!(typed(&json!({"anyOf": [object("a"), {}]})), "Any");
    insta::assert_snapshot!(typed(&json!({"anyOf": [object("a"), object("b")]})), @r"
    Result | Result2
    class Result(TypedDict): a: NotRequired[int]
    class Result2(TypedDict): b: NotRequired[int]
    ");
}

fn object(name: &str) -> Value {
    json!({"properties": {name: {"type": "integer"}}})
}

#[test]
fn an_object_with_too_many_fields_or_classes_is_a_dict() {
    assert!(typed(&wide(MAX_FIELDS)).ends_with("  # and 224 more"));
    assert_eq!(typed(&wide(MAX_FIELDS + 1)), "dict");
    let deep =
        (0..20).fold(json!({"type": "object"}), |inner, _| json!({"properties": {"a": inner}}));
    let text = typed(&deep);
    assert_eq!(text.lines().count(), 13, "{text}");
    assert!(text.ends_with("a: NotRequired[Any]"), "{text}");
}

/// Returns an object with so many fields.
fn wide(fields: usize) -> Value {
    let fields = (0..fields).map(|n| (format!("p{n:03}"), json!({})));
    json!({"properties": fields.collect::<Map<_, _>>()})
}

#[test]
fn the_number_of_parts_of_an_object_bounds_their_nesting() {
    assert!(typed(&nested(MAX_PARTS - 1)).contains("; p0: NotRequired[Any]"));
    assert!(!typed(&nested(MAX_PARTS)).contains("p0:"));
    let cycle =
        json!({"properties": {"a": {}}, "allOf": [{"$ref": "#"}, {"properties": {"p0": {}}}]});
    assert!(typed(&cycle).contains("; p0: NotRequired[Any]"));
}

/// Returns an object in which so many parts are nested around the first, `p0`.
fn nested(parts: usize) -> Value {
    let first = json!({"properties": {"p0": {}}});
    (0..parts).fold(first, |inner, _| json!({"properties": {"a": {}}, "allOf": [inner]}))
}

pub(crate) fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<String>()
            .prop_map(|text| json!({"const": text, "description": text, "default": text})),
        prop::collection::vec(any::<String>(), 0..60).prop_map(|texts| json!({"enum": texts})),
        prop::collection::vec(any::<f64>(), 0..6)
            .prop_map(|numbers| json!({"enum": numbers, "default": numbers})),
        "string|null|number|integer|boolean|array|other"
            .prop_map(|kind| json!({"type": kind, "default": 1})),
        "#|#/properties/a|#/items".prop_map(|pointer| json!({"$ref": pointer})),
        any::<i64>().prop_map(|number| json!({"const": number, "minimum": number})),
        Just(json!(true)),
    ];
    let name = prop_oneof!["[a-c]", "for|class|None|load|a-b|__debug__", any::<String>()];
    leaf.prop_recursive(6, 200, 12, move |inner| {
        prop_oneof![
            prop::collection::btree_map(name.clone(), inner.clone(), 0..12).prop_map(|members| {
                let required: Vec<_> = members.keys().take(2).cloned().collect();
                json!({"type": "object", "properties": members, "required": required})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner
                .clone()
                .prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            prop::collection::vec(inner.clone(), 0..10)
                .prop_map(|items| json!({"prefixItems": items})),
            prop::collection::vec(inner.clone(), 0..14).prop_map(|parts| json!({"anyOf": parts})),
            prop::collection::vec(inner, 0..10).prop_map(|parts| json!({"allOf": parts})),
        ]
    })
}

proptest! {
    #[test]
    fn any_schema_has_a_short_type_and_few_classes_of_one_line(schema in schemas()) {
        let text = typed(&schema);
        let mut lines = text.lines();
        let kind = lines.next().expect("a type");
        prop_assert!(kind.len() < 12 * MAX_TEXT && !kind.contains(char::is_control), "{}", kind);
        let classes: Vec<_> = lines.collect();
        prop_assert!(classes.len() <= 16, "{}", text);
        for class in classes {
            prop_assert!(class.len() < 1_300 && !class.contains(char::is_control), "{}", class);
            prop_assert!(class.starts_with("class Result") || class.starts_with("Result"), "{}", class);
        }
    }
}
