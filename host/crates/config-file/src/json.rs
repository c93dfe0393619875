//! Parses text as JSON, more strictly than usual: a duplicate key is an error, because one of the
//! two values would be silently lost.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{self, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

use super::{error::Problem, key_path::Segment};

/// Maximum size of a configuration file, in bytes. A larger file is a mistake, such as the wrong
/// file.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Parses a whole file. If it is not JSON, the problem names line and column.
pub fn parse(text: &str) -> Result<Value, Problem> {
    if text.len() > MAX_FILE_BYTES {
        return Err(Problem::of_file(format!("is larger than {} MiB", MAX_FILE_BYTES >> 20)));
    }
    if text.trim().is_empty() {
        return Err(Problem::of_file("is empty; `{}` is the smallest configuration".to_owned()));
    }
    serde_json::from_str(text).map(|Strict(value)| value).map_err(|error| {
        let place = format!(" at line {} column {}", error.line(), error.column());
        let message = error.to_string();
        let what = message.strip_suffix(&place).unwrap_or(&message);
        Problem::of_file(format!("line {}, column {}: {what}", error.line(), error.column()))
    })
}

/// Removes the value at a path. Returns whether there was one.
pub fn remove(value: &mut Value, path: &[Segment]) -> bool {
    let Some((last, outer)) = path.split_last() else { return false };
    match (last, get_mut(value, outer)) {
        (Segment::Member(name), Some(Value::Object(members))) => {
            members.shift_remove(name).is_some()
        }
        (Segment::Element(index), Some(Value::Array(elements))) if *index < elements.len() => {
            elements.remove(*index);
            true
        }
        _ => false,
    }
}

/// Sets the value at a path of members, and makes the objects around it that do not exist.
pub fn set(value: &mut Value, path: &[Segment], new: Value) {
    let [Segment::Member(name), rest @ ..] = path else {
        *value = new;
        return;
    };
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    if let Value::Object(members) = value {
        set(members.entry(name).or_insert(Value::Null), rest, new);
    }
}

/// Returns the value at a path.
pub fn get_mut<'v>(value: &'v mut Value, path: &[Segment]) -> Option<&'v mut Value> {
    path.iter().try_fold(value, |value, segment| match segment {
        Segment::Member(name) => value.get_mut(name),
        Segment::Element(index) => value.get_mut(index),
        Segment::Named(_) => None,
    })
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(element)) = elements.next_element()? {
            array.push(element);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format_args!(
                    "the key {key:?} is written twice in one object"
                )));
            }
            let Strict(value) = members.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }
}
