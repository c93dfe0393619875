//! Parses the JSON text of the arguments, and turns an error into a message that tells the model
//! what to change.

use std::fmt::Display;
use std::ops::RangeInclusive;

use schemars::{JsonSchema, Schema};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, schema};

/// Longest piece of an argument that a message repeats, in characters. The model that reads the message has written the
/// argument, which may have 1 MiB.
const EXCERPT_MAX: usize = 40;

/// The values that a message is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ArgumentSubject {
    /// Arguments of a tool.
    Arguments,
    /// Settings of the operator.
    Settings,
}

impl ArgumentSubject {
    fn one(self) -> &'static str {
        match self {
            Self::Arguments => "argument",
            Self::Settings => "setting",
        }
    }

    fn all(self) -> &'static str {
        match self {
            Self::Arguments => "the arguments",
            Self::Settings => "the settings",
        }
    }

    fn none(self) -> &'static str {
        match self {
            Self::Arguments => "this tool takes no arguments",
            Self::Settings => "this plugin has no settings",
        }
    }
}

/// A type of arguments, for the code that `#[tool]` generates.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the argument of a tool",
    note = "write `#[data]` above the definition of each struct or enum in it (`use airlock_guest::data`)"
)]
pub trait Argument {}

// Without it, the message would be about the bounds.
#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned + JsonSchema> Argument for T {}

/// Compiles only for a type that can be an argument. Otherwise the error is the message of [`Argument`],
/// before those of the derived implementations.
pub const fn is_argument<T: Argument>() {}

/// Parses arguments. Fails with `invalid-input` if they do not match the schema.
pub fn parse<A: DeserializeOwned + JsonSchema>(arguments: &str) -> Result<A, Error> {
    read(arguments, ArgumentSubject::Arguments).map_err(Error::invalid_input)
}

/// Parses an object. The error is a message that names the value and what it must be.
pub(crate) fn read<A: DeserializeOwned + JsonSchema>(
    text: &str,
    subject: ArgumentSubject,
) -> Result<A, String> {
    let mut json = serde_json::Deserializer::from_str(text);
    // The schema is built only for an error.
    serde_path_to_error::deserialize(&mut json)
        .map_err(|error| explain(text, &error, &schema::of_input::<A>(), subject))
}

/// Checks a value for `range = …`. The error says what is valid.
pub fn in_range<T: PartialOrd + Display>(
    value: &T,
    min: Option<T>,
    max: Option<T>,
) -> Result<(), String> {
    let is_low = min.as_ref().is_some_and(|min| value < min);
    let is_high = max.as_ref().is_some_and(|max| value > max);
    // NaN is neither below nor above, and JSON does not have it.
    if !is_low && !is_high {
        return Ok(());
    }
    Err(match (min, max) {
        (Some(min), Some(max)) => format!("it must be from {min} to {max}, not {value}"),
        (Some(min), None) => format!("it must be {min} or more, not {value}"),
        (None, Some(max)) => format!("it must be {max} or less, not {value}"),
        (None, None) => return Ok(()),
    })
}

