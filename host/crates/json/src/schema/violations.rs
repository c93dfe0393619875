//! Violations of a schema by a value, explained to a model: the place, the value that was found,
//! and the value that is expected.

use std::fmt;

use jsonschema::{
    JsonType, ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{
    limits::{MAX_DEPTH, MAX_SHOWN},
    place,
};
use airlock_strings::{cut, nearest};

/// The most violations that are listed; the others are counted. A model mends a few at once, and
/// tries again.
const MAX_REPORTED: usize = 5;
/// The longest text of all violations together, in bytes: about 500 tokens. Five of [`MAX_PROBLEM`]
/// with long places would have three times that, and every failed call adds them to a conversation.
const MAX_TEXT: usize = 2 << 10;
/// The longest problem of one violation, in bytes. A list of [`MAX_LISTED`] values of [`MAX_VALUE`]
/// with a hint fits.
const MAX_PROBLEM: usize = 480;
/// The most values or keys in a list: a schema may permit thousands. The others are counted.
const MAX_LISTED: usize = 8;
/// The longest value in a text, in bytes. Enough to recognize a value that the model itself wrote.
const MAX_VALUE: usize = 40;

/// Violations of a schema by a value. The text is for the model or program that made the value. It
/// has at most 2 KiB, and values in it are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violations {
    reported: Vec<Violation>,
    more: usize,
}

/// One violation of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Place in the value, such as `filters[2].name`; empty for the whole value.
    pub place: String,
    /// The problem at that place, and a valid value where one can be named.
    pub problem: String,
}

impl Violations {
    /// The first violations, at least one and at most five.
    pub fn reported(&self) -> &[Violation] {
        &self.reported
    }

    fn one(problem: impl Into<String>) -> Self {
        Self {
            reported: vec![Violation { place: String::new(), problem: problem.into() }],
            more: 0,
        }
    }

    pub(super) fn too_deep() -> Self {
        Self::one(format!("nested deeper than {MAX_DEPTH} levels"))
    }

    pub(super) fn too_large() -> Self {
        Self::one("too large to be checked against the schema; pass less at once")
    }

    pub(super) fn unexplained() -> Self {
        Self::one("does not match the schema, and is too large to say where")
    }
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = MAX_TEXT;
        let mut unreported = self.more;
        for (index, violation) in self.reported.iter().enumerate() {
            let text = violation.to_string();
            // 32 bytes for the separator and for the line with the number of further violations.
            let Some(rest) = left.checked_sub(text.len() + 32) else {
                unreported += self.reported.len() - index;
                break;
            };
            left = rest;
            let separator = if self.reported.len() + self.more == 1 { "" } else { "\n- " };
            write!(f, "{separator}{text}")?;
        }
        if unreported > 0 { write!(f, "\n- and {unreported} more") } else { Ok(()) }
    }
}

impl std::error::Error for Violations {}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            f.write_str(&self.problem)
        } else {
            write!(f, "{}: {}", self.place, self.problem)
        }
    }
}

/// Explains the first errors and counts the others.
pub(super) fn explain<'v>(
    errors: impl Iterator<Item = ValidationError<'v>>,
    document: &Value,
    instance: &Value,
) -> Violations {
    let explainer = Explainer { document, instance };
    let mut violations = Violations { reported: Vec::new(), more: 0 };
    for error in errors {
        if violations.reported.len() < MAX_REPORTED {
            violations.reported.extend(explainer.explain(&error));
        } else {
            violations.more += 1;
        }
    }
    let beyond = violations.reported.len().saturating_sub(MAX_REPORTED);
    violations.reported.truncate(MAX_REPORTED);
    violations.more += beyond;
    if violations.reported.is_empty() { Violations::unexplained() } else { violations }
}

struct Explainer<'v> {
    document: &'v Value,
    instance: &'v Value,
}

