//! Checks the arguments of a script's call before it is decided, so that no person is asked to approve a
//! call that cannot succeed. The same rules hold for the calls that a source shows before its script runs.
//!
//! Only plain errors are found: a missing parameter, an unknown one, and a scalar of another type.
//! The source of the tool checks the rest. Nothing that the schema permits is refused, with one
//! exception: a name that the schema neither declares nor excludes, if it is a declared name
//! mistyped.

use std::{borrow::Cow, cell::Cell, collections::BTreeMap};

use airlock_core::tool::{CallError, Tool};
use airlock_json::raw;
use airlock_strings::{MAX_WORD_BYTES, cut, nearest, visible_line};

/// Maximum bytes of a schema that is read. A call may read it once more, on a thread that serves
/// requests. A schema may have 256 KiB; one above this limit is left to the source of its tool.
pub(super) const MAX_SCHEMA: usize = 64 << 10;
/// Maximum bytes of a list of parameters or of tools in a message, about 150 tokens. A schema may declare thousands.
pub(super) const MAX_LIST: usize = 600;
/// Maximum number of arguments of a call that is checked here. The text of a call has room for a hundred thousand, which
/// take tens of milliseconds on a thread that serves requests; a call with more is left to the source of its tool.
const MAX_GIVEN: usize = 1_000;
/// Maximum number of undeclared names in a call that are compared with the declared ones. Each takes up to 256 comparisons of
/// 64 bytes, without fuel: a fifth of a millisecond.
pub(super) const MAX_UNDECLARED: usize = 64;
/// Types that a schema can name.
const JSON_TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];
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
    let declared = Declared::read(tool.input_schema.as_str());
    declared.map_or(Ok(()), |declared| check_declared(tool, &declared, arguments))
}

/// Checks arguments like [`check`], against the parameters that were read of the input schema.
pub(super) fn check_declared(
    tool: &Tool,
    declared: &Declared<'_>,
    arguments: &str,
) -> Result<(), CallError> {
    match misfit(declared, arguments) {
        None => Ok(()),
        Some(detail) => Err(CallError::bad_arguments(tool.name.as_str(), detail)),
    }
}

/// Arguments of a call by their names: their JSON text, or `None` if they are not known yet.
pub(super) type GivenArguments<'a> = BTreeMap<&'a str, Option<&'a str>>;

/// Parameters that a schema declares.
pub(super) struct Declared<'s> {
    /// Schemas by name.
    properties: BTreeMap<Cow<'s, str>, Cow<'s, str>>,
    required: Vec<Cow<'s, str>>,
    /// True if other names are excluded.
    is_closed: bool,
    /// True if other names may mean something.
    is_open: bool,
}

impl<'s> Declared<'s> {
    /// Reads a schema; `None` if it is too large, or a reference.
    pub(super) fn read(schema: &'s str) -> Option<Self> {
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
            properties.map(|(name, schema)| (name, Cow::Borrowed(schema))).collect();
        let required = member(&members, "required").and_then(raw::elements).into_iter().flatten();
        let required = required.filter_map(raw::string).collect();
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

    /// Returns the same with copies of its texts.
    pub(super) fn into_owned(self) -> Declared<'static> {
        let Self { properties, required, is_closed, is_open } = self;
        let properties = properties.into_iter();
        Declared {
            properties: properties.map(|(name, schema)| (owned(name), owned(schema))).collect(),
            required: required.into_iter().map(owned).collect(),
            is_closed,
            is_open,
        }
    }

    /// Describes the first error of arguments; `None` if there is none. Without `is_whole`, there may be
    /// further arguments. `left` is the number of undeclared names that may be compared with the declared ones.
    pub(super) fn misfit(
        &self,
        given: &GivenArguments<'_>,
        is_whole: bool,
        left: &Cell<usize>,
    ) -> Option<String> {
        let mut undeclared = given.keys().filter(|name| !self.properties.contains_key(**name));
        let unknown = undeclared.find_map(|name| self.unknown(name, given, is_whole, left));
        let found = unknown
            .or_else(|| if is_whole { self.missing(given) } else { None })
            .or_else(|| given.iter().find_map(|(name, value)| self.mistyped(name, (*value)?)))?;
        Some(self.with_list(&found))
    }

