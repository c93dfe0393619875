//! Renders JSON Schemas as Python types, for models to read.
//!
//! Schemas are untrusted and of any depth and width. References may form cycles or lead to one
//! large object repeatedly. Every type is bounded in the schemas that it reads and in its length,
//! and all types of one tool share a [`Budget`] for everything that is read. Beyond a bound, a type
//! is rendered as `Any` or `dict`.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{budget::Budget, text};

/// Maximum number of schemas that one type reads.
const MAX_SCHEMAS: u32 = 64;
/// Maximum nesting of schemas.
const MAX_DEPTH: u32 = 8;
/// Maximum number of alternatives of a union.
const MAX_ALTERNATIVES: usize = 12;
/// Maximum length of the options of a `Literal`, and of the fields of a dict, in bytes.
const MAX_TEXT: usize = 320;
/// Maximum number of fields of a dict that is written out.
const MAX_FIELDS: usize = 12;
/// Maximum length of a value in an example, in bytes.
const MAX_PLACEHOLDER: usize = 80;
/// Maximum number of references followed in a row.
const MAX_REFERENCES: usize = 8;
/// Maximum length of a reference, in bytes. Each resolution reads all of it.
const MAX_REFERENCE: usize = 512;

/// Types of one schema document. References are resolved in `root`.
#[derive(Clone, Copy)]
pub(super) struct Types<'a> {
    root: &'a Value,
    budget: &'a Budget,
}

/// A property of an object.
pub(super) struct Field<'a> {
    pub(super) name: &'a str,
    pub(super) schema: &'a Value,
    pub(super) is_required: bool,
}

/// Level of detail at which a type renders objects.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Renders objects as `dict`.
    Outline,
    /// Renders the fields of objects, two levels deep.
    Fields,
}

impl Detail {
    fn levels(self) -> u32 {
        match self {
            Self::Outline => 0,
            Self::Fields => 2,
        }
    }
}

impl<'a> Types<'a> {
    /// Creates the types of `root`. Everything read from it is paid from `budget`.
    pub(super) fn new(root: &'a Value, budget: &'a Budget) -> Self {
        Self { root, budget }
    }

