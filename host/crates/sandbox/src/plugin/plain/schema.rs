//! Conversion of types to JSON Schema 2020-12.
//!
//! | WIT | JSON |
//! |---|---|
//! | `bool`, `string` | boolean, string |
//! | `s8` … `u32` | integer with bounds |
//! | `s64`, `u64` | integer up to ±(2⁵³ − 1), beyond it a string of digits |
//! | `f32`, `f64` | number; in results also `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | `char` | string of one character |
//! | `list<u8>` | string, base64 |
//! | other lists | array |
//! | `tuple` | array of exactly these items |
//! | `record` | object; `-` in names becomes `_`; options may be absent |
//! | `variant`, and `result` inside another type | object of one key, the case; a string for a case without payload |
//! | `enum` | string, the case |
//! | `flags` | array of strings without repetition |
//! | `option` elsewhere | the type or null |
//!
//! A schema may be nested deeper, or be larger, than the limits on schemas allow. The code that
//! compiles it then reports that and leaves the tool out. Numbers that are not finite are not valid
//! arguments: JSON has none, and no schema should invite a model to send them. The names of cases
//! and flags stay as they are in WIT: they are values, and the author's own descriptions refer to
//! them.

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::shape::{Field, Int, Shape};

/// The largest integer that every JSON reader keeps exact (RFC 7493, section 2.2); the smallest is
/// its negative.
pub(super) const MAX_SAFE: i128 = (1 << 53) - 1;
/// Texts for the floats that JSON cannot represent as numbers.
pub(super) const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// Direction in which values cross the sandbox.
#[derive(Clone, Copy)]
enum Direction {
    Arguments,
    Results,
}

/// Returns the schema of a function's arguments: an object with one property for each parameter.
pub(super) fn input(parameters: &[Field]) -> Value {
    fields(parameters, Direction::Arguments)
}

/// Returns the schema of a function's result: an object with `result` as its only property, because
/// MCP requires an object at the root. `None` if the function returns nothing. The failure of a
/// function is a tool's error and appears in no schema.
pub(super) fn output(result: Option<&Shape>) -> Option<Value> {
    let result = match result? {
        Shape::Result { ok, .. } => ok.as_deref()?,
        other => other,
    };
    let result = schema(result, Direction::Results);
    Some(
        json!({"type": "object", "properties": {"result": result}, "required": ["result"], "additionalProperties": false}),
    )
}

fn schema(shape: &Shape, direction: Direction) -> Value {
    match shape {
        Shape::Bool => json!({"type": "boolean"}),
        Shape::Int(int) => integer(*int),
        Shape::F32 | Shape::F64 => match direction {
            Direction::Arguments => json!({"type": "number"}),
            Direction::Results => json!({"anyOf": [{"type": "number"}, {"enum": NOT_FINITE}]}),
        },
        Shape::Char => json!({"type": "string", "minLength": 1, "maxLength": 1}),
        Shape::String => json!({"type": "string"}),
        Shape::Bytes => json!({"type": "string", "contentEncoding": "base64"}),
        Shape::List(item) => json!({"type": "array", "items": schema(item, direction)}),
        Shape::Record(record) => fields(record, direction),
        Shape::Tuple(shapes) => {
            let items: Vec<_> = shapes.iter().map(|shape| schema(shape, direction)).collect();
            json!({"type": "array", "prefixItems": items, "items": false, "minItems": shapes.len(), "maxItems": shapes.len()})
        }
        Shape::Variant(cases) => {
            one_of(cases.iter().map(|(name, shape)| (name.as_str(), shape.as_ref())), direction)
        }
        Shape::Enum(names) => json!({"type": "string", "enum": list(names)}),
        Shape::Flags(names) => {
            json!({"type": "array", "items": {"type": "string", "enum": list(names)}, "uniqueItems": true})
        }
        Shape::Option(some) => json!({"anyOf": [schema(some, direction), {"type": "null"}]}),
        Shape::Result { ok, err } => {
            one_of([("ok", ok.as_deref()), ("err", err.as_deref())], direction)
        }
    }
}

fn integer(int: Int) -> Value {
    let (least, most) = int.range();
    let safe_least = least.max(-MAX_SAFE);
    let safe_most = most.min(MAX_SAFE);
    let number =
        json!({"type": "integer", "minimum": bound(safe_least), "maximum": bound(safe_most)});
    if safe_most == most {
        return number;
    }
    let digits = if least < 0 { "^-?[0-9]{1,19}$" } else { "^[0-9]{1,20}$" };
    json!({"anyOf": [number, {"type": "string", "pattern": digits}]})
}

fn bound(number: i128) -> i64 {
    i64::try_from(number).expect("within the safe integers")
}

fn list(names: &IndexSet<String>) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

fn one_of<'a>(
    cases: impl IntoIterator<Item = (&'a str, Option<&'a Shape>)>,
    direction: Direction,
) -> Value {
    let cases = cases.into_iter().map(|(name, shape)| match shape {
        None => json!({"const": name}),
        Some(shape) => object([(name, schema(shape, direction))], &[name]),
    });
    json!({"oneOf": cases.collect::<Vec<_>>()})
}

fn fields(fields: &[Field], direction: Direction) -> Value {
    let required: Vec<_> =
        fields.iter().filter(|field| !field.is_optional).map(|field| field.key.as_str()).collect();
    object(
        fields.iter().map(|field| (field.key.as_str(), schema(&field.shape, direction))),
        &required,
    )
}

fn object<'a>(properties: impl IntoIterator<Item = (&'a str, Value)>, required: &[&str]) -> Value {
    let properties: Map<_, _> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut object = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object["additionalProperties"] = json!(false);
    object
}