    /// Describes an argument of one of these JSON types, if the parameter takes none of them. `source` is
    /// the origin of the value.
    pub(super) fn misfit_of_types(
        &self,
        name: &str,
        types: &[String],
        source: &str,
    ) -> Option<String> {
        let accepted = scalars(self.properties.get(name)?)?;
        let fits = types.iter().any(|kind| match kind.as_str() {
            "null" => self.takes_null(name) || accepted.iter().any(|known| known == "null"),
            // An integer of more than 64 bits becomes a text on its way through a script.
            "integer" | "number" => accepted
                .iter()
                .any(|known| matches!(known.as_str(), "integer" | "number" | "string")),
            kind => accepted.iter().any(|known| known == kind),
        });
        if fits || types.is_empty() {
            return None;
        }
        let name = shown(name);
        let accepted = accepted.join(" or ");
        let types = shown(&types.join(" or "));
        let found = format!("the parameter `{name}` must be {accepted}, and {source} is {types}.");
        Some(self.with_list(&found))
    }

    fn with_list(&self, found: &str) -> String {
        format!("{found} {}", self.listed())
    }

    /// Describes a parameter that is not declared; `None` if the tool may have it.
    fn unknown(
        &self,
        name: &str,
        given: &GivenArguments<'_>,
        is_whole: bool,
        left: &Cell<usize>,
    ) -> Option<String> {
        if self.is_open && !self.is_closed {
            return None;
        }
        // A further argument may be the one that it is like.
        if !is_whole && !self.is_closed {
            return None;
        }
        let meant = left.get().checked_sub(1).and_then(|less| {
            left.set(less);
            let free = self.properties.keys().map(|known| &**known);
            nearest(name, free.filter(|known| !given.contains_key(*known)))
        });
        let name = shown(name);
        match meant {
            Some(meant) => {
                Some(format!("unknown parameter `{name}`; did you mean `{}`?", shown(meant)))
            }
            None if self.is_closed => Some(format!("unknown parameter `{name}`.")),
            None => None,
        }
    }

    fn missing(&self, given: &GivenArguments<'_>) -> Option<String> {
        let missing = self.required.iter().find(|name| !given.contains_key(&***name))?;
        Some(format!("the parameter `{}` is missing.", shown(missing)))
    }