/// Returns `value` if it is in `range`. Fails with an error that names the argument otherwise.
///
/// `#[arg(range = …)]` checks an argument before the function runs. This function is for a range
/// that depends on other values.
///
/// ```
/// use airlock_guest::within;
///
/// assert_eq!(within("limit", 5, &(1..=100)).unwrap(), 5);
/// let error = within("limit", 0, &(1..=100)).unwrap_err();
/// assert_eq!(error.message(), "argument `limit` must be from 1 to 100, not 0");
/// ```
pub fn within<T: PartialOrd + Display>(
    argument: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<T, Error> {
    if range.contains(&value) {
        return Ok(value);
    }
    let min = range.start();
    let max = range.end();
    Err(Error::invalid_input(format!(
        "argument `{argument}` must be from {min} to {max}, not {value}"
    )))
}

fn explain(
    arguments: &str,
    error: &serde_path_to_error::Error<serde_json::Error>,
    schema: &Schema,
    subject: ArgumentSubject,
) -> String {
    let all = subject.all();
    let value = match serde_json::from_str(arguments) {
        Ok(Value::Object(value)) => value,
        Ok(other) => return format!("{all} must be a JSON object, not {}", found(&other)),
        Err(error) => return format!("{all} are not JSON: {error}"),
    };
    let known = names(schema);
    let is_closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let unknown = value.keys().find(|name| is_closed && !known.contains(&name.as_str()));
    if let Some(unknown) = unknown {
        return unknown_argument(unknown, &known, subject);
    }
    if let Some(missing) = required(schema).find(|name| !value.contains_key(*name)) {
        return missing_argument(missing, schema, subject);
    }
    misfit(&Value::Object(value), error, schema, subject)
}

fn unknown_argument(name: &str, known: &[&str], subject: ArgumentSubject) -> String {
    let shown = excerpt(name);
    let one = subject.one();
    if known.is_empty() {
        return format!("unknown {one} `{shown}`; {}", subject.none());
    }
    match nearest(name, known) {
        Some(nearest) => format!("unknown {one} `{shown}`; did you mean `{nearest}`?"),
        None => format!("unknown {one} `{shown}`; known are {}", list(known)),
    }
}

fn missing_argument(name: &str, schema: &Schema, subject: ArgumentSubject) -> String {
    let one = subject.one();
    let property = property(schema, name);
    match property.map(without_null).and_then(expected) {
        Some(expected) => format!("{one} `{name}` is missing; it must be {expected}"),
        None => format!("{one} `{name}` is missing"),
    }
}

/// Explains a value of the wrong type or out of range, at any depth of an argument.
fn misfit(
    arguments: &Value,
    error: &serde_path_to_error::Error<serde_json::Error>,
    schema: &Schema,
    subject: ArgumentSubject,
) -> String {
    let one = subject.one();
    let mut at = arguments;
    let mut expects = Some(schema.as_value());
    for segment in error.path() {
        use serde_path_to_error::Segment;
        let step = match segment {
            Segment::Map { key } => {
                (at.get(key), expects.and_then(|schema| schema.get("properties")?.get(key)))
            }
            Segment::Seq { index } => {
                (at.get(*index), expects.and_then(|schema| schema.get("items")))
            }
            Segment::Enum { .. } | Segment::Unknown => (None, None),
        };
        let Some(value) = step.0 else { break };
        (at, expects) = (value, step.1.map(without_null));
    }
    let path = error.path();
    match expects.filter(|schema| !admits_type(schema, at)).and_then(expected) {
        Some(expected) => format!("{one} `{path}` must be {expected}, not {}", found(at)),
        None => format!("{one} `{path}` does not fit: {}", without_position(error.inner())),
    }
}

/// Returns serde's message without "at line 1 column 20". The model passes the arguments as a value
/// and cannot use a position.
pub(crate) fn without_position(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    message.strip_suffix(&position).unwrap_or(&message).to_owned()
}

fn names(schema: &Schema) -> Vec<&str> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
}

fn required(schema: &Schema) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn property<'s>(schema: &'s Schema, name: &str) -> Option<&'s Value> {
    schema.get("properties")?.get(name)
}

fn nearest<'n>(name: &str, known: &[&'n str]) -> Option<&'n str> {
    let name = name.to_lowercase().replace('-', "_");
    let scored = known.iter().map(|known| {
        (strsim::normalized_damerau_levenshtein(&name, &known.to_lowercase()), *known)
    });
    let (score, nearest) = scored.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (score >= 0.5).then_some(nearest)
}

/// Describes in words what a schema expects; `None` if a type is not enough to describe it.
fn expected(schema: &Value) -> Option<String> {
    if let Some(values) = values(schema) {
        return Some(format!("one of {}", values.join(", ")));
    }
    // That an optional argument may also be null does not help to correct it.
    let types = types(schema).into_iter().filter(|kind| *kind != "null");
    let words: Vec<String> = types.map(|kind| phrase(kind, schema)).collect();
    (!words.is_empty()).then(|| words.join(" or "))
}

/// Returns the other alternative of a schema that admits null, which is how an `Option` may be
/// written.
fn without_null(schema: &Value) -> &Value {
    let halves = schema.get("anyOf").and_then(Value::as_array);
    let other = halves.and_then(|halves| halves.iter().find(|half| types(half) != ["null"]));
    other.unwrap_or(schema)
}