impl Explainer<'_> {
    fn explain(&self, error: &ValidationError<'_>) -> Vec<Violation> {
        let place = place::render(error.instance_path().as_str(), self.instance);
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                vec![Violation {
                    place: place::member(&place, name),
                    problem: cut(self.missing(error, name), MAX_PROBLEM),
                }]
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                let reported = unexpected.iter().take(MAX_REPORTED);
                reported
                    .map(|name| Violation {
                        place: place::member(&place, name),
                        problem: cut(self.unexpected(error, name), MAX_PROBLEM),
                    })
                    .collect()
            }
            Kind::PropertyNames { error } => {
                let place = place::member(&place, error.instance().as_str().unwrap_or_default());
                vec![Violation {
                    place,
                    problem: cut(format!("not allowed as a key{}", expected(error)), MAX_PROBLEM),
                }]
            }
            Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                self.no_form(error, context, place)
            }
            Kind::FalseSchema => {
                let closed = self.members_of_closed(error);
                if closed.is_empty() {
                    return one(place, "not allowed here".into());
                }
                let reported = closed.into_iter().take(MAX_REPORTED);
                reported
                    .map(|name| Violation {
                        place: place::member(&place, name),
                        problem: "not allowed here, nothing is".into(),
                    })
                    .collect()
            }
            _ => one(place, format!("{}{}", found(error.instance()), expected(error))),
        }
    }

    /// Explains a required member that is missing.
    fn missing(&self, error: &ValidationError<'_>, name: &str) -> String {
        let declared = self.declared(error);
        let given = error.instance().as_object().into_iter().flat_map(|members| members.keys());
        let undeclared = given.map(String::as_str).filter(|key| !declared.contains(key));
        let schema = self.holder(error).and_then(|holder| holder.get("properties")?.get(name));
        let expected =
            schema.and_then(type_of).map(|kind| format!(", expected {kind}")).unwrap_or_default();
        let hint = nearest(name, undeclared)
            .map(|near| format!("; did you write {near:?} for it?"))
            .unwrap_or_default();
        format!("missing{expected}{hint}")
    }

    /// Explains a member that is not allowed.
    fn unexpected(&self, error: &ValidationError<'_>, name: &str) -> String {
        let declared = self.declared(error);
        let given = error.instance().as_object();
        let free: Vec<_> = declared
            .iter()
            .copied()
            .filter(|key| !given.is_some_and(|given| given.contains_key(*key)))
            .collect();
        let hint = nearest(name, free.iter().copied())
            .map(|near| format!("; did you mean {near:?}?"))
            .unwrap_or_default();
        // With `unevaluatedProperties`, other subschemas may declare further names.
        let are_all =
            matches!(error.kind(), Kind::AdditionalProperties { .. }) && !declared.is_empty();
        let allowed = if are_all {
            format!("; allowed are {}", list(declared.iter().map(|key| format!("{key:?}"))))
        } else {
            String::new()
        };
        format!("not allowed here{allowed}{hint}")
    }

    /// Returns the members of an object that may have none. `jsonschema` reports such members as
    /// one error of the object.
    fn members_of_closed(&self, error: &ValidationError<'_>) -> Vec<&String> {
        let keyword = error.schema_path().as_str().rsplit('/').next();
        let object =
            self.instance.pointer(error.instance_path().as_str()).and_then(Value::as_object);
        let closed =
            object.filter(|_| matches!(keyword, Some("additionalProperties" | "propertyNames")));
        closed.into_iter().flat_map(|members| members.keys()).collect()
    }

    /// Returns the subschema that has the keyword of an error.
    fn holder(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (holder, _) = error.schema_path().as_str().rsplit_once('/')?;
        self.document.pointer(holder)
    }

    /// Returns the names in the `properties` of an error's subschema.
    fn declared(&self, error: &ValidationError<'_>) -> Vec<&str> {
        let properties =
            self.holder(error).and_then(|holder| holder.get("properties")?.as_object());
        properties
            .into_iter()
            .flat_map(|properties| properties.keys())
            .map(String::as_str)
            .collect()
    }

    /// Explains a value that fits none of several forms. Lists the expectations of all forms if
    /// each has one short expectation for this value. Otherwise explains the errors of the nearest
    /// form.
    fn no_form(
        &self,
        error: &ValidationError<'_>,
        forms: &[Vec<ValidationError<'static>>],
        place: String,
    ) -> Vec<Violation> {
        let here = error.instance_path().as_str();
        let words: Option<Vec<String>> = forms
            .iter()
            .map(|errors| match &errors[..] {
                [only] if only.instance_path().as_str() == here => expectation(only),
                _ => None,
            })
            .collect();
        if let Some(mut words) = words {
            words.dedup();
            let problem = format!("{}, expected {}", found(error.instance()), words.join(" or "));
            return one(place, problem);
        }
        // A form for another type, or with another constant, is probably not the intended one.
        let meant = forms.iter().min_by_key(|errors| {
            (errors.iter().filter(|error| is_foreign(error, here)).count(), errors.len())
        });
        let Some(meant) = meant else {
            return one(place, "no form of it is allowed".into());
        };
        let count = forms.len();
        meant
            .iter()
            .flat_map(|error| self.explain(error))
            .take(MAX_REPORTED)
            .map(|Violation { place, problem }| Violation {
                place,
                problem: cut(
                    format!("{problem} (of {count} forms, what was given is nearest to this)"),
                    MAX_PROBLEM,
                ),
            })
            .collect()
    }
}

fn one(place: String, problem: String) -> Vec<Violation> {
    vec![Violation { place, problem: cut(problem, MAX_PROBLEM) }]
}

/// Returns whether an error of a form shows that the form is for other values than the one at `here`.
fn is_foreign(error: &ValidationError<'_>, here: &str) -> bool {
    match error.kind() {
        Kind::Type { .. } => error.instance_path().as_str() == here,
        Kind::Constant { .. } | Kind::Enum { .. } => true,
        _ => false,
    }
}

fn expected(error: &ValidationError<'_>) -> String {
    expectation(error).map(|text| format!(", expected {text}")).unwrap_or_default()
}

