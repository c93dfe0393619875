//! Checks the arguments of a script's call before it is decided, so that no person is asked to approve a
//! call that cannot succeed.
//!
//! Only plain errors are found: a missing parameter, an unknown one, and a scalar of another type.
//! The source of the tool checks the rest. Nothing that the schema permits is refused, with one
//! exception: a name that the schema neither declares nor excludes, if it is a declared name
//! mistyped.

use std::{borrow::Cow, collections::BTreeMap};

use airlock_core::tool::{CallError, Tool};
use airlock_json::raw;
use airlock_strings::{cut, nearest, visible_line};

/// Maximum bytes of a schema that is read. Each call reads it once more, on a thread that serves
/// requests. A schema may have 256 KiB; one above this limit is left to the source of its tool.
const MAX_SCHEMA: usize = 64 << 10;
/// Maximum bytes of a name in a message. Names come from the script and from the server.
const MAX_NAME: usize = 64;
/// Maximum bytes of the list of parameters in a message: about 150 tokens.
const MAX_PARAMETERS: usize = 600;
/// Keywords of a schema that can declare further parameters.
const COMPOSED: [&str; 10] = [
    "$dynamicRef",
    "allOf",
    "anyOf",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "oneOf",
    "patternProperties",
    "then",
];

/// Checks arguments, as JSON text, against the input schema of a tool. Fails with the first error that
/// is found. Arguments that are not an object pass: the door refuses them.
pub(super) fn check(tool: &Tool, arguments: &str) -> Result<(), CallError> {
    match misfit(tool.input_schema.as_str(), arguments) {
        None => Ok(()),
        Some(detail) => Err(CallError::bad_arguments(tool.name.as_str(), detail)),
    }
}

/// Parameters that a schema declares.
struct Declared<'s> {
    /// Schemas by name.
    properties: BTreeMap<String, &'s str>,
    required: Vec<String>,
    /// True if other names are excluded.
    is_closed: bool,
    /// True if other names may mean something.
    is_open: bool,
}

impl<'s> Declared<'s> {
    /// Reads a schema; `None` if it is too large, or a reference.
    fn read(schema: &'s str) -> Option<Self> {
        if schema.len() > MAX_SCHEMA {
            return None;
        }
        let members: Vec<_> = raw::members(schema)?.collect();
        if member(&members, "$ref").is_some() {
            return None;
        }
        let properties = member(&members, "properties");
        let properties = properties.and_then(raw::members).into_iter().flatten();
        let properties: BTreeMap<_, _> =
            properties.map(|(name, schema)| (name.into_owned(), schema)).collect();
        let required = member(&members, "required");
        let required = required.and_then(raw::elements).into_iter().flatten();
        let required = required.filter_map(raw::string).map(Cow::into_owned).collect();
        let has_patterns = member(&members, "patternProperties").is_some();
        let is_composed = COMPOSED.iter().any(|keyword| member(&members, keyword).is_some());
        let additional = member(&members, "additionalProperties");
        Some(Self {
            is_closed: additional == Some("false") && !has_patterns,
            is_open: additional.is_some() || is_composed || properties.is_empty(),
            properties,
            required,
        })
    }

    /// Describes a parameter that the tool does not have; `None` if it may have it.
    fn unknown(&self, name: &str, given: &BTreeMap<String, &str>) -> Option<String> {
        if self.properties.contains_key(name) || (self.is_open && !self.is_closed) {
            return None;
        }
        let free = self.properties.keys().map(String::as_str);
        let meant = nearest(name, free.filter(|known| !given.contains_key(*known)));
        let name = shown(name);
        match meant {
            Some(meant) => {
                Some(format!("unknown parameter `{name}`; did you mean `{}`?", shown(meant)))
            }
            None if self.is_closed => Some(format!("unknown parameter `{name}`.")),
            None => None,
        }
    }

    fn missing(&self, given: &BTreeMap<String, &str>) -> Option<String> {
        let missing = self.required.iter().find(|name| !given.contains_key(*name))?;
        Some(format!("the parameter `{}` is missing.", shown(missing)))
    }

