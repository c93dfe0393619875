//! Deserializes JSON into the file's types, with errors for the operator.
//!
//! `serde_json`'s own deserializer would quote a value of the wrong type, which may be a misplaced
//! secret, and would stop at the first unknown key. This one tracks key paths, collects unknown
//! keys, and quotes names but no values.

use std::{cell::RefCell, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{
        self, DeserializeSeed, Expected, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
        Visitor, value::StrDeserializer,
    },
    forward_to_deserialize_any,
};
use serde_json::{Map, Value};

use super::{KeyPath, Problem, skipped::Skipped, unsupported};
use airlock_strings::nearest;

/// Maximum number of values that are skipped. A file with more mistakes is read again after they are
/// corrected.
const MAX_SKIPPED: usize = 100;

/// A file, as far as it could be read.
pub(super) struct Reading<T> {
    /// The file without the values that could not be read; `None` if nothing of it can be used.
    pub(super) value: Option<T>,
    /// All problems that reading found.
    pub(super) problems: Vec<Problem>,
    /// The values that could not be read.
    pub(super) skipped: Skipped,
}

/// Reads a value. A value that cannot be read is noted and skipped, together with the object that
/// requires it, so that one reading finds every problem.
pub(super) fn read<'de, T: Deserialize<'de>>(value: &'de Value) -> Reading<T> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut skipped = Skipped::default();
    loop {
        let unknown = RefCell::default();
        let reader =
            Reader { value, key: KeyPath::default(), unknown: &unknown, skipped: &skipped };
        let read = T::deserialize(reader);
        // A repeated reading finds the unknown keys again.
        for problem in unknown.into_inner() {
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let invalid = match read {
            Ok(value) => return Reading { value: Some(value), problems, skipped },
            Err(invalid) => invalid,
        };
        let Invalid { key, owner, is_absent, .. } = &invalid;
        let key = key.clone().unwrap_or_default();
        let was_skipped = skipped.contains(&key);
        let unusable = if was_skipped || *is_absent { owner.clone() } else { Some(key) };
        if !was_skipped {
            problems.push(invalid.into());
        }
        match unusable {
            Some(unusable) if !unusable.is_file() && skipped.len() < MAX_SKIPPED => {
                skipped.insert(unusable);
            }
            _ => return Reading { value: None, problems, skipped },
        }
    }
}

/// One value and its key path.
struct Reader<'de, 'p> {
    value: &'de Value,
    key: KeyPath,
    unknown: &'p RefCell<Vec<Problem>>,
    skipped: &'p Skipped,
}

impl<'de> Reader<'de, '_> {
    fn visit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        let key = self.key.clone();
        let visited = match self.value {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(elements) => {
                visitor.visit_seq(Elements { reader: self, elements: elements.iter().enumerate() })
            }
            Value::Object(members) => visitor.visit_map(Members::new(self, members)),
            Value::Number(number) => match (number.as_u64(), number.as_i64()) {
                (Some(value), _) => visitor.visit_u64(value),
                (_, Some(value)) => visitor.visit_i64(value),
                _ => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
            },
        };
        visited.map_err(|invalid: Invalid| invalid.at(&key))
    }

    fn child(&self, value: &'de Value, key: KeyPath) -> Self {
        Self { value, key, ..*self }
    }

    /// Notes every key that the type `owner` does not have, except those whose value asks for what
    /// the gateway does anyway.
    fn note_unknown(&self, owner: &'static str, known: &[&str], members: &Map<String, Value>) {
        let unknown = members.iter().filter(|(name, value)| {
            !known.contains(&name.as_str()) && !unsupported::is_moot(owner, name, value)
        });
        self.unknown.borrow_mut().extend(unknown.map(|(name, _)| Problem {
            key: self.key.member(name),
            message: unsupported::key(owner, name).unwrap_or_else(|| unknown_key(name, known)),
        }));
    }
}