    /// Describes a scalar of another type than the schema declares. An optional parameter may be null.
    fn mistyped(&self, name: &str, value: &str) -> Option<String> {
        let schema = self.properties.get(name)?;
        if value == "null" && self.takes_null(name) {
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

    /// Returns whether null may stand for the absence of a parameter.
    fn takes_null(&self, name: &str) -> bool {
        let is_required = self.required.iter().any(|required| required == name);
        !is_required || self.properties.get(name).is_some_and(|schema| is_nullable(schema))
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
        format!("Parameters: {}", cut(names.join(", "), MAX_LIST))
    }
}

/// Describes the first error of arguments; `None` if there is none.
fn misfit(declared: &Declared<'_>, arguments: &str) -> Option<String> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let members: Vec<_> = raw::members(arguments)?.take(MAX_GIVEN + 1).collect();
    if members.len() > MAX_GIVEN {
        return None;
    }
    let given: GivenArguments<'_> =
        members.iter().map(|(name, value)| (&**name, Some(*value))).collect();
    declared.misfit(&given, true, &Cell::new(MAX_UNDECLARED))
}

/// Returns the JSON types that a part of a result has by the output schema of its tool; `None` if the
/// schema does not say.
pub(super) fn result_types(schema: &str, keys: &[String]) -> Option<Vec<String>> {
    if schema.len() > MAX_SCHEMA {
        return None;
    }
    let part = keys.iter().try_fold(schema, |part, key| {
        if raw::member(part, "$ref").is_some() {
            return None;
        }
        raw::member(raw::member(part, "properties")?, key)
    });
    // Nothing is checked against a schema with another type.
    types(part?).filter(|types| types.iter().all(|kind| JSON_TYPES.contains(&kind.as_str())))
}

fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

/// Returns the value of a member of an object.
fn member<'s>(members: &[(Cow<'_, str>, &'s str)], name: &str) -> Option<&'s str> {
    members.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}

/// Returns the types that a schema permits; `None` if it does not say.
fn types(schema: &str) -> Option<Vec<String>> {
    if raw::member(schema, "$ref").is_some() {
        return None;
    }
    let types = raw::member(schema, "type")?;
    match raw::string(types) {
        Some(one) => Some(vec![one.into_owned()]),
        None => raw::elements(types)?
            .map(|kind| raw::string(kind).map(Cow::into_owned))
            .collect::<Option<_>>(),
    }
}

/// Returns the types that a schema permits; `None` if it does not say, or permits another type than
/// scalars.
fn scalars(schema: &str) -> Option<Vec<String>> {
    let types = types(schema)?;
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

/// Returns a name as a message shows it: on one line, and cut.
pub(super) fn shown(name: &str) -> String {
    cut(visible_line(&name[..name.floor_char_boundary(MAX_WORD_BYTES)]), MAX_WORD_BYTES)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the error of arguments, which is the same with copies of the parameters.
    fn found(schema: &Value, arguments: &Value) -> Option<String> {
        let [schema, arguments] = [schema, arguments].map(ToString::to_string);
        let found = misfit_of(&schema, &arguments);
        let kept = Declared::read(&schema).map(Declared::into_owned);
        assert_eq!(kept.and_then(|kept| misfit(&kept, &arguments)), found);
        found
    }

    fn misfit_of(schema: &str, arguments: &str) -> Option<String> {
        misfit(&Declared::read(schema)?, arguments)
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
        assert_eq!(misfit_of(&closing().to_string(), " "), Some(expected));
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
    fn only_some_undeclared_names_are_compared() {
        let mut given: serde_json::Map<_, _> =
            (0..MAX_UNDECLARED - 1).map(|n| (format!("{n:03}"), json!(1))).collect();
        given.insert("number".into(), json!(1));
        given.insert("reson".into(), json!(""));
        let text = found(&closing(), &Value::Object(given.clone())).expect("it is mistyped");
        assert!(text.contains("unknown parameter `reson`"), "{text}");
        given.insert("999".into(), json!(1));
        assert_eq!(found(&closing(), &Value::Object(given)), None);
    }

    /// Without the limits, a call of 700 KB takes 150 times as long: 10,000 names are compared with 256 each.
    #[test]
    fn a_call_with_many_undeclared_names_is_checked_in_the_time_of_a_few() {
        let declared = (0..256).map(|n| (format!("{}{n:03}", "a".repeat(61)), json!({})));
        let properties: serde_json::Map<_, _> = declared.collect();
        let schema = json!({"type": "object", "properties": properties}).to_string();
        let [few, many] = [MAX_UNDECLARED, 10_000].map(|count| {
            let given = (0..count).map(|n| (format!("{}{n:05}", "b".repeat(59)), json!(1)));
            let given = Value::Object(given.collect()).to_string();
            let begun = std::time::Instant::now();
            assert_eq!(misfit_of(&schema, &given), None);
            begun.elapsed()
        });
        assert!(many < few * 20, "{many:?} for many, {few:?} for a few");
    }

    #[test]
    fn a_call_with_more_arguments_than_are_checked_is_left_to_its_tool() {
        let mut given: serde_json::Map<_, _> =
            (1..MAX_GIVEN).map(|n| (format!("{n:04}"), json!(1))).collect();
        given.insert("number".into(), json!("three"));
        let text = found(&closing(), &Value::Object(given.clone())).expect("it is mistyped");
        assert!(text.contains("`number` must be integer"), "{text}");
        given.insert("0000".into(), json!(1));
        assert_eq!(found(&closing(), &Value::Object(given)), None);
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
    fn a_result_has_types_if_its_schema_names_those_of_json() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": ["string", "null"]}, "b": {"type": "any"}, "c": {"type": ["string", "file"]},
            "d": {"$ref": "#/a", "type": "string"}, "e": {},
        }});
        let schema = schema.to_string();
        assert_eq!(result_types(&schema, &[]), Some(vec!["object".to_owned()]));
        for (key, expected) in [
            ("a", Some("string null")),
            ("b", None),
            ("c", None),
            ("d", None),
            ("e", None),
            ("f", None),
        ] {
            let types = result_types(&schema, &[key.to_owned()]).map(|types| types.join(" "));
            assert_eq!(types.as_deref(), expected, "{key}");
        }
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
