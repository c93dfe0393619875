//! Agreement with the crate `jsonschema`, for schemas and values of any form.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::CompiledSchema;

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
                prop_assert!(!violations.reported().is_empty());
            }
        }
    }
}