/// Returns the expectation of an error's keyword; `None` if it has no short text.
fn expectation(error: &ValidationError<'_>) -> Option<String> {
    let instance = error.instance();
    Some(match error.kind() {
        Kind::Type { kind } => with_hint(types(kind), instance),
        Kind::Enum { options } => {
            let options = options.as_array().map_or(&[][..], Vec::as_slice);
            let near = instance
                .as_str()
                .and_then(|given| nearest(given, options.iter().filter_map(Value::as_str)));
            let hint = near
                .map(|near| format!("; did you mean {:?}?", cut(near.to_owned(), MAX_VALUE)))
                .unwrap_or_default();
            let values = list(options.iter().map(shown));
            if options.len() == 1 { values } else { format!("one of {values}{hint}") }
        }
        Kind::Constant { expected_value } => shown(expected_value),
        Kind::Minimum { limit } => format!("at least {limit}"),
        Kind::Maximum { limit } => format!("at most {limit}"),
        Kind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        Kind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        Kind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        Kind::MinLength { limit } => format!("at least {}", plural(*limit, "character")),
        Kind::MaxLength { limit } => format!("at most {}", plural(*limit, "character")),
        Kind::MinItems { limit } => format!("at least {}", plural(*limit, "item")),
        Kind::MaxItems { limit } => format!("at most {}", plural(*limit, "item")),
        Kind::AdditionalItems { limit } => {
            format!("at most {}", plural(u64::try_from(*limit).unwrap_or(u64::MAX), "item"))
        }
        Kind::MinProperties { limit } => format!("at least {}", plural(*limit, "member")),
        Kind::MaxProperties { limit } => format!("at most {}", plural(*limit, "member")),
        Kind::Pattern { pattern } => {
            format!("text that matches {}", cut(pattern.clone(), MAX_SHOWN))
        }
        Kind::UniqueItems => "each item only once".into(),
        Kind::Contains => "as many items that match \"contains\" as the schema asks for".into(),
        Kind::UnevaluatedItems { .. } => "fewer items".into(),
        Kind::FalseSchema => "nothing".into(),
        Kind::Not { schema } => {
            format!("anything that does not match {}", cut(schema.to_string(), MAX_SHOWN))
        }
        Kind::OneOfMultipleValid { .. } => {
            "exactly one of several forms, and it has more than one".into()
        }
        Kind::AnyOf { .. }
        | Kind::OneOfNotValid { .. }
        | Kind::Required { .. }
        | Kind::AdditionalProperties { .. }
        | Kind::UnevaluatedProperties { .. }
        | Kind::PropertyNames { .. } => return None,
        _ => cut(error.masked().to_string(), MAX_SHOWN),
    })
}

/// Adds a hint to expected types if the value is a string that looks like the JSON text of such a
/// type. Models often make this mistake.
fn with_hint(types: String, instance: &Value) -> String {
    let Value::String(text) = instance else { return types };
    let text = text.trim_start();
    let is_quoted = match types.as_str() {
        "an array" => text.starts_with('['),
        "an object" => text.starts_with('{'),
        "a number" | "an integer" => text.parse::<f64>().is_ok(),
        "a boolean" => matches!(text, "true" | "false"),
        _ => false,
    };
    if is_quoted { format!("{types}, not its text in quotes") } else { types }
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(*one).to_owned(),
        TypeKind::Multiple(several) => {
            several.iter().map(type_name).collect::<Vec<_>>().join(" or ")
        }
    }
}

fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

/// Returns the type that a subschema requires; `None` if it does not require exactly one.
fn type_of(schema: &Value) -> Option<&'static str> {
    schema.get("type")?.as_str()?.parse().ok().map(type_name)
}

/// Describes the value that was found, shortened.
fn found(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("found an array of {}", plural(items.len() as u64, "item")),
        Value::Object(members) if members.is_empty() => "found an empty object".into(),
        Value::Object(members) => {
            format!(
                "found an object with {}",
                list(members.keys().map(|key| format!("{:?}", cut(key.clone(), MAX_VALUE))))
            )
        }
        Value::String(text) if text.len() > MAX_VALUE => {
            format!(
                "found {} of {}",
                shown(value),
                plural(text.chars().count() as u64, "character")
            )
        }
        _ => format!("found {}", shown(value)),
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{:?}", cut(text.clone(), MAX_VALUE)),
        Value::Array(_) | Value::Object(_) => cut(value.to_string(), MAX_VALUE),
        _ => value.to_string(),
    }
}

fn list(items: impl ExactSizeIterator<Item = String>) -> String {
    let rest = items.len().saturating_sub(MAX_LISTED);
    let listed =
        items.take(MAX_LISTED).map(|item| cut(item, MAX_VALUE + 2)).collect::<Vec<_>>().join(", ");
    if rest > 0 { format!("{listed} and {rest} more") } else { listed }
}

fn plural(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}
