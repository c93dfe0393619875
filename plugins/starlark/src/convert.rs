//! JSON to Starlark values and back.
//!
//! From JSON, nothing is lost: integers of any size stay integers, and keys keep their order. To
//! JSON, a value either can be represented or the script fails with an explanation; a value without
//! a JSON form becomes its `repr`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use num_bigint::BigInt;
use serde::Serialize;
use serde_json::{Number, Value as Json};
use starlark::values::dict::AllocDict;
use starlark::values::list::AllocList;
use starlark::values::none::NoneType;
use starlark::values::structs::StructRef;
use starlark::values::{Heap, Value, ValueLike as _};

use crate::library::values::{as_dict, strict_float};
use crate::library::{datetime, text};
use crate::tool::ErrorValue;

/// Largest depth of nested lists and dicts in the output. The JSON parsers of the receiver have the
/// same limit.
const MAX_DEPTH: usize = 128;

/// Reason for which a value cannot be JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unfit {
    /// It nests deeper than [`MAX_DEPTH`], perhaps endlessly.
    Deep,
    /// It contains an infinity or NaN.
    NotFinite,
    /// Two keys of a dict have the same text.
    SameKey(String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deep => write!(f, "it nests deeper than {MAX_DEPTH} levels, or contains itself"),
            Self::NotFinite => {
                f.write_str("it contains a float that JSON cannot hold (nan or infinity)")
            }
            Self::SameKey(key) => {
                write!(f, "a dict in it has two keys that are both \"{key}\" as text")
            }
        }
    }
}

/// Parses JSON text as a value.
pub(crate) fn from_json<'v>(json: &str, heap: Heap<'v>) -> serde_json::Result<Value<'v>> {
    serde_json::from_str(json).map(|json| value(&json, heap))
}

fn value<'v>(json: &Json, heap: Heap<'v>) -> Value<'v> {
    match json {
        Json::Null => heap.alloc(NoneType),
        Json::Bool(it) => heap.alloc(*it),
        Json::Number(it) => number(it, heap),
        Json::String(it) => heap.alloc(it.as_str()),
        Json::Array(items) => heap.alloc(AllocList(items.iter().map(|item| value(item, heap)))),
        Json::Object(fields) => heap
            .alloc(AllocDict(fields.iter().map(|(key, item)| (key.as_str(), value(item, heap))))),
    }
}

/// Converts a number. Starlark's own conversion panics at `1e999` and rounds integers beyond 64
/// bits. Here the first becomes infinite, as in Python, and the second stays exact.
fn number<'v>(number: &Number, heap: Heap<'v>) -> Value<'v> {
    if let Some(small) = number.as_i64() {
        return heap.alloc(small);
    }
    let text = number.to_string();
    match text.parse::<BigInt>() {
        Ok(big) => heap.alloc(big),
        Err(_) => heap.alloc(text.parse::<f64>().unwrap_or(f64::NAN)),
    }
}

/// Serializes a value as JSON text.
pub(crate) fn to_json<'v>(value: Value<'v>, heap: Heap<'v>) -> Result<String, Unfit> {
    let mut writer = Writer { heap, out: Vec::new(), depth: 0 };
    writer.value(value)?;
    Ok(writer.finish())
}

/// Serializes named values as a JSON object.
pub(crate) fn to_object<'v, 'k>(
    fields: impl Iterator<Item = (&'k str, Value<'v>)>,
    heap: Heap<'v>,
) -> Result<String, Unfit> {
    let mut writer = Writer { heap, out: Vec::new(), depth: 0 };
    writer.object(fields)?;
    Ok(writer.finish())
}

struct Writer<'v> {
    heap: Heap<'v>,
    out: Vec<u8>,
    depth: usize,
}

impl<'v> Writer<'v> {
    fn finish(self) -> String {
        String::from_utf8(self.out).expect("JSON is written from text")
    }

    fn value(&mut self, value: Value<'v>) -> Result<(), Unfit> {
        match value.get_type() {
            "NoneType" => self.out.extend(b"null"),
            "bool" => self.scalar(value.to_bool()),
            "string" => self.string(value.unpack_str().unwrap_or_default()),
            "int" => self.integer(&value.to_str()),
            "float" => self.float(value)?,
            "list" | "tuple" | "set" | "range" | "deque" | "generator" => self.array(value)?,
            "dict" | "defaultdict" | "struct" => self.fields(value)?,
            "error" => {
                if let Some(error) = value.downcast_ref::<ErrorValue>() {
                    self.object(error.fields(self.heap))?;
                }
            }
            _ => match datetime::json_text(value) {
                Some(date) => self.string(&date),
                None => self.string(&text::str(value, self.heap)),
            },
        }
        Ok(())
    }

    fn string(&mut self, text: &str) {
        self.scalar(text);
    }

    fn scalar(&mut self, value: impl Serialize) {
        serde_json::to_writer(&mut self.out, &value)
            .expect("a scalar has JSON, and memory takes it");
    }

    /// Writes an integer, as text if a 64-bit reader would round it.
    fn integer(&mut self, digits: &str) {
        if digits.parse::<i64>().is_ok() || digits.parse::<u64>().is_ok() {
            self.out.extend(digits.as_bytes());
        } else {
            self.string(digits);
        }
    }