    /// Returns the properties of an object: required ones first, each group sorted by name. `None`
    /// if the budget does not cover them.
    pub(super) fn fields(self, schema: &'a Value) -> Option<Vec<Field<'a>>> {
        self.resolve(schema)
            .as_object()
            .map_or_else(|| Some(Vec::new()), |schema| self.fields_of(schema))
    }

    /// Returns the fields of a value of this type, or of its items if it is an array. `None` if the
    /// budget does not cover them.
    pub(super) fn inner_fields(self, schema: &'a Value) -> Option<Vec<Field<'a>>> {
        let schema = self.resolve(schema);
        match schema.get("items") {
            Some(items) => self.fields(items),
            None => self.fields(schema),
        }
    }

    /// Follows the references of a schema, as far as they lead into the same document.
    pub(super) fn resolve(self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..MAX_REFERENCES {
            let reference =
                schema.get("$ref").and_then(Value::as_str).filter(|it| it.len() <= MAX_REFERENCE);
            match reference
                .and_then(|it| it.strip_prefix('#'))
                .and_then(|pointer| self.root.pointer(pointer))
            {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    /// Returns an example value of this type.
    pub(super) fn placeholder(self, schema: &'a Value) -> String {
        let schema = self.resolve(schema);
        let only =
            schema.get("enum").and_then(|options| options.get(0)).or_else(|| schema.get("const"));
        if let Some(value) = only.and_then(scalar).filter(|value| value.len() <= MAX_PLACEHOLDER) {
            return value;
        }
        let value = match self.text(schema, Detail::Outline).as_str() {
            "int" => "1",
            "float" => "1.5",
            "bool" => "True",
            kind if kind.starts_with("list") => "[]",
            kind if kind.starts_with("dict") => "{}",
            _ => "\"...\"",
        };
        value.to_owned()
    }

    fn fields_of(self, schema: &'a Map<String, Value>) -> Option<Vec<Field<'a>>> {
        let properties = schema.get("properties").and_then(Value::as_object);
        let required =
            schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if !self.budget.pay(properties.map_or(0, Map::len) + required.len()) {
            return None;
        }
        let required: HashSet<&str> = required.iter().filter_map(Value::as_str).collect();
        let field = |(name, schema): (&'a String, &'a Value)| Field {
            name,
            schema,
            is_required: required.contains(name.as_str()),
        };
        let mut fields: Vec<_> = properties.into_iter().flatten().map(field).collect();
        fields.sort_by_key(|field| (!field.is_required, field.name));
        Some(fields)
    }

    /// Renders a schema as a type.
    pub(super) fn text(self, schema: &'a Value, detail: Detail) -> String {
        Writer { types: self, left: MAX_SCHEMAS, depth: 0 }.schema(schema, detail.levels())
    }
}

struct Writer<'a> {
    types: Types<'a>,
    left: u32,
    depth: u32,
}

impl<'a> Writer<'a> {
    fn schema(&mut self, schema: &'a Value, levels: u32) -> String {
        if self.left == 0 || self.depth == MAX_DEPTH || !self.types.budget.pay(1) {
            return anything();
        }
        self.left -= 1;
        self.depth += 1;
        let text = self.resolved(schema, levels);
        self.depth -= 1;
        text
    }

    fn resolved(&mut self, schema: &'a Value, levels: u32) -> String {
        let Some(schema) = self.types.resolve(schema).as_object() else { return anything() };
        if let Some(options) =
            schema.get("enum").and_then(Value::as_array).filter(|options| !options.is_empty())
        {
            return literal(options);
        }
        if let Some(only) = schema.get("const") {
            return literal(std::slice::from_ref(only));
        }
        let mut alternatives = self.alternatives(schema, levels);
        if schema.get("nullable") == Some(&Value::Bool(true)) {
            alternatives.push("None".to_owned());
        }
        union(alternatives)
    }

    fn alternatives(&mut self, schema: &'a Map<String, Value>, levels: u32) -> Vec<String> {
        let listed = |keyword| schema.get(keyword).and_then(Value::as_array);
        match schema.get("type") {
            Some(Value::String(kind)) => vec![self.kind(kind, schema, levels)],
            Some(Value::Array(kinds)) if kinds.len() <= MAX_ALTERNATIVES => kinds
                .iter()
                .map(|kind| self.kind(kind.as_str().unwrap_or_default(), schema, levels))
                .collect(),
            _ => match (
                listed("anyOf").or_else(|| listed("oneOf")),
                listed("allOf").map(Vec::as_slice),
            ) {
                (Some(schemas), _) if schemas.len() <= MAX_ALTERNATIVES => {
                    schemas.iter().map(|schema| self.schema(schema, levels)).collect()
                }
                (None, Some([only])) => vec![self.schema(only, levels)],
                (None, None) if schema.contains_key("properties") => {
                    vec![self.object(schema, levels)]
                }
                _ => vec![anything()],
            },
        }
    }

    fn kind(&mut self, kind: &str, schema: &'a Map<String, Value>, levels: u32) -> String {
        let name = match kind {
            "string" => "str",
            "number" => "float",
            "integer" => "int",
            "boolean" => "bool",
            "null" => "None",
            "array" => match schema.get("items") {
                Some(items) => return format!("list[{}]", self.schema(items, levels)),
                None => "list[Any]",
            },
            "object" => return self.object(schema, levels),
            _ => "Any",
        };
        name.to_owned()
    }

    /// Renders fields as in `{"path": str, "line": NotRequired[int]}`, if they fit the bounds;
    /// otherwise `dict`.
    fn object(&mut self, schema: &'a Map<String, Value>, levels: u32) -> String {
        let dict = || "dict".to_owned();
        let Some(levels) = levels.checked_sub(1) else { return dict() };
        match schema.get("properties").and_then(Value::as_object).map_or(0, Map::len) {
            0 => match schema.get("additionalProperties") {
                Some(values @ Value::Object(_)) => match self.schema(values, levels) {
                    values if values == "Any" => dict(),
                    values => format!("dict[str, {values}]"),
                },
                _ => dict(),
            },
            1..=MAX_FIELDS => self
                .types
                .fields_of(schema)
                .and_then(|fields| self.fields(&fields, levels))
                .unwrap_or_else(dict),
            // Not read at all: references can lead here once for each schema.
            _ => dict(),
        }
    }

    /// Renders the fields of a dict. `None` if the text is longer than [`MAX_TEXT`].
    fn fields(&mut self, fields: &[Field<'a>], levels: u32) -> Option<String> {
        let mut out = String::from("{");
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                out.push_str(", ");
            }
            if out.len() + field.name.len() > MAX_TEXT {
                return None;
            }
            out.push_str(&keyed(field, &self.schema(field.schema, levels)));
        }
        out.push('}');
        (out.len() <= MAX_TEXT).then_some(out)
    }
}

/// Renders a field of a dict with its type.
pub(super) fn keyed(field: &Field<'_>, kind: &str) -> String {
    let name = text::quoted(field.name);
    if field.is_required {
        format!("{name}: {kind}")
    } else {
        format!("{name}: NotRequired[{kind}]")
    }
}

/// Renders a value in Python syntax. `None` for a list, an object, or a string longer than
/// [`MAX_TEXT`].
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

/// Renders the permitted values as a `Literal`, as many as fit. Reads no more values than that.
fn literal(options: &[Value]) -> String {
    let mut out = String::from("Literal[");
    for (at, option) in options.iter().enumerate() {
        if option.is_array() || option.is_object() {
            return anything();
        }
        if at > 0 {
            out.push_str(", ");
        }
        match scalar(option) {
            Some(option) if out.len() + option.len() <= MAX_TEXT => out.push_str(&option),
            _ => {
                out.push_str("...");
                break;
            }
        }
    }
    out.push(']');
    out
}

/// Renders a union of distinct alternatives, with `None` last.
fn union(alternatives: Vec<String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for alternative in alternatives {
        if !distinct.contains(&alternative) {
            distinct.push(alternative);
        }
    }
    distinct.sort_by_key(|it| it == "None");
    let text = distinct.join(" | ");
    if distinct.is_empty() || distinct.iter().any(|it| it == "Any") || text.len() > 2 * MAX_TEXT {
        anything()
    } else {
        text
    }
}

fn anything() -> String {
    "Any".to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn typed(schema: &Value) -> String {
        Types::new(schema, &Budget::whole()).text(schema, Detail::Fields)
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
            (json!({"type": "object"}), "dict"),
            (
                json!({"type": "object", "additionalProperties": {"type": "integer"}}),
                "dict[str, int]",
            ),
            (json!({"enum": ["a", "b\"c"]}), r#"Literal["a", "b\"c"]"#),
            (
                json!({"type": "integer", "enum": [1, 2.5, true, null]}),
                "Literal[1, 2.5, True, None]",
            ),
            (json!({"const": false}), "Literal[False]"),
            (json!({"enum": [{"a": 1}]}), "Any"),
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
    fn objects_are_rendered_two_levels_deep() {
        let schema = json!({"type": "object", "required": ["a"], "properties": {
            "a": {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "object", "properties": {"c": {}}}}}},
            "user-id": {"type": "string"},
        }});
        insta::assert_snapshot!(typed(&schema), @r#"{"a": list[{"b": NotRequired[dict]}], "user-id": NotRequired[str]}"#);
        insta::assert_snapshot!(Types::new(&schema, &Budget::whole()).text(&schema, Detail::Outline), @"dict");
    }

    #[test]
    fn references_are_followed_and_cycles_end() {
        let schema = json!({"$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "tags": {"$ref": "#/$defs/tags"}}},
            "tags": {"type": "array", "items": {"type": "string"}},
            "loop": {"$ref": "#/$defs/loop"},
            "nest": {"type": "array", "items": {"$ref": "#/$defs/nest"}},
        }});
        let of = |name: &str| {
            let reference = json!({"$ref": format!("#/$defs/{name}"), "$defs": schema["$defs"]});
            typed(&reference)
        };
        insta::assert_snapshot!(of("node"), @r#"{"next": NotRequired[{"next": NotRequired[dict], "tags": NotRequired[list[str]]}], "tags": NotRequired[list[str]]}"#);
        assert_eq!(of("loop"), "Any");
        assert_eq!(of("nest"), "list[list[list[list[list[list[list[list[Any]]]]]]]]");
    }

    fn schemas() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(|it| json!({"const": it})),
            prop::collection::vec(any::<String>(), 0..60).prop_map(|it| json!({"enum": it})),
            "string|null|number|other".prop_map(|it| json!({"type": it})),
            Just(json!({"$ref": "#"})),
            any::<i64>().prop_map(|it| json!(it)),
        ];
        leaf.prop_recursive(6, 200, 20, |inner| {
            prop_oneof![
                prop::collection::btree_map(any::<String>(), inner.clone(), 0..20)
                    .prop_map(|it| json!({"type": "object", "properties": it})),
                inner.clone().prop_map(|it| json!({"type": "array", "items": it})),
                prop::collection::vec(inner, 0..20).prop_map(|it| json!({"anyOf": it})),
            ]
        })
    }

    proptest! {
        #[test]
        fn any_schema_has_a_short_type_on_one_line(schema in schemas()) {
            let text = typed(&schema);
            prop_assert!(text.len() < 4 * MAX_TEXT && !text.contains(char::is_control), "{text}");
        }
    }
}
