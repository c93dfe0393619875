//! Example arguments made from a schema, so that a printed command can be run as it is.

use serde_json::{Map, Value, json};

use airlock_core::tool::ToolDefinition;
use airlock_json::schema::CompiledSchema;

/// Depth to which objects are filled in, in levels of objects, lists and references; deeper ones
/// stay empty. A reference can lead back to itself, and a schema that a person fills in by hand is
/// flatter.
const MAX_DEPTH: u32 = 8;
/// Most elements of a list. `minItems` may be any number, and lists in lists multiply; a tool that
/// needs more gets an outline.
const MAX_ITEMS: u64 = 4;
/// Longest text, in characters. `minLength` may be any number, and the text is one line on a
/// terminal; a tool that needs more gets an outline.
const MAX_CHARACTERS: u64 = 100;

/// Arguments of a call to try.
#[derive(Debug, PartialEq)]
pub enum Sample {
    /// They fit the tool's input schema.
    Valid(Value),
    /// The required names, with `...` in place of values: none were found that fit.
    Outline(String),
}

/// Returns arguments with every required property, if values for all of them can be made.
pub fn arguments(tool: &ToolDefinition) -> Sample {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let made = Maker { root: &schema }.object(&schema, 0);
    // The gateway does not check arguments against a schema that does not compile.
    let fits = CompiledSchema::compile("inputSchema", &schema)
        .map_or(true, |compiled| compiled.check(&made).is_ok());
    if fits { Sample::Valid(made) } else { Sample::Outline(outline(&schema)) }
}

fn outline(schema: &Value) -> String {
    let members = required(schema).into_iter().map(|name| format!("{}: ...", json!(name)));
    let members: Vec<_> = members.collect();
    if members.is_empty() { "{...}".to_owned() } else { format!("{{{}}}", members.join(", ")) }
}

/// Formats the arguments for people: `(city: string, days?: integer)`.
pub fn signature(tool: &ToolDefinition) -> String {
    let schema = tool.input_schema.to_value().unwrap_or_default();
    let required = required(&schema);
    let properties = schema.get("properties").and_then(Value::as_object);
    let parameters = properties.into_iter().flatten().map(|(name, schema)| {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        format!("{name}{mark}: {}", kind(schema))
    });
    let parameters: Vec<_> = parameters.collect();
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

/// Makes values for the subschemas of one schema. A value is a guess, because keywords restrict each
/// other: the caller checks the whole.
struct Maker<'s> {
    root: &'s Value,
}

impl<'s> Maker<'s> {
    fn object(&self, schema: &'s Value, depth: u32) -> Value {
        let properties = schema.get("properties");
        let mut members = Map::new();
        for name in required(schema) {
            let property = properties.and_then(|properties| properties.get(name));
            let value = self.value(name, property.unwrap_or(&Value::Null), depth);
            members.insert(name.to_owned(), value);
        }
        Value::Object(members)
    }

    fn value(&self, name: &str, schema: &'s Value, depth: u32) -> Value {
        let given = schema.get("const").or_else(|| schema.get("default"));
        let given = given.or_else(|| schema.get("examples")?.get(0));
        if let Some(given) = given.or_else(|| schema.get("enum")?.get(0)) {
            return given.clone();
        }
        if depth >= MAX_DEPTH {
            return json!({});
        }
        if let Some(applied) = self.applied(schema) {
            return self.value(name, applied, depth + 1);
        }
        match first_type(schema) {
            Some("integer" | "number") => number(schema),
            Some("boolean") => json!(true),
            Some("array") => self.array(name, schema, depth),
            Some("null") => Value::Null,
            Some("object") => self.object(schema, depth + 1),
            _ => json!(text(name, schema)),
        }
    }

    /// Returns the subschema that another one consists of: the target of its reference, or the first
    /// one of a combination that is not for `null` alone.
    fn applied(&self, schema: &'s Value) -> Option<&'s Value> {
        if let Some(target) = schema.get("$ref").and_then(Value::as_str) {
            return self.root.pointer(target.strip_prefix('#')?);
        }
        let combined = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key));
        let mut branches = combined.filter_map(Value::as_array).flatten();
        branches.find(|branch| first_type(branch) != Some("null"))
    }

    fn array(&self, name: &str, schema: &'s Value, depth: u32) -> Value {
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0).min(MAX_ITEMS);
        let prefix = schema.get("prefixItems").and_then(Value::as_array).into_iter().flatten();
        let rest = schema.get("items").unwrap_or(&Value::Null);
        let items = prefix.chain(std::iter::repeat(rest));
        let least = usize::try_from(least).unwrap_or(0);
        items.take(least).map(|item| self.value(name, item, depth + 1)).collect()
    }
}

fn first_type(schema: &Value) -> Option<&str> {
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.first().and_then(Value::as_str),
        kind => kind.and_then(Value::as_str),
    }
}

fn number(schema: &Value) -> Value {
    let step = integer(schema, "multipleOf");
    if let Some(least) = schema.get("minimum").filter(|_| step.is_none()) {
        return least.clone();
    }
    let step = step.filter(|step| *step > 0).unwrap_or(1);
    let least = integer(schema, "exclusiveMinimum").map(|least| least.saturating_add(1));
    let least = least.or(integer(schema, "minimum"));
    let most = integer(schema, "exclusiveMaximum").map(|most| most.saturating_sub(1));
    let most = most.or(integer(schema, "maximum"));
    let wanted = least.unwrap_or(1).min(most.unwrap_or(i64::MAX)).max(least.unwrap_or(i64::MIN));
    let multiple = wanted.div_euclid(step).saturating_mul(step);
    json!(if multiple < wanted { multiple.saturating_add(step) } else { multiple })
}

fn integer(schema: &Value, key: &str) -> Option<i64> {
    schema.get(key).and_then(Value::as_i64)
}

/// Returns a text of the format and the length that a schema states, made of the property's name. Without a
/// `format`, the name is taken for one: a property `url` gets a URL.
fn text(name: &str, schema: &Value) -> String {
    let format = schema.get("format").and_then(Value::as_str);
    match format.unwrap_or(name) {
        "date" => return "2026-01-31".to_owned(),
        "time" => return "12:00:00Z".to_owned(),
        "date-time" => return "2026-01-31T12:00:00Z".to_owned(),
        "email" => return "ann@example.com".to_owned(),
        "uri" | "url" => return "https://example.com".to_owned(),
        "uuid" => return "00000000-0000-4000-8000-000000000000".to_owned(),
        _ => {}
    }
    let least = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0).min(MAX_CHARACTERS);
    let most = schema.get("maxLength").and_then(Value::as_u64).unwrap_or(MAX_CHARACTERS);
    let length = (name.chars().count() as u64).max(least).min(most);
    let name = if name.is_empty() { "x" } else { name };
    name.chars().cycle().take(usize::try_from(length).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests;
