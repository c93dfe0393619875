//! Sets inside a definition, whose order has no meaning. Some servers build them from unordered
//! collections, so that each start of the server lists them in another order.
//!
//! | place in a schema | reason |
//! |---|---|
//! | `required`, `type`, lists of `dependentRequired` and `dependencies` | their elements are unique (JSON Schema validation 6.1.1, 6.5.3, 6.5.4; draft 7, 6.5.7) |
//! | `enum` | its elements should be unique, and none comes before another (6.1.2) |
//! | `default` that is a list, where `uniqueItems` is true | it is a set itself |
//! | `default` that is a text of names with commas between them | mcp-atlassian joins a set of fields so |
//!
//! `anyOf`, `oneOf`, `allOf` and `examples` have an order that models and generators of code read, and
//! no specification calls them sets: a change of it counts. Only places where a schema is expected are
//! looked at, so that a property named `required` is none of these.

use serde_json::{Map, Value};

/// Keywords whose value is a schema, or a list of schemas.
const SCHEMAS: [&str; 15] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value has a schema under each name.
const NAMED_SCHEMAS: [&str; 6] =
    ["$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Keywords whose value is a set.
const SETS: [&str; 3] = ["enum", "required", "type"];
/// Keywords whose value has a set under each name.
const NAMED_SETS: [&str; 2] = ["dependencies", "dependentRequired"];
/// Members of a definition that are schemas.
const OF_DEFINITION: [&str; 2] = ["inputSchema", "outputSchema"];

/// Returns a definition with its sets sorted.
pub(super) fn sorted(mut definition: Value) -> Value {
    for member in OF_DEFINITION {
        if let Some(schema) = definition.get_mut(member) {
            sort_schema(schema);
        }
    }
    definition
}

/// Sorts the sets of a schema, or of each schema of a list. The depth is that of a parsed text.
fn sort_schema(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(sort_schema),
        Value::Object(keywords) => {
            sort_default(keywords);
            for (keyword, value) in keywords.iter_mut() {
                let keyword = keyword.as_str();
                if SETS.contains(&keyword) {
                    sort(value);
                }
                if NAMED_SETS.contains(&keyword) {
                    each_member(value, sort);
                }
                if NAMED_SCHEMAS.contains(&keyword) {
                    each_member(value, sort_schema_object);
                }
                if SCHEMAS.contains(&keyword) {
                    sort_schema(value);
                }
            }
        }
        _ => {}
    }
}

/// Sorts the sets of a value that is a schema only if it is an object.
fn sort_schema_object(value: &mut Value) {
    if value.is_object() {
        sort_schema(value);
    }
}

fn each_member(value: &mut Value, change: fn(&mut Value)) {
    if let Value::Object(members) = value {
        members.values_mut().for_each(change);
    }
}

/// Sorts the elements of a list by their JSON text, which is canonical but for the order of members.
fn sort(value: &mut Value) {
    if let Value::Array(elements) = value {
        elements.sort_by_cached_key(Value::to_string);
    }
}

fn sort_default(keywords: &mut Map<String, Value>) {
    let is_set = keywords.get("uniqueItems") == Some(&Value::Bool(true));
    match keywords.get_mut("default") {
        Some(list @ Value::Array(_)) if is_set => sort(list),
        Some(Value::String(text)) if is_list_of_names(text) => {
            let mut names: Vec<_> = text.split(',').map(str::trim).collect();
            names.sort_unstable();
            *text = names.join(",");
        }
        _ => {}
    }
}

/// Returns whether a text is a list of at least two names. A sentence with commas is none.
fn is_list_of_names(text: &str) -> bool {
    text.contains(',') && text.split(',').all(|name| is_name(name.trim()))
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.:*".contains(&byte))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns whether two input schemas count as the same.
    fn are_same(one: &Value, other: &Value) -> bool {
        let one = sorted(json!({"name": "t", "inputSchema": one}));
        let other = sorted(json!({"name": "t", "inputSchema": other}));
        one == other
    }

    #[test]
    fn the_order_of_a_set_does_not_count_at_any_depth() {
        for (one, other) in [
            (json!({"required": ["a", "b"]}), json!({"required": ["b", "a"]})),
            (json!({"enum": [1, "x", null]}), json!({"enum": [null, 1, "x"]})),
            (json!({"type": ["null", "string"]}), json!({"type": ["string", "null"]})),
            (
                json!({"dependentRequired": {"a": ["b", "c"]}}),
                json!({"dependentRequired": {"a": ["c", "b"]}}),
            ),
            (
                json!({"dependencies": {"a": ["b", "c"]}}),
                json!({"dependencies": {"a": ["c", "b"]}}),
            ),
            (
                json!({"uniqueItems": true, "default": [1, 2]}),
                json!({"uniqueItems": true, "default": [2, 1]}),
            ),
            (json!({"default": "status,*all, x.y"}), json!({"default": "x.y,status, *all"})),
        ] {
            for within in [
                |schema: &Value| schema.clone(),
                |schema: &Value| json!({"properties": {"required": schema}}),
                |schema: &Value| json!({"anyOf": [{"items": schema}]}),
                |schema: &Value| json!({"$defs": {"x": {"not": schema}}}),
                |schema: &Value| json!({"dependencies": {"x": schema}}),
            ] {
                assert!(are_same(&within(&one), &within(&other)), "{}", within(&one));
            }
        }
    }

    #[test]
    fn another_order_of_what_is_no_set_counts_and_so_does_another_set() {
        for (one, other) in [
            (json!({"anyOf": [{"type": "null"}, {}]}), json!({"anyOf": [{}, {"type": "null"}]})),
            (json!({"examples": [1, 2]}), json!({"examples": [2, 1]})),
            (json!({"prefixItems": [{}, true]}), json!({"prefixItems": [true, {}]})),
            (json!({"default": [1, 2]}), json!({"default": [2, 1]})),
            (json!({"const": ["a", "b"]}), json!({"const": ["b", "a"]})),
            (json!({"default": "no, not yet"}), json!({"default": "not yet, no"})),
            (json!({"description": "a,b"}), json!({"description": "b,a"})),
            (json!({"required": ["a", "b"]}), json!({"required": ["a", "c"]})),
            (json!({"required": ["a", "a"]}), json!({"required": ["a"]})),
            (json!({"enum": [["a", "b"]]}), json!({"enum": [["b", "a"]]})),
            (json!({"default": "a,b"}), json!({"default": "a,c"})),
            (
                json!({"properties": {"enum": ["a", "b"]}}),
                json!({"properties": {"enum": ["b", "a"]}}),
            ),
            (json!({"x-y": {"required": ["a", "b"]}}), json!({"x-y": {"required": ["b", "a"]}})),
        ] {
            assert!(!are_same(&one, &other), "{one}");
        }
    }
}
