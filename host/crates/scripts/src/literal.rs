//! Renders values in Python syntax: the options of a `Literal`, defaults, and example values.

use serde_json::Value;

use super::{text, types::Types};

/// Maximum bytes of the options of a `Literal`, and half of that of any type: about 80 tokens. Fifty
/// codes of two letters fit, such as those of states.
pub(super) const MAX_TEXT: usize = 320;
/// Maximum bytes of a default, and of a value in an example; an example has at most three times as
/// many. It is one line of a file.
pub(super) const MAX_PLACEHOLDER: usize = 80;
/// Maximum nesting of objects in an example. References can make it endless.
const MAX_EXAMPLE_DEPTH: u32 = 2;
/// Maximum number of fields of each object in an example. Six values of a usual length fill it.
const MAX_EXAMPLE_FIELDS: usize = 6;

/// Renders a value. `None` for a list, an object, or a string longer than [`MAX_TEXT`].
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some("None".to_owned()),
        Value::Bool(true) => Some("True".to_owned()),
        Value::Bool(false) => Some("False".to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(string) => (string.len() <= MAX_TEXT).then(|| text::quoted(string)),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Renders permitted values as the alternatives of a union: a `Literal` with as many as fit, and the
/// types of those that a `Literal` cannot have or that do not fit.
pub(super) fn alternatives(options: &[Value]) -> Vec<String> {
    let mut literal = String::new();
    let mut others: Vec<&str> = Vec::new();
    let mut is_full = false;
    for option in options {
        let kind = kind(option);
        let is_literal = matches!(kind, "str" | "bool" | "int") && !is_full;
        match is_literal.then(|| scalar(option)).flatten() {
            Some(text) if literal.len() + text.len() + 2 <= MAX_TEXT => {
                literal.push_str(if literal.is_empty() { "" } else { ", " });
                literal.push_str(&text);
            }
            shown => {
                is_full |= is_literal && (shown.is_some() || kind == "str");
                if !others.contains(&kind) {
                    others.push(kind);
                }
            }
        }
    }
    let literal = (!literal.is_empty()).then(|| format!("Literal[{literal}]"));
    literal.into_iter().chain(others.into_iter().map(str::to_owned)).collect()
}

/// Returns the bytes of texts that rendering permitted values reads, about: of values up to the one that does not fit.
pub(super) fn read_bytes(options: &[Value]) -> usize {
    let mut bytes = 0;
    for option in options {
        if bytes > MAX_TEXT {
            break;
        }
        bytes += 1 + text_bytes(option);
    }
    bytes
}

/// Returns the bytes of a value that [`scalar`] reads, if it is a text.
pub(super) fn text_bytes(value: &Value) -> usize {
    value.as_str().map(str::len).filter(|bytes| *bytes <= MAX_TEXT).unwrap_or(0)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "None",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float",
        Value::Number(_) => "int",
        Value::String(_) => "str",
        Value::Array(_) => "list",
        Value::Object(_) => "dict",
    }
}

/// Renders the default of an optional parameter: `None` if the schema has none, and `...`, as stubs
/// do, if it is no short literal.
pub(super) fn default(schema: &Value) -> String {
    match schema.get("default") {
        None | Some(Value::Null) => "None".to_owned(),
        Some(Value::Array(items)) if items.is_empty() => "[]".to_owned(),
        Some(Value::Object(members)) if members.is_empty() => "{}".to_owned(),
        Some(value) => scalar(value)
            .filter(|text| text.len() <= MAX_PLACEHOLDER)
            .unwrap_or_else(|| "...".to_owned()),
    }
}

impl<'a> Types<'a> {
    /// Returns an example value of this type. Objects have their required fields.
    pub(super) fn placeholder(self, schema: &'a Value) -> String {
        let text = self.example(schema, 0);
        if text.len() <= 3 * MAX_PLACEHOLDER { text } else { self.plain(schema) }
    }