    /// Describes a scalar of another type than the schema declares. An optional parameter may be null.
    fn mistyped(&self, name: &str, value: &str) -> Option<String> {
        let schema = self.properties.get(name)?;
        let is_null = value == "null";
        let is_required = self.required.iter().any(|required| required == name);
        if is_null && (!is_required || is_nullable(schema)) {
            return None;
        }
        let types = scalars(schema)?;
        if types.iter().any(|kind| is_of(kind, value)) {
            return None;
        }
        let name = shown(name);
        let types = types.join(" or ");
        Some(format!("the parameter `{name}` must be {types}, not {}.", kind(value)))
    }

    /// Lists the parameters; those that are optional have a question mark.
    fn listed(&self) -> String {
        if self.properties.is_empty() {
            return "The tool has no parameters".to_owned();
        }
        let (needed, optional): (Vec<_>, Vec<_>) =
            self.properties.keys().partition(|name| self.required.contains(name));
        let needed = needed.into_iter().map(|name| shown(name));
        let optional = optional.into_iter().map(|name| format!("{}?", shown(name)));
        let names: Vec<_> = needed.chain(optional).collect();
        format!("Parameters: {}", cut(names.join(", "), MAX_PARAMETERS))
    }
}

/// Describes the first error of arguments; `None` if there is none.
fn misfit(schema: &str, arguments: &str) -> Option<String> {
    let declared = Declared::read(schema)?;
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let given: BTreeMap<String, &str> =
        raw::members(arguments)?.map(|(name, value)| (name.into_owned(), value)).collect();
    let unknown = given.keys().find_map(|name| declared.unknown(name, &given));
    let found = unknown
        .or_else(|| declared.missing(&given))
        .or_else(|| given.iter().find_map(|(name, value)| declared.mistyped(name, value)))?;
    Some(format!("{found} {}", declared.listed()))
}

/// Returns the value of a member of an object.
fn member<'s>(members: &[(Cow<'_, str>, &'s str)], name: &str) -> Option<&'s str> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

/// Returns the types that a schema permits; `None` if it does not say, or permits another type than
/// scalars.
fn scalars(schema: &str) -> Option<Vec<String>> {
    if raw::member(schema, "$ref").is_some() {
        return None;
    }
    let types = raw::member(schema, "type")?;
    let types: Vec<String> = match raw::string(types) {
        Some(one) => vec![one.into_owned()],
        None => raw::elements(types)?
            .map(|kind| raw::string(kind).map(Cow::into_owned))
            .collect::<Option<_>>()?,
    };
    let are_scalars = types
        .iter()
        .all(|kind| matches!(kind.as_str(), "string" | "integer" | "number" | "boolean" | "null"));
    (!types.is_empty() && are_scalars).then_some(types)
}

/// Returns whether a schema permits null in the way of `OpenAPI`.
fn is_nullable(schema: &str) -> bool {
    raw::member(schema, "nullable") == Some("true")
}

fn is_of(expected: &str, value: &str) -> bool {
    match (expected, kind(value)) {
        ("integer", "number") => value.parse().is_ok_and(|number: f64| number.fract() == 0.0),
        (expected, found) => expected == found,
    }
}

/// Returns the type of a JSON value.
fn kind(value: &str) -> &'static str {
    match value.bytes().next() {
        Some(b'"') => "string",
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b't' | b'f') => "boolean",
        Some(b'n') => "null",
        _ => "number",
    }
}

