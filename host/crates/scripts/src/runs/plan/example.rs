//! A value of an output schema. It has the declared types; formats and bounds are met where that is simple.

use serde_json::{Map, Value, json};

use super::flows::mark;

/// Largest depth of a value, references included: they can form a cycle, and the value is built by recursion.
const MAX_DEPTH: usize = 16;
/// Maximum number of values in a value. A schema of 256 KiB can describe many more, and lists of lists multiply them.
const MAX_VALUES: u32 = 2_000;
/// Bytes of JSON, or elements of a list of schemas, that count as one value.
const BYTES_OF_VALUE: usize = 256;

/// Returns a value of a schema. Another `variant` has other texts and numbers, and lists of another length. Texts have
/// the mark of the answer with the number `answer`, see [`flows`](super::flows), if their format has room for it.
pub(super) fn value(schema: &Value, variant: u32, answer: usize) -> Value {
    let mut example = Example { root: schema, variant, mark: mark(answer), made: 0 };
    example.value(schema, 0)
}

struct Example<'s> {
    root: &'s Value,
    variant: u32,
    /// Mark of the answer in texts.
    mark: String,
    /// Number of values so far.
    made: u32,
}

impl<'s> Example<'s> {
    fn value(&mut self, schema: &'s Value, depth: usize) -> Value {
        if self.is_full() {
            return Value::Null;
        }
        // A value below the largest depth counts too: an object can name ten thousand of them.
        self.made += 1;
        if depth == MAX_DEPTH {
            return Value::Null;
        }
        if let Some(constant) = schema.get("const") {
            return self.copy(constant);
        }
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            let chosen = values.iter().cycle().nth(self.variant as usize);
            return chosen.map_or(Value::Null, |chosen| self.copy(chosen));
        }
        if let Some(referred) = self.referred(schema) {
            return self.value(referred, depth + 1);
        }
        match kind(schema) {
            Some("object") => self.object(schema, depth),
            Some("array") => self.array(schema, depth),
            Some("string") => self.text(schema).into(),
            Some("integer" | "number") => self.number(schema),
            Some("boolean") => (self.variant == 0).into(),
            _ => Value::Null,
        }
    }

    /// Returns whether the maximum number of values is reached. Further members and elements are left out.
    fn is_full(&self) -> bool {
        self.made >= MAX_VALUES
    }

    /// Copies a value of the schema, which counts as several if it is large: lists may repeat it.
    fn copy(&mut self, value: &Value) -> Value {
        self.count(value.to_string().len());
        value.clone()
    }

    /// Counts a long text, or a long list, of the schema as several values.
    fn count(&mut self, length: usize) {
        let counted = u32::try_from(length / BYTES_OF_VALUE).unwrap_or(u32::MAX);
        self.made = self.made.saturating_add(counted);
    }

    /// Returns the schema that stands for this one: that of a reference within the document, or the first of
    /// several.
    fn referred(&mut self, schema: &'s Value) -> Option<&'s Value> {
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            self.count(reference.len());
            return self.root.pointer(reference.strip_prefix('#')?);
        }
        let several = ["anyOf", "oneOf", "allOf"].into_iter().find_map(|key| schema.get(key));
        let several = several.filter(|_| schema.get("type").is_none())?.as_array()?;
        self.count(several.len());
        several.iter().find(|schema| kind(schema) != Some("null")).or(several.first())
    }

    fn object(&mut self, schema: &'s Value, depth: usize) -> Value {
        let mut members = Map::new();
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, schema) in properties {
                if self.is_full() {
                    break;
                }
                self.count(name.len());
                members.insert(name.clone(), self.value(schema, depth + 1));
            }
        } else if let Some(schema) =
            schema.get("additionalProperties").filter(|schema| schema.is_object())
        {
            let name = self.word();
            members.insert(name, self.value(schema, depth + 1));
        }
        Value::Object(members)
    }

    fn array(&mut self, schema: &'s Value, depth: usize) -> Value {
        let Some(items) = schema.get("items") else { return json!([]) };
        let least = schema.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        let most = schema.get("maxItems").and_then(Value::as_u64).unwrap_or(u64::MAX);
        let length = least.max(u64::from(self.variant) + 1).min(most).min(MAX_VALUES.into());
        let mut list = Vec::new();
        for _ in 0..length {
            if self.is_full() {
                break;
            }
            list.push(self.value(items, depth + 1));
        }
        Value::Array(list)
    }

    fn text(&mut self, schema: &Value) -> String {
        let n = self.fresh();
        match schema.get("format").and_then(Value::as_str) {
            Some("date-time") => format!("2020-01-01T00:00:{:02}Z", n % 60),
            Some("date") => format!("2020-01-{:02}", n % 28 + 1),
            Some("time") => format!("00:00:{:02}Z", n % 60),
            Some("email") => format!("person{}{n}@example.com", self.mark),
            Some("uri") => format!("https://example.com/page{}{n}", self.mark),
            Some("uuid") => format!("00000000-0000-4000-8000-{n:012}"),
            _ => self.word(),
        }
    }

    fn number(&mut self, schema: &Value) -> Value {
        let n = self.fresh();
        let value = f64::from(n);
        let least = schema.get("minimum");
        let most = schema.get("maximum");
        let is_within = least.and_then(Value::as_f64).is_none_or(|least| least <= value)
            && most.and_then(Value::as_f64).is_none_or(|most| value <= most);
        least.or(most).filter(|_| !is_within).cloned().unwrap_or_else(|| json!(n))
    }

    fn word(&mut self) -> String {
        let n = self.fresh();
        format!("text{}{n}", self.mark)
    }

    /// Returns a number that is not in this value yet, nor in that of another variant.
    fn fresh(&mut self) -> u32 {
        self.made = self.made.saturating_add(1);
        (self.variant * 2 * MAX_VALUES).saturating_add(self.made)
    }
}