    fn example(self, schema: &'a Value, depth: u32) -> String {
        let schema = self.resolve(schema);
        let given = [
            schema.get("const"),
            schema.get("examples").and_then(|examples| examples.get(0)),
            schema.get("example"),
            schema.get("default").filter(|default| !default.is_null()),
            schema.get("enum").and_then(|options| options.get(0)),
        ];
        let given = given.into_iter().flatten().filter(|value| self.pay_read(text_bytes(value)));
        let mut given = given.filter_map(scalar);
        if let Some(value) = given.find(|value| value.len() <= MAX_PLACEHOLDER) {
            return value;
        }
        if depth < MAX_EXAMPLE_DEPTH && schema.get("properties").is_some() {
            let fields = self.fields(schema).unwrap_or_default();
            let required = fields.iter().filter(|field| field.is_required);
            let required: Vec<_> = required
                .filter(|field| field.name.len() <= MAX_PLACEHOLDER)
                .take(MAX_EXAMPLE_FIELDS)
                .map(|field| {
                    let value = self.example(field.schema, depth + 1);
                    format!("{}: {value}", text::quoted(field.name))
                })
                .collect();
            return format!("{{{}}}", required.join(", "));
        }
        self.plain(schema)
    }

    fn plain(self, schema: &'a Value) -> String {
        let value = match self.outline(schema).as_str() {
            "int" => "1",
            "float" => "1.5",
            "bool" => "True",
            "None" => "None",
            kind if kind.starts_with("list") || kind.starts_with("tuple") => "[]",
            kind if kind.starts_with("dict") => "{}",
            _ => "\"...\"",
        };
        value.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::budget::RenderBudget;

    #[test]
    fn options_that_do_not_fit_a_literal_become_their_types() {
        assert_eq!(
            literal(&json!([1, 2.5, true, null, "a\"b"])),
            r#"Literal[1, True, "a\"b"] | float | None"#
        );
        assert_eq!(literal(&json!([{"a": 1}, [1], -3])), "Literal[-3] | dict | list");
        // `"aaa…"` and its separator.
        let fits = "a".repeat(MAX_TEXT - 4);
        assert_eq!(literal(&json!([fits])), format!("Literal[\"{fits}\"]"));
        assert_eq!(literal(&json!([format!("{fits}a"), 1])), "str | int");
        let many: Vec<_> = (0..100_000).collect();
        let text = literal(&json!(many));
        assert!(text.starts_with("Literal[0, 1, ") && text.ends_with("] | int"), "{text}");
        assert!(text.len() < MAX_TEXT + 20);
    }

    fn literal(options: &Value) -> String {
        alternatives(options.as_array().expect("a list")).join(" | ")
    }

    #[test]
    fn defaults_are_literals_or_an_ellipsis() {
        for (schema, expected) in [
            (json!({}), "None"),
            (json!({"default": null}), "None"),
            (json!({"default": 10}), "10"),
            (json!({"default": false}), "False"),
            (json!({"default": "a\n"}), r#""a\n""#),
            (json!({"default": []}), "[]"),
            (json!({"default": {}}), "{}"),
            (json!({"default": [1]}), "..."),
            (json!({"default": "x".repeat(78)}), &format!("\"{}\"", "x".repeat(78))),
            (json!({"default": "x".repeat(79)}), "..."),
            (json!(true), "None"),
        ] {
            assert_eq!(default(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn an_example_has_the_required_fields_of_objects_two_levels_deep() {
        let deep = json!({"type": "object", "required": ["a"], "properties": {"b": {}, "a":
            {"type": "object", "required": ["c"], "properties": {"c":
                {"type": "object", "required": ["d"], "properties": {"d": {"type": "integer"}}}}}}});
        assert_eq!(placeholder(&deep), r#"{"a": {"c": {}}}"#);
        assert_eq!(
            placeholder(&json!({"type": "string", "examples": ["octocat"]})),
            r#""octocat""#
        );
        assert_eq!(placeholder(&json!({"type": "array"})), "[]");
        let wide: Vec<_> = (0..20).map(|n| format!("{n}{}", "x".repeat(70))).collect();
        let properties: serde_json::Map<_, _> =
            wide.iter().map(|name| (name.clone(), json!({}))).collect();
        assert_eq!(
            placeholder(&json!({"type": "object", "required": wide, "properties": properties})),
            "{}"
        );
    }

    fn placeholder(schema: &Value) -> String {
        Types::new(schema, &RenderBudget::whole()).placeholder(schema)
    }
}
