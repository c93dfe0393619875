//! Deserializes JSON into the file's types, with errors for the operator.
//!
//! `serde_json`'s own errors would quote a value of the wrong type, which may be a misplaced secret.
//! [`Invalid`] quotes names but no values, and has the position as a key path. A reading stops at the
//! first problem, so a file is read again without each value that was refused.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer, StrDeserializer},
    },
    forward_to_deserialize_any,
};
use serde_json::Value;
use serde_path_to_error::{Path, Track};

use super::{
    error::Problem,
    json,
    key_path::{KeyPath, Segment},
    skipped::Skipped,
    unsupported,
};
use airlock_strings::nearest;

/// Bounds of one reading. Each problem takes another pass over the value.
#[derive(Clone, Copy)]
struct ReadBounds {
    /// Maximum number of problems that are collected. A file with more mistakes is read again after they
    /// are corrected.
    problems: usize,
    /// Maximum number of values that are skipped.
    skipped: usize,
}

/// Bounds for a file, which an operator writes.
const FILE: ReadBounds = ReadBounds { problems: 1_000, skipped: 100 };
/// Bounds for an entry of the store, of which there are many.
const ENTRY: ReadBounds = ReadBounds { problems: 20, skipped: 20 };

/// A file, as far as it could be read.
pub struct Reading<T> {
    /// The file without the values that could not be read; `None` if nothing of it can be used.
    pub value: Option<T>,
    /// All problems that reading found.
    pub problems: Vec<Problem>,
    /// The values that could not be read.
    pub skipped: Skipped,
}

/// Reads a value. A value that cannot be read is noted and skipped, together with the object that
/// requires it, so that one reading finds every problem.
pub fn read<T: DeserializeOwned>(value: &Value) -> Reading<T> {
    read_within(FILE, value)
}

/// Reads an entry of the store. Returns its problems if it has any.
pub fn read_entry<T: DeserializeOwned>(value: &Value) -> Result<T, Vec<Problem>> {
    let Reading { value, problems, .. } = read_within(ENTRY, value);
    value.filter(|_| problems.is_empty()).ok_or(problems)
}

fn read_within<T: DeserializeOwned>(bounds: ReadBounds, value: &Value) -> Reading<T> {
    let mut rest = value.clone();
    let mut problems = Vec::new();
    let mut skipped = Skipped::default();
    loop {
        let mut track = Track::new();
        let reader = serde_path_to_error::Deserializer::new(ValueDeserializer(&rest), &mut track);
        let invalid = match T::deserialize(reader) {
            Ok(value) => return Reading { value: Some(value), problems, skipped },
            Err(invalid) => invalid,
        };
        let mut path = segments(&track.path());
        let reason = invalid.reason(path.last());
        path.extend(invalid.member.map(|member| Segment::Member(member.to_owned())));
        let key = skipped.restore(&KeyPath::from(path.clone()));
        if !skipped.contains(&key) {
            problems.push(Problem { key, message: reason.unwrap_or(invalid.message) });
        }
        if problems.len() >= bounds.problems || skipped.len() >= bounds.skipped {
            return Reading { value: None, problems, skipped };
        }
        // A value that is absent is required by the object around it.
        while !json::remove(&mut rest, &path) {
            if path.pop().is_none() {
                return Reading { value: None, problems, skipped };
            }
        }
        if !invalid.is_unknown_key {
            skipped.insert(skipped.restore(&KeyPath::from(path.clone())));
        }
    }
}

fn segments(path: &Path) -> Vec<Segment> {
    let segments = path.iter().filter_map(|segment| match segment {
        serde_path_to_error::Segment::Seq { index } => Some(Segment::Element(*index)),
        serde_path_to_error::Segment::Map { key } => Some(Segment::Member(key.clone())),
        // The file's enums have no members, and its keys are text.
        serde_path_to_error::Segment::Enum { .. } | serde_path_to_error::Segment::Unknown => None,
    });
    segments.collect()
}

/// Deserializes a value. A `null` member counts as absent, because programs write files like that.
#[derive(Clone, Copy)]
struct ValueDeserializer<'de>(&'de Value);

