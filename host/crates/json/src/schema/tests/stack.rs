//! The stack that compiling and checking take.

use std::thread;

use serde_json::{Map, Value, json};

use super::{
    super::{CompiledSchema, Problem, limits::MAX_DEPTH},
    compiled,
};

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