/// Returns the type of values of a schema, the first if there are several.
fn kind(schema: &Value) -> Option<&str> {
    let declared = match schema.get("type") {
        Some(Value::Array(several)) => {
            several.iter().filter_map(Value::as_str).find(|kind| *kind != "null")
        }
        declared => declared.and_then(Value::as_str),
    };
    let implied = [("properties", "object"), ("items", "array")];
    declared.or_else(|| {
        implied.into_iter().find(|(key, _)| schema.get(key).is_some()).map(|(_, kind)| kind)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_the_declared_types_and_each_variant_has_its_own() {
        let schema = json!({
            "type": "object",
            "$defs": {"owner": {"properties": {"name": {"type": "string"}}}},
            "properties": {
                "id": {"type": "integer"}, "share": {"type": "number", "maximum": 0.5},
                "open": {"type": "boolean"}, "state": {"enum": ["a", "b"]}, "kind": {"const": 7},
                "tags": {"type": "array", "items": {"type": ["null", "string"]}},
                "owner": {"$ref": "#/$defs/owner"},
                "when": {"anyOf": [{"type": "null"}, {"type": "string", "format": "date"}]},
                "any": true,
            },
        });
        let [first, second] = [0, 1].map(|variant| value(&schema, variant, 0));
        for (example, open, state, length) in [(&first, true, "a", 1), (&second, false, "b", 2)] {
            assert!(example["id"].is_u64() && example["owner"]["name"].is_string(), "{example}");
            assert_eq!((&example["open"], &example["state"]), (&json!(open), &json!(state)));
            assert_eq!((&example["share"], &example["kind"]), (&json!(0.5), &json!(7)));
            assert_eq!(example["tags"].as_array().map(Vec::len), Some(length), "{example}");
            assert!(example["tags"][0].is_string() && example["any"].is_null(), "{example}");
            assert!(example["when"].as_str().is_some_and(|date| date.starts_with("2020-01-")));
        }
        for member in ["id", "tags", "owner"] {
            assert_ne!(first[member], second[member]);
        }
        assert_eq!(first, value(&schema, 0, 0));
        assert_ne!(first["tags"], value(&schema, 0, 1)["tags"], "each answer has a mark");
    }

    #[test]
    fn long_references_count_as_several_values() {
        let long = "x".repeat(100_000);
        let items = json!({"$ref": format!("#/$defs/{long}")});
        let schema = json!({"$defs": {long: {"const": 1}}, "items": items, "minItems": 2_000});
        let found = value(&schema, 0, 0);
        let followed = found.as_array().expect("a list").iter().filter(|item| !item.is_null());
        assert!(followed.count() < 10);
    }

    #[test]
    fn a_value_is_bounded() {
        let endless = json!({"properties": {"a": {"$ref": "#"}, "b": {"$ref": "#"}}});
        let many = json!({"items": {"items": {"items": {}, "minItems": 1_000_000_000_u64}, "minItems": 1_000_000_000_u64}});
        let text = "x".repeat(20_000);
        let same = json!({"items": {"const": text}, "minItems": 2_000});
        let chosen = json!({"items": {"enum": [text]}, "minItems": 2_000});
        let named = json!({"items": {"properties": {text: {}}}, "minItems": 2_000});
        let members = (0..1_000).map(|number| (number.to_string(), json!({"$ref": "#/$defs/a"})));
        let members: Map<_, _> = members.collect();
        // Its deepest objects are one level above the largest depth.
        let wide = json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": members}}});
        for schema in [endless, many, same, chosen, named, wide] {
            let text = value(&schema, 1, 0).to_string();
            assert!(text.len() < 1_000_000, "{} bytes", text.len());
        }
    }
}