impl<'de> Deserializer<'de> for Reader<'de, '_> {
    type Error = Invalid;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Invalid> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
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
        let Value::Object(members) = self.value else {
            // serde itself would accept an array here, as members by position.
            let invalid: Invalid = de::Error::invalid_type(unexpected(self.value), &visitor);
            return Err(invalid.at(&self.key));
        };
        self.note_unknown(name, fields, members);
        let key = self.key.clone();
        visitor
            .visit_map(Members::new(self, members).only(fields))
            .map_err(|invalid| invalid.at(&key))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Invalid> {
        let invalid = match self.value {
            Value::String(text) if variants.contains(&text.as_str()) => {
                let text: StrDeserializer<'_, Invalid> = text.as_str().into_deserializer();
                return visitor.visit_enum(text);
            }
            Value::String(text) => unsupported::value(name, text)
                .map_or_else(|| de::Error::unknown_variant(text, variants), Invalid::new),
            other => Invalid::new(format!(
                "expected {}, found {}",
                any_of(variants),
                found(&unexpected(other))
            )),
        };
        Err(invalid.at(&self.key))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

struct Elements<'de, 'p> {
    reader: Reader<'de, 'p>,
    elements: std::iter::Enumerate<std::slice::Iter<'de, Value>>,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Invalid;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Invalid> {
        let reader = &self.reader;
        let kept =
            self.elements.find(|(index, _)| !reader.skipped.contains(&reader.key.element(*index)));
        let Some((index, element)) = kept else {
            return Ok(None);
        };
        let key = self.reader.key.element(index);
        seed.deserialize(self.reader.child(element, key.clone()))
            .map(Some)
            .map_err(|invalid| invalid.at(&key))
    }
}

/// Members of an object. A `null` member counts as absent, because programs write files like that.
struct Members<'de, 'p> {
    reader: Reader<'de, 'p>,
    rest: serde_json::map::Iter<'de>,
    only: Option<&'static [&'static str]>,
    next: Option<(&'de str, &'de Value)>,
}

impl<'de, 'p> Members<'de, 'p> {
    fn new(reader: Reader<'de, 'p>, members: &'de Map<String, Value>) -> Self {
        Self { reader, rest: members.iter(), only: None, next: None }
    }

    fn only(self, fields: &'static [&'static str]) -> Self {
        Self { only: Some(fields), ..self }
    }
}

impl<'de> MapAccess<'de> for Members<'de, '_> {
    type Error = Invalid;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Invalid> {
        let only = self.only;
        let reader = &self.reader;
        let wanted = self.rest.find(|(name, value)| {
            !value.is_null()
                && only.is_none_or(|only| only.contains(&name.as_str()))
                && !reader.skipped.contains(&reader.key.member(name))
        });
        let Some((name, value)) = wanted else {
            return Ok(None);
        };
        self.next = Some((name, value));
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Invalid> {
        let (name, value) = self.next.take().expect("serde asks for a value after its key");
        let key = self.reader.key.member(name);
        seed.deserialize(self.reader.child(value, key.clone())).map_err(|invalid| invalid.at(&key))
    }
}

/// A problem whose key path may not be known yet.
#[derive(Debug)]
struct Invalid {
    /// Member of the current value that the problem is about.
    member: Option<&'static str>,
    key: Option<KeyPath>,
    /// The object or array that `key` is directly in.
    owner: Option<KeyPath>,
    /// True if the file has no value with this key.
    is_absent: bool,
    message: String,
}

impl Invalid {
    fn new(message: impl Into<String>) -> Self {
        Self { member: None, key: None, owner: None, is_absent: false, message: message.into() }
    }

    /// Sets the key path, unless it is already set by a more specific position.
    fn at(mut self, key: &KeyPath) -> Self {
        let member = self.member;
        let own = self
            .key
            .get_or_insert_with(|| member.map_or_else(|| key.clone(), |member| key.member(member)));
        if own != key {
            self.owner.get_or_insert_with(|| key.clone());
        }
        self
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self { key: invalid.key.unwrap_or_default(), message: invalid.message }
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
        Self::new(format!("{field:?}: {}", unknown_key(field, fields)))
    }

    /// A key that is written twice is refused before: these are two spellings of one key.
    fn duplicate_field(field: &'static str) -> Self {
        let message =
            format!("is set twice: by `{field}`, and by another spelling of the same key");
        Self { member: Some(field), ..Self::new(message) }
    }

    fn missing_field(field: &'static str) -> Self {
        Self { member: Some(field), is_absent: true, ..Self::new("is required, but missing") }
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