impl<'de> IntoDeserializer<'de, Invalid> for ValueDeserializer<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for ValueDeserializer<'de> {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => {
                visitor.visit_seq(SeqDeserializer::new(elements.iter().map(Self)))
            }
            Value::Object(members) => {
                let members = members.iter().filter(|(_, value)| !value.is_null());
                let members = members.map(|(key, value)| (key.as_str(), Self(value)));
                visitor
                    .visit_map(MapDeserializer::new(members))
                    .map_err(|invalid| invalid.within(""))
            }
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (_, Some(value)) => visitor.visit_i64(value),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        let Value::Object(members) = self.0 else {
            // serde itself would accept an array here, as members by position.
            return Err(de::Error::invalid_type(unexpected(self.0), &visitor));
        };
        let members = members.iter().filter(|(key, value)| {
            let is_known = fields.contains(&key.as_str());
            if is_known { !value.is_null() } else { !unsupported::is_moot(name, key, value) }
        });
        let members = members.map(|(key, value)| (key.as_str(), Self(value)));
        visitor.visit_map(MapDeserializer::new(members)).map_err(|invalid| invalid.within(name))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        match self.0 {
            Value::String(text) if variants.contains(&text.as_str()) => {
                let text: StrDeserializer<'_, Invalid> = text.as_str().into_deserializer();
                visitor.visit_enum(text)
            }
            Value::String(text) => Err(unsupported::value(name, text)
                .map_or_else(|| de::Error::unknown_variant(text, variants), Invalid::new)),
            other => Err(Invalid::new(format!(
                "expected {}, found {}",
                any_of(variants),
                found(&unexpected(other))
            ))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// A problem of the value that is being read.
#[derive(Debug)]
struct Invalid {
    /// Member of the value that the problem is about.
    member: Option<&'static str>,
    /// True if the value is one of an unknown key.
    is_unknown_key: bool,
    /// The innermost type that has the value in it; empty if it is not a struct.
    owner: Option<&'static str>,
    message: String,
}

impl Invalid {
    fn new(message: impl Into<String>) -> Self {
        Self { member: None, is_unknown_key: false, owner: None, message: message.into() }
    }

    /// Sets the type, unless it is already set by a more specific position.
    fn within(mut self, owner: &'static str) -> Self {
        self.owner.get_or_insert(owner);
        self
    }

    /// Returns the reason for which an unknown key is refused, if one is known.
    fn reason(&self, key: Option<&Segment>) -> Option<String> {
        match key {
            Some(Segment::Member(key)) if self.is_unknown_key => unsupported::key(self.owner?, key),
            _ => None,
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Invalid {}

impl de::Error for Invalid {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(format!("expected {}, found {}", wanted(expected), found(&unexpected)))
    }

    fn invalid_value(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(unexpected, expected)
    }

    fn unknown_variant(variant: &str, variants: &'static [&'static str]) -> Self {
        let variant = airlock_strings::cut(variant.to_owned(), 64);
        Self::new(match nearest(&variant, variants.iter().copied()) {
            Some(near) => {
                format!("found {variant:?}; did you mean {near:?}? Valid: {}", any_of(variants))
            }
            None => format!("found {variant:?}, expected {}", any_of(variants)),
        })
    }

    fn unknown_field(field: &str, fields: &'static [&'static str]) -> Self {
        Self { is_unknown_key: true, ..Self::new(unknown_key(field, fields)) }
    }

    /// A key that is written twice is refused before: these are two spellings of one key.
    fn duplicate_field(field: &'static str) -> Self {
        let message =
            format!("is set twice: by `{field}`, and by another spelling of the same key");
        Self { member: Some(field), ..Self::new(message) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { member: Some(field), ..Self::new("is required, but missing") }
    }
}

fn unknown_key(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown key; did you mean {near:?}?"),
        None => format!("unknown key; valid here are {}", known.join(", ")),
    }
}

fn any_of(names: &[&str]) -> String {
    let quoted: Vec<_> = names.iter().map(|name| format!("{name:?}")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}

/// Translates serde's description of the expected type into JSON terms.
fn wanted(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a sequence" => "an array".into(),
        "a map" => "an object".into(),
        "a boolean" => "true or false".into(),
        "u64" => "a whole number from 0".into(),
        "u32" => format!("a whole number from 0 to {}", u32::MAX),
        _ if text.starts_with("struct ") => "an object".into(),
        _ => text,
    }
}

/// Describes the found value. Numbers are quoted, strings never are, because they may be secrets.
fn found(unexpected: &Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => value.to_string(),
        Unexpected::Unit => "null".into(),
        Unexpected::Seq => "an array".into(),
        Unexpected::Map => "an object".into(),
        _ => "a string".into(),
    }
}

fn unexpected(value: &Value) -> Unexpected<'_> {
    match value {
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(number) => Unexpected::Float(number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
        Value::Object(_) => Unexpected::Map,
    }
}