fn shown(name: &str) -> String {
    cut(visible_line(&name[..name.floor_char_boundary(MAX_NAME)]), MAX_NAME)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(schema: &Value, arguments: &Value) -> Option<String> {
        misfit(&schema.to_string(), &arguments.to_string())
    }

    fn closing() -> Value {
        json!({
            "type": "object", "required": ["number"],
            "properties": {"number": {"type": "integer"}, "reason": {"type": "string"}},
        })
    }

    #[test]
    fn a_mistyped_name_is_found_with_the_parameters() {
        let list = "Parameters: number, reason?";
        let expected = format!("unknown parameter `numbr`; did you mean `number`? {list}");
        assert_eq!(found(&closing(), &json!({"numbr": 3})), Some(expected));
        let expected = format!("unknown parameter `reson`; did you mean `reason`? {list}");
        assert_eq!(found(&closing(), &json!({"number": 3, "reson": "x"})), Some(expected));
        let expected = format!("the parameter `number` is missing. {list}");
        assert_eq!(found(&closing(), &json!({})), Some(expected.clone()));
        assert_eq!(misfit(&closing().to_string(), " "), Some(expected));
    }

    #[test]
    fn a_name_that_the_schema_permits_passes() {
        let given = json!({"number": 3, "zz": 1});
        assert_eq!(found(&closing(), &given), None, "nothing is like it");
        let both = json!({"number": 3, "reason": "", "reasons": 1});
        assert_eq!(found(&closing(), &both), None, "what it is like is given too");
        let typo = json!({"number": 3, "reson": 1});
        for (keyword, value) in [
            ("additionalProperties", json!(true)),
            ("additionalProperties", json!({"type": "integer"})),
            ("patternProperties", json!({"^r": {}})),
            ("anyOf", json!([{"properties": {"reson": {}}}])),
            ("$ref", json!("#/$defs/a")),
        ] {
            let mut schema = closing();
            schema[keyword] = value;
            assert_eq!(found(&schema, &typo), None, "{schema}");
        }
        assert_eq!(found(&json!({"type": "object"}), &json!({"a": 1})), None);
        assert_eq!(found(&json!({}), &json!({"a": 1})), None);
    }

    #[test]
    fn a_closed_schema_has_no_other_names() {
        let mut schema = closing();
        schema["additionalProperties"] = json!(false);
        let given = json!({"number": 3, "zz": 1});
        let text = found(&schema, &given).expect("it is excluded");
        assert_eq!(text, "unknown parameter `zz`. Parameters: number, reason?");
        schema["patternProperties"] = json!({"^z": {}});
        assert_eq!(found(&schema, &given), None);
        let none = json!({"type": "object", "properties": {}, "additionalProperties": false});
        let text = found(&none, &json!({"a": 1})).expect("it is excluded");
        assert_eq!(text, "unknown parameter `a`. The tool has no parameters");
    }

    #[test]
    fn a_scalar_has_a_declared_type() {
        let integer = json!({"type": "integer"});
        let text = found_of(&integer, &json!("3")).expect("it is a text");
        assert_eq!(text, "the parameter `a` must be integer, not string. Parameters: a");
        for wrong in [json!(1.5), json!(true), json!(null), json!([1]), json!({})] {
            assert!(found_of(&integer, &wrong).is_some(), "{wrong}");
        }
        for (schema, value) in [
            (integer.clone(), json!(3)),
            (integer.clone(), json!(3.0)),
            (integer, json!(-1e30)),
            (json!({"type": "number"}), json!(3)),
            (json!({"type": ["string", "null"]}), json!(null)),
            (json!({"type": "string", "nullable": true}), json!(null)),
            (json!({"type": ["string", "array"]}), json!(7)),
            (json!({"type": "array"}), json!("a")),
            (json!({"enum": [1]}), json!("a")),
            (json!({"$ref": "#/a", "type": "integer"}), json!("a")),
            (json!({"type": []}), json!("a")),
            (json!(true), json!("a")),
        ] {
            assert_eq!(found_of(&schema, &value), None, "{schema} {value}");
        }
        let optional = json!({"properties": {"a": {"type": "string"}}});
        assert_eq!(found(&optional, &json!({"a": null})), None);
        assert!(found(&optional, &json!({"a": 7})).is_some());
    }

    /// Returns the error of the only parameter.
    fn found_of(schema: &Value, value: &Value) -> Option<String> {
        let schema = json!({"properties": {"a": schema}, "required": ["a"]});
        found(&schema, &json!({"a": value}))
    }

    #[test]
    fn messages_are_bounded_and_on_one_line() {
        let properties: serde_json::Map<_, _> =
            (0..500).map(|n| (format!("parameter\n{n}"), json!({}))).collect();
        let schema = json!({"properties": properties, "additionalProperties": false});
        let text = found(&schema, &json!({"x".repeat(5_000): 1})).expect("it is excluded");
        assert!(text.len() < 1_000 && !text.contains('\n'), "{text}");
        let large = json!({"description": "x".repeat(MAX_SCHEMA), "required": ["a"]});
        assert_eq!(found(&large, &json!({})), None);
    }
}