    fn float(&mut self, value: Value<'v>) -> Result<(), Unfit> {
        let float =
            strict_float(value).filter(|float| float.is_finite()).ok_or(Unfit::NotFinite)?;
        self.out.extend(text::float_repr(float).bytes());
        Ok(())
    }

    fn array(&mut self, value: Value<'v>) -> Result<(), Unfit> {
        let Ok(items) = value.iterate(self.heap) else {
            self.string(&value.to_repr());
            return Ok(());
        };
        self.enclosed(b'[', b']', items, Self::value)
    }

    fn fields(&mut self, value: Value<'v>) -> Result<(), Unfit> {
        if let Some(it) = StructRef::from_value(value) {
            return self.object(it.iter().map(|(name, item)| (name.as_str(), item)));
        }
        let dict = as_dict(value).expect("what is of type dict is one");
        let keys: Vec<_> = dict.keys().map(|key| key_text(key, self.heap)).collect();
        // String keys are distinct already; `1` and "1" become equal when both are text.
        if dict.keys().any(|key| key.unpack_str().is_none()) {
            let mut seen = HashSet::new();
            if let Some(twice) = keys.iter().find(|key| !seen.insert(&***key)) {
                return Err(Unfit::SameKey(twice.to_string()));
            }
        }
        self.object(keys.iter().map(|key| &**key).zip(dict.values()))
    }

    fn object<'k>(
        &mut self,
        fields: impl Iterator<Item = (&'k str, Value<'v>)>,
    ) -> Result<(), Unfit> {
        self.enclosed(b'{', b'}', fields, |writer, (key, item)| {
            writer.string(key);
            writer.out.push(b':');
            writer.value(item)
        })
    }

    fn enclosed<T>(
        &mut self,
        open: u8,
        close: u8,
        items: impl Iterator<Item = T>,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        if self.depth == MAX_DEPTH {
            return Err(Unfit::Deep);
        }
        self.depth += 1;
        self.out.push(open);
        for (at, item) in items.enumerate() {
            if at > 0 {
                self.out.push(b',');
            }
            write(self, item)?;
        }
        self.out.push(close);
        self.depth -= 1;
        Ok(())
    }
}

/// Converts a key to text like Python's `json.dumps`.
fn key_text<'v>(key: Value<'v>, heap: Heap<'v>) -> Cow<'v, str> {
    if let Some(text) = key.unpack_str() {
        return text.into();
    }
    match key.unpack_bool() {
        Some(true) => "true".into(),
        Some(false) => "false".into(),
        None if key.is_none() => "null".into(),
        None => text::str(key, heap).into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::run::tests::{fail, result};

    #[test]
    fn every_value_is_serialized_as_expected() {
        for (expression, json) in [
            (
                "[True, 'a\"\\n', 1.0, (1, None), set([2]), range(2)]",
                r#"[true,"a\"\n",1.0,[1,null],[2],[0,1]]"#,
            ),
            ("{'b': 1, 'a': struct(x = 2)}", r#"{"b":1,"a":{"x":2}}"#),
            ("{None: 1, True: 2, 2.5: 3, (1, 2): 4}", r#"{"null":1,"true":2,"2.5":3,"(1, 2)":4}"#),
            (
                "[1 << 63, (1 << 64) - 1, -(1 << 63)]",
                "[9223372036854775808,18446744073709551615,-9223372036854775808]",
            ),
            ("[1 << 64, len]", r#"["18446744073709551616","len"]"#),
        ] {
            assert_eq!(
                result(&format!("result = {expression}")).as_deref(),
                Some(json),
                "{expression}"
            );
        }
    }

    #[test]
    fn json_is_unchanged_after_a_round_trip() {
        let text = r#"{"z":[1,1.0,-0.5,1e3,18446744073709551615,null,true],"a":{"é":"\u0001"}}"#;
        let source = format!("result = json.decode(r'{text}')");
        let same = r#"{"z":[1,1.0,-0.5,1000.0,18446744073709551615,null,true],"a":{"é":"\u0001"}}"#;
        assert_eq!(result(&source).as_deref(), Some(same));
        assert_eq!(
            result("result = json.decode('9' * 40) + 1 == pow(10, 40)").as_deref(),
            Some("true")
        );
    }

    #[test]
    fn numbers_beyond_the_range_of_a_float_are_infinite() {
        assert_eq!(
            result("result = str(json.decode('[1e999, -1e999]'))").as_deref(),
            Some(r#""[inf, -inf]""#)
        );
    }

    #[test]
    fn two_keys_with_the_same_text_are_refused() {
        let message =
            "`result` cannot be returned: a dict in it has two keys that are both \"1\" as text";
        assert_eq!(fail("result = {1: 'a', '1': 'b'}").message, message);
    }

    #[test]
    fn nesting_is_limited_in_both_directions() {
        let deep =
            |levels: usize| format!("x = 1\nfor _ in range({levels}):\n  x = [x]\nresult = x");
        assert_eq!(result(&deep(128)), Some(format!("{}1{}", "[".repeat(128), "]".repeat(128))));
        assert!(fail(&deep(129)).message.contains("128 levels"));
        assert!(
            fail("json.decode('[' * 200 + ']' * 200)")
                .message
                .starts_with("json.decode: recursion limit")
        );
    }
}