fn phrase(kind: &str, schema: &Value) -> String {
    let bounds = match (schema.get("minimum"), schema.get("maximum")) {
        (Some(minimum), Some(maximum)) => format!(" from {minimum} to {maximum}"),
        (Some(minimum), None) => format!(" of {minimum} or more"),
        (None, Some(maximum)) => format!(" of {maximum} or less"),
        (None, None) => String::new(),
    };
    match kind {
        "integer" => format!("an integer{bounds}"),
        "number" => format!("a number{bounds}"),
        "string" => "a string".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => "an array".to_owned(),
        "object" => "an object".to_owned(),
        other => other.to_owned(),
    }
}

/// Returns the values of an enumeration; `None` if the schema is none.
fn values(schema: &Value) -> Option<Vec<String>> {
    let values = schema.get("enum")?.as_array()?;
    Some(values.iter().filter(|value| !value.is_null()).map(Value::to_string).collect())
}

fn types(schema: &Value) -> Vec<&str> {
    match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

/// Returns whether the value has the right type. The error is then about a detail, which serde's
/// message describes better.
fn admits_type(schema: &Value, value: &Value) -> bool {
    if values(schema).is_some() || matches!(value, Value::Number(_)) {
        return false; // the schema describes these completely
    }
    types(schema).contains(&kind(value))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn found(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => format!("the string \"{}\"", excerpt(text)),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn list(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "read by serde alone")]
    struct Arguments {
        text: String,
        min_length: Option<u32>,
        level: Option<u8>,
        mode: Option<Mode>,
        rows: Option<Vec<Row>>,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        /// Once.
        Once,
        /// Again and again.
        Always,
    }

    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "read by serde alone")]
    struct Row {
        cells: Vec<f64>,
    }

    fn refused(arguments: &str) -> String {
        let error = parse::<Arguments>(arguments).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::InvalidInput);
        error.message().to_owned()
    }

    #[test]
    fn an_option_may_be_left_out_or_null() {
        assert!(parse::<Arguments>(r#"{"text":""}"#).is_ok());
        assert!(parse::<Arguments>(r#"{"text":"","min_length":null}"#).is_ok());
    }

    #[test]
    fn arguments_that_are_no_object_are_refused() {
        insta::assert_snapshot!(refused("[1]"), @"the arguments must be a JSON object, not an array");
        insta::assert_snapshot!(refused(r#"{"text":"#), @"the arguments are not JSON: EOF while parsing a value at line 1 column 8");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_nearest_or_all_known_names() {
        insta::assert_snapshot!(refused(r#"{"text":"","minLength":1}"#), @"unknown argument `minLength`; did you mean `min_length`?");
        insta::assert_snapshot!(refused(r#"{"text":"","colour":1}"#), @"unknown argument `colour`; known are `text`, `min_length`, `level`, `mode`, `rows`");
    }

    #[test]
    fn a_missing_argument_is_named_with_what_it_must_be() {
        insta::assert_snapshot!(refused("{}"), @"argument `text` is missing; it must be a string");
    }

    #[test]
    fn a_wrong_type_is_refused_with_what_was_found_and_expected() {
        insta::assert_snapshot!(refused(r#"{"text":7}"#), @"argument `text` must be a string, not 7");
        insta::assert_snapshot!(refused(r#"{"text":"","min_length":"five"}"#), @r#"argument `min_length` must be an integer of 0 or more, not the string "five""#);
        insta::assert_snapshot!(refused(r#"{"text":"","min_length":-1}"#), @"argument `min_length` must be an integer of 0 or more, not -1");
        insta::assert_snapshot!(refused(r#"{"text":"","min_length":1.5}"#), @"argument `min_length` must be an integer of 0 or more, not 1.5");
        insta::assert_snapshot!(refused(r#"{"text":"","level":256}"#), @"argument `level` must be an integer from 0 to 255, not 256");
        insta::assert_snapshot!(refused(r#"{"text":"","mode":"never"}"#), @r#"argument `mode` must be one of "once", "always", not the string "never""#);
        insta::assert_snapshot!(refused(r#"{"text":"","rows":[{"cells":[1,"x"]}]}"#), @r#"argument `rows[0].cells[1]` must be a number, not the string "x""#);
        insta::assert_snapshot!(refused(r#"{"text":"","rows":[{}]}"#), @"argument `rows[0]` does not fit: missing field `cells`");
    }

    #[test]
    fn a_long_value_is_cut_in_the_message() {
        let long = format!(r#"{{"text":"","min_length":"{}"}}"#, "é".repeat(1000));
        assert!(refused(&long).chars().count() < 140);
    }
}
