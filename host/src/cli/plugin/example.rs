//! Example arguments made from a schema, so that a printed command can be run as it is.

use serde_json::{Map, Value, json};

use crate::tool::ToolDefinition;

/// Depth to which objects are filled in; deeper objects stay empty.
const MAX_DEPTH: u32 = 3;

/// Returns arguments with every required property.
pub(super) fn arguments(tool: &ToolDefinition) -> Value {
    object(&tool.input_schema.to_value().unwrap_or_default(), 0)
}

/// Formats the arguments for people: `(city: string, days?: integer)`.
pub(super) fn signature(tool: &ToolDefinition) -> String {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let required = required(&schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameter = |(name, schema): (&String, &Value)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{name}{mark}: {}", kind(schema))
    };
    let parameters: Vec<_> = properties.into_iter().flatten().map(parameter).collect();
    format!("({})", parameters.join(", "))
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => "any".to_owned(),
    }
}

fn required(schema: &Value) -> Vec<&str> {
    let names = schema.get("required").and_then(Value::as_array);
    names.into_iter().flatten().filter_map(Value::as_str).collect()
}

fn object(schema: &Value, depth: u32) -> Value {
    let none = Value::Null;
    let property = |name: &str| {
        schema.get("properties").and_then(|properties| properties.get(name)).unwrap_or(&none)
    };
    let members = required(schema)
        .into_iter()
        .map(|name| (name.to_owned(), value(name, property(name), depth)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn value(name: &str, schema: &Value, depth: u32) -> Value {
    let given = schema.get("const").or_else(|| schema.get("default"));
    let listed = |key: &str| schema.get(key).and_then(|values| values.get(0));
    if let Some(given) = given.or_else(|| listed("examples")).or_else(|| listed("enum")) {
        return given.clone();
    }
    let kind = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    };
    match kind {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or_else(|| json!(1)),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("null") => Value::Null,
        Some("object") if depth < MAX_DEPTH => object(schema, depth + 1),
        Some("object") => json!({}),
        _ => json!(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_has_the_required_properties_and_prefers_the_values_of_the_author() {
        let tool: ToolDefinition = serde_json::from_value(json!({
            "name": "t",
            "inputSchema": {
                "type": "object",
                "required": ["city", "unit", "days", "deep", "unknown"],
                "properties": {
                    "city": {"type": "string", "examples": ["Oslo"]},
                    "unit": {"type": "string", "enum": ["c", "f"]},
                    "days": {"type": ["integer", "null"], "minimum": 3},
                    "deep": {"type": "object", "required": ["on"], "properties": {"on": {"type": "boolean"}}},
                    "left": {"type": "string"},
                },
            },
        }))
        .expect("a definition");
        insta::assert_snapshot!(
            arguments(&tool),
            @r#"{"city":"Oslo","unit":"c","days":3,"deep":{"on":true},"unknown":"unknown"}"#
        );
        insta::assert_snapshot!(
            signature(&tool),
            @"(city: string, unit: string, days: integer or null, deep: object, left?: string)"
        );
    }
}
